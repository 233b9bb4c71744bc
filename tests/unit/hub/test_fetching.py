"""Step 8 for models that the machine gets by itself: what is to be done, what speaks against it. Pure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checks.snapshot import CouldNotLook
from provision.hub import problems
from provision.hub.order import RESERVE
from provision.hub.problems import Problem
from provision.hub.select import HubFile, Listing
from provision.plan import Item, Refusal
from provision.spec import Hub, Machine, Model
from provision.stack.desired import DesiredModel
from provision.stack.fetching import Fetch, fetch_items, requests
from tests.unit.plan.seen import Seen

COMMIT = "ab" * 20
WHERE = "machine.guests[0].services[0].model"
PLACE = f"/srv/models/org--m@{COMMIT}"
MANIFEST = {"config.json": {"size": 2, "sha256": "a" * 64}, "m.safetensors": {"size": 9, "sha256": "b" * 64}}
LISTING = Listing(
    "org/m",
    COMMIT,
    (
        HubFile("config.json", 2, None, "c" * 40),
        HubFile("m.safetensors", 5 << 30, "b" * 64, None),
        HubFile("m.bin", 5 << 30, "d" * 64, None),
    ),
)


def seen(
    manifest: str | None = None,
    source: str | None = None,
    disk: str = "99999999999 5000\n",
    python: str = "3 11\n",
) -> Seen:
    found = Seen().model(PLACE, manifest).put("file", f"{PLACE}/kpro-source.json", source)
    return found.cmd(f"models-disk-{PLACE}", disk).cmd("models-python", python)


class Decided:
    def __init__(
        self, found: Seen | None, answer: Listing | Problem | None = None, role: Any = "model", **more: Any
    ) -> None:
        spec = Model(repo="org/m", revision=COMMIT, **{"source": "hub", **more})
        model = DesiredModel(spec.directory, None, None, spec, role)
        machine = Machine(name="box", hub=Hub(endpoint="https://mirror.example"))
        self.refusals: list[Refusal] = []
        self.notes: list[str] = []
        answers = {} if answer is None else {Fetch(spec, role, PLACE, machine.hub).key: answer}
        snapshot = found.snapshot if found else None
        self.items: list[Item] = fetch_items(
            machine, model, WHERE, "@local", PLACE, snapshot, answers, self.refusals, self.notes
        )


def test_a_model_that_is_missing_is_fetched_and_its_sizes_are_shown() -> None:
    found = Decided(seen(), LISTING)
    (item,) = found.items
    assert (item.kind, item.host, item.subject) == ("stack.fetch", "@local", PLACE)
    assert "org/m@abababababab from https://mirror.example" in item.text
    assert "2 files, 5.0 GiB (1 files, 5.0 GiB, left out" in item.text
    assert found.refusals == []
    assert isinstance(item.payload, Fetch)
    assert Decided(None, LISTING).items == found.items


def test_what_the_plan_is_called_does_not_depend_on_what_the_hub_said() -> None:
    """Otherwise the plan that is carried out would be another one than was shown."""
    unreachable = problems.unreachable("https://mirror.example", "this controller", "no route")
    ids = {Decided(seen(), answer).items[0].id for answer in (None, LISTING, unreachable)}
    assert len(ids) == 1


def test_what_is_there_whole_is_in_sync_and_is_not_even_asked_about() -> None:
    assert Decided(seen(json.dumps(MANIFEST))).items == []
    fetched = json.dumps({"repo": "org/m", "files": None})
    assert Decided(seen(json.dumps(MANIFEST), fetched)).items == []
    # Neither Python nor disk matters any more.
    assert Decided(seen(json.dumps(MANIFEST), fetched, "0 0\n", "3 9\n")).refusals == []


@pytest.mark.parametrize(
    "manifest", ["{cut", "{}", "[]", '{"a": 1}', '{"config.json": {"size": 2}, "gone": {"size": 1}}']
)
def test_a_manifest_that_proves_nothing_is_not_taken_for_whole(manifest: str) -> None:
    found = (
        seen().put("file", f"{PLACE}/kpro-manifest.json", manifest).cmd(f"sizes-{PLACE}", "2 config.json\n")
    )
    assert [item.kind for item in Decided(found).items] == ["stack.fetch"]


def test_a_file_of_another_size_is_mended() -> None:
    found = seen(json.dumps(MANIFEST)).cmd(f"sizes-{PLACE}", "2 config.json\n8 m.safetensors\n")
    assert [item.kind for item in Decided(found).items] == ["stack.fetch"]


def test_other_patterns_fetch_what_is_missing() -> None:
    source = json.dumps({"files": ["*.json", "*.safetensors"]})
    assert Decided(seen(json.dumps(MANIFEST), source), files=("*.json", "*.safetensors")).items == []
    assert Decided(seen(json.dumps(MANIFEST), source), files=("*",)).items != []


@pytest.mark.parametrize(
    "problem",
    [
        problems.gated("org/m", "https://h", token=False, waiting=False),
        problems.gated("org/m", "https://h", token=True, waiting=True),
        problems.wrong_token("https://h"),
        problems.no_repository("org/m", "https://h", token=False),
        problems.no_revision("org/m", COMMIT, "https://h", "e" * 40),
        problems.renamed("org/m", "org/n"),
        problems.other_revision("org/m", COMMIT, "e" * 40),
    ],
)
def test_what_the_hub_refuses_is_refused_before_anything_is_touched(problem: Problem) -> None:
    found = Decided(seen(), problem)
    assert found.items == []
    (refusal,) = found.refusals
    assert (refusal.where, refusal.seen, refusal.next_step) == (WHERE, problem.seen, problem.next)


def test_a_hub_that_only_the_machine_reaches_is_no_refusal_and_the_plan_says_what_is_not_known() -> None:
    found = Decided(seen(), problems.unreachable("https://h", "this controller", "no route"))
    assert found.refusals == []
    assert "how much is not known here" in found.items[0].text


def test_no_model_is_refused_with_the_field() -> None:
    listing = Listing("org/m", COMMIT, (HubFile("README.md", 2, None, "c" * 40),))
    (refusal,) = Decided(seen(), listing).refusals
    assert "is no model" in refusal.seen


SIZE = (5 << 30) + 2


@pytest.mark.parametrize(
    ("disk", "refused"),
    [
        (f"{SIZE + RESERVE} 5000\n", ""),
        (f"{SIZE + RESERVE - 1} 5000\n", "are needed"),
        (f"{RESERVE + (1 << 30)} 5000\n{4 << 30}\n", "are needed"),
        (f"{RESERVE + (1 << 30) + 2} 5000\n{4 << 30}\n", ""),
        (f"{SIZE + RESERVE} 11\n", "inodes"),
        (f"{SIZE + RESERVE} -\n", ""),
        (f"{SIZE + RESERVE} 0\n", ""),
        ("df: nothing\n", ""),
    ],
)
def test_a_disk_that_is_too_small_is_refused_and_what_arrived_before_counts(disk: str, refused: str) -> None:
    texts = [refusal.seen for refusal in Decided(seen(disk=disk), LISTING).refusals]
    assert (refused in texts[0]) if refused else texts == []


@pytest.mark.parametrize(
    ("python", "good"),
    [("3 11\n", True), ("3 13\n", True), ("3 9\n", False), ("", False), ("sh: not found", False)],
)
def test_a_python_that_huggingface_hub_cannot_run_on_is_told_first(python: str, good: bool) -> None:
    refusals = Decided(seen(python=python), LISTING).refusals
    assert ([] if good else ["needs Python 3.11"]) == [
        "needs Python 3.11" for refusal in refusals if "3.11" in refusal.why
    ]


def test_what_could_not_be_looked_at_is_never_taken_for_absent() -> None:
    found = seen().put("file", f"{PLACE}/kpro-manifest.json", None, "Input/output error")
    with pytest.raises(CouldNotLook):
        Decided(found)


def test_a_drafter_still_in_training_is_a_note_and_goes_to_its_gate() -> None:
    found = Decided(seen(), Listing("org/m", COMMIT, LISTING.files, "still under training"), role="drafter")
    assert found.refusals == []
    assert "still under training" in found.notes[0]


def test_a_folder_of_the_machine_needs_no_hub() -> None:
    (item,) = Decided(seen(), source="path", path="/data/m").items
    assert item.text == f"copy /data/m to {PLACE} and verify it"


def test_a_snapshot_looks_with_words_that_a_shell_reads_as_meant() -> None:
    import subprocess

    asked = {
        name: command
        for _, name, command in (
            one.split(":", 2) for one in requests("/nowhere at all/x/it's@1") if one.startswith("cmd:")
        )
    }
    done = subprocess.run(
        ["sh", "-c", asked["models-disk-/nowhere at all/x/it's@1"]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(done.stdout.split()) == 2
    done = subprocess.run(["sh", "-c", asked["models-python"]], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "3"
