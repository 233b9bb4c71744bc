"""A service whose model comes from the hub, by the whole chain: planned with its size, refused before anything is
touched, fetched by the machine, in sync without the hub, and taken up after the controller died.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from provision.testhost import demo_files
from tests.doubles.hub.server import TOKEN, Hub
from tests.guest.place import Place
from tests.guest.rig import LXC, Container, eventually

pytestmark = pytest.mark.usefixtures("one_operator")
REPO, COMMIT = demo_files.DEMO_MODEL_REPO, demo_files.DEMO_REVISION
LARGE = "voice.dat"


@dataclass
class Hubbed(Place):
    """The chain's place, with a model that the machine fetches."""

    hub: Hub = field(default_factory=Hub)

    def write_hub(self, token: str | None = None, revision: str = COMMIT) -> None:
        self.write()
        folder = demo_files.model_folder(self.folder / "files")
        more = ""
        if token is not None:
            path = self.folder / "token"
            path.write_text(token + "\n")
            path.chmod(0o600)
            more = f", token_file={str(path)!r}"
        text = self.inventory.read_text().replace("Model, Service", "Hub, Model, Service")
        text = text.replace(f"folder={str(folder)!r}", "source='hub'").replace(repr(COMMIT), repr(revision))
        text = text.replace(
            "managed=False,", f"managed=False,\n    hub=Hub(endpoint={self.hub.endpoint!r}{more}),"
        )
        assert "source='hub'" in text
        self.inventory.write_text(text)

    def refusals(self) -> list[str]:
        document = self.plan()
        assert document["exit"] == 3, document
        return [refusal["seen"] for machine in document["machines"] for refusal in machine["refusals"]]


@pytest.fixture(scope="module")
def place(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hubbed]:
    place = Hubbed(tmp_path_factory.mktemp("place"), Container(f"kprotest-{os.getpid()}-hub"))
    files = place.folder / "files"
    demo_files.prepare(files)
    folder = demo_files.model_folder(files)
    contents = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    padding = {"padding.bin": os.urandom(8 << 20), LARGE: os.urandom(24 << 20)}
    place.hub.add(
        REPO, {**contents, **padding}, commit=COMMIT, gated=True, members=(TOKEN,), large=frozenset({LARGE})
    )
    yield place
    place.hub.close()
    place.remove()


def test_what_the_hub_would_refuse_is_refused_by_the_plan_with_nothing_touched(place: Hubbed) -> None:
    place.write_hub()
    (seen,) = place.refusals()
    assert "is gated, and no token was given" in seen
    done = place.apply()
    assert done.returncode == 3
    assert not (LXC / place.container.name).exists()
    assert not place.models.exists()
    place.write_hub(token="hf_" + "z" * 20)
    (seen,) = place.refusals()
    assert "does not know the token" in seen
    place.write_hub(token=TOKEN, revision="0" * 40)
    (seen,) = place.refusals()
    assert f"its main is at {COMMIT} now" in seen
    assert place.hub.sent() == 0


def test_a_branch_is_refused_with_the_commit_that_it_is_at(place: Hubbed) -> None:
    place.write_hub(token=TOKEN, revision="main")
    done = place.provision("plan", str(place.inventory))
    assert done.returncode == 2
    assert "is no commit of 40 hex digits" in done.stderr
    assert f"it is at {COMMIT} now" in done.stderr


def test_the_machine_fetches_the_model_and_the_service_answers(place: Hubbed) -> None:
    place.write_hub(token=TOKEN)
    (item,) = [item for item in place.plan()["machines"][0]["items"] if item["kind"] == "stack.fetch"]
    assert item["subject"] == f"{place.models}/{REPO.replace('/', '--')}@{COMMIT}"
    assert "MiB (1 files, 8.0 MiB, left out" in item["text"]
    place.hub.faults.rate = 1 << 20
    process = place.start_apply()

    def begun() -> bool:
        return place.hub.sent(large_only=True) > 4 << 20

    eventually(lambda: begun() or process.poll() is not None, "the fetch has begun", 240)
    assert begun(), (place.folder / "apply.log").read_text()[-3000:]
    place.kill(process)
    # The next run waits for what goes on, tells how it gets on, and finishes the work.
    done = place.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert place.answer().strip()
    assert place.hub.sent(large_only=True) == sum(
        len(data)
        for path, data in place.hub.repos[REPO].files.items()
        if path == LARGE or path.endswith(".safetensors")
    )
    assert "a command of an earlier run still works there" in done.stderr
    assert re.search(rf"{REPO}: {LARGE} .*, \d+ % of .*, \S+ [KM]iB/s, \d+ s left", done.stderr), done.stderr
    assert place.leftovers() == []
    assert not list(place.models.glob(".incoming*"))


def test_a_second_run_changes_nothing_and_needs_no_hub(place: Hubbed) -> None:
    before, pid = len(place.hub.asked), place.main_pid()
    assert place.plan()["exit"] == 0
    done = place.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(place.hub.asked) == before
    assert place.main_pid() == pid


def test_a_damaged_file_is_mended_and_the_service_goes_on(place: Hubbed) -> None:
    name = f"{REPO.replace('/', '--')}@{COMMIT}"
    path, pid = place.models / name / "config.json", place.main_pid()
    wanted = path.read_bytes()
    path.write_bytes(wanted[:10])
    assert place.plan()["exit"] == 10
    assert place.apply().returncode == 0
    assert path.read_bytes() == wanted
    assert place.main_pid() == pid


def test_the_token_is_in_no_journal_and_no_file(place: Hubbed) -> None:
    home = Path(os.environ["XDG_STATE_HOME"])
    texts = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert texts
    assert not any(TOKEN.encode() in text for text in texts)
    for folder in (
        Path("/var/lib/kpro"),
        Path("/opt/kpro"),
        Path("/run/kpro"),
        place.models,
        place.container.rootfs / "etc",
    ):
        for path in folder.rglob("*") if folder.exists() else ():
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 22:
                assert TOKEN.encode() not in path.read_bytes(), path
    assert TOKEN not in (place.folder / "apply.log").read_text()
