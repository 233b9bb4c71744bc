"""Mistakes of form, of rules and of files are told in one round, and nothing that nobody wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.drafter.makers import Pair, incident_pair, judged, toy_pair

FIRST, SECOND = "machine.guests[0].services[0]", "machine.guests[0].services[1]"
KEY = ('profile="plain"', 'profile="plain", api_key_file="/nowhere/key"')
NO_KEY = f"{SECOND}.api_key_file: /nowhere/key cannot be looked at"


def fields(reasons: list[str]) -> set[str]:
    return {reason.split(": ")[0] for reason in reasons}


def test_form_rules_and_files_are_judged_in_one_round(desk: Any) -> None:
    reasons = desk.reasons(
        ("port=8000,", 'port="8000", flags=["--port", "9"],'),
        ('version="0.20.1"', 'version="0.20.1", lock="/nowhere/lock"'),
        ('host="node1.example"', 'host="node1.example", key="/nowhere/id"'),
        KEY,
        files="all",
    )
    assert fields(reasons) == {
        f"{FIRST}.port",
        f"{FIRST}.flags[0]",
        f"{SECOND}.engine.lock",
        f"{SECOND}.api_key_file",
        "machine.ssh.key",
    }


def test_the_wrong_service_itself_is_judged_by_the_rest_of_it(desk: Any) -> None:
    reasons = desk.reasons(
        ("port=8001", 'port="8001"'),
        ('"plain"', '"plane"'),
        ('port="8001"', 'port="8001", api_key_file="/nowhere/key"'),
        files="all",
    )
    assert fields(reasons) == {f"{SECOND}.port", f"{SECOND}.profile", f"{SECOND}.api_key_file"}


@pytest.mark.parametrize(
    "change",
    [
        ('profile="sglang-mtp"', 'profile=["sglang-mtp"]'),
        ('suite="bookworm"', 'suite="bokworm"'),
        ('gpus=["42:00.0", "61:00.0"],\n            mounts', 'gpus=["42:00.9"],\n            mounts'),
        ('backend="pct"', 'backend="lcx"'),
        ("id=101", "id=7"),
        ('name="second"', 'name="Second!"'),
        ('name="second"', 'name="first"'),
        ("port=8001", "port=8000"),
        ('route="nvidia"', 'route="nvdia"'),
        ('version="580.159.04"', "version=580"),
        ('repo="a/target"', 'repo="target"'),
        ('flags=["--tensor-parallel-size", "2"]', 'flags=["--tensor-parallel-size", 2]'),
        ("port=8001", 'port=8001, thresholds={"speed": 1}'),
        ("port=8001", "port=8001, environment={'1': 'x'}"),
    ],
)
def test_what_stands_in_for_a_mistake_is_never_complained_of(desk: Any, change: tuple[str, str]) -> None:
    (alone,) = desk.reasons(change)
    more = [reason for reason in desk.reasons(change, KEY, files="all") if "more may follow" not in reason]
    assert len(more) == 2
    assert alone.split(" (")[0] in more[0]
    assert NO_KEY in more[1]


def test_where_nothing_can_stand_in_the_rest_is_judged_and_more_is_announced(desk: Any) -> None:
    change = ('version="0.20.1"', "version=0.2")
    reasons = desk.reasons(change, KEY, ('"sglang-mtp"', '"sglang"'), files="all")
    assert fields(reasons) == {
        f"{SECOND}.engine.version",
        f"{FIRST}.profile",
        f"{SECOND}.api_key_file",
        f"{SECOND}.engine",
    }
    assert reasons[-1].startswith(f"{SECOND}.engine: is not judged as a whole, nor what depends on it, ")
    assert "more may follow" in reasons[-1]
    assert "more may follow" not in "".join(desk.reasons(("port=8001", 'port="8001"')))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (('version="0.20.1"', "version=0.2"), f"{SECOND}.engine.version"),
        (('engine=Engine(kind="vllm", version="0.20.1"),', ""), f"{SECOND}.engine"),
        (('engine=Engine(kind="vllm", version="0.20.1")', 'engine="vllm"'), f"{SECOND}.engine"),
        (('name="second",', 'nam="second",'), f"{SECOND}.nam"),
        (('name="second",', 'name="second", candidate=Candidate(engine=7),'), f"{SECOND}.candidate"),
    ],
)
def test_what_is_wrong_in_one_service_hides_nothing_of_the_others_their_guest_and_their_machine(
    desk: Any, change: tuple[str, str], wrong: str
) -> None:
    """What a guest and a machine are judged by takes all of their services together."""
    others = (
        # Of the guest: its C library; of the machine: its driver against the engines in it.
        ('"sglang-mtp"', '"sglang"'),
        ('version="580.159.04"', 'version="535.261.03"'),
        ("port=8001", 'port=8001, api_key_file="/nowhere/key"'),
    )
    alone = fields(desk.reasons(*others, files="all"))
    assert {f"{FIRST}.profile", "machine.driver.version", f"{SECOND}.api_key_file"} <= alone
    told = desk.reasons(change, *others, files="all")
    assert fields(told) >= alone
    assert any(reason.startswith(wrong) for reason in told)
    assert not any("unnamed" in reason or "standin" in reason for reason in told)


def test_a_member_that_is_none_and_a_guest_that_cannot_be_built_hide_nothing_of_the_others(desk: Any) -> None:
    text = desk.valid(('"sglang-mtp"', '"sglang"'))
    for broken in ("services=[7, ", "services=[Service(nam='x'), "):
        told = desk.reasons_of(text.replace("services=[", broken, 1))
        assert any(reason.startswith("machine.guests[0].services[1].profile: ") for reason in told)
        assert any(reason.startswith("machine.guests[0].services[0]") for reason in told)
    told = desk.reasons_of(text.replace("guests=[", "guests=[Guest(services=[Service(port=1)]), ", 1))
    assert any(reason.startswith("machine.guests[1].services[0].profile: ") for reason in told)
    assert not any("unnamed" in reason for reason in told)


@pytest.mark.parametrize("name", ["VLLM_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_variable_with_a_field_of_its_own_is_refused(desk: Any, name: str, inside: bool) -> None:
    environment = f'environment={{"{name}": __import__("pathlib").Path("secret").read_text()}}'
    (desk.folder / "secret").write_text("sesame")
    candidate = (
        'candidate=Candidate(engine=Engine(kind="vllm", version="0.20.1"), profile="plain", beats=2.0, {})'
    )
    changed = f"port=8001, {candidate.format(environment) if inside else environment}"
    (reason,) = desk.reasons(("port=8001", changed))
    assert reason.startswith(f"{SECOND}{'.candidate' if inside else ''}.environment.{name}: ")
    assert ("api_key_file=" if name == "VLLM_API_KEY" else "token_file=") in reason
    assert "sesame" not in reason
    assert desk.load(("port=8001", changed.replace(name, "VLLM_OTHER")))


def test_a_common_variable_is_told_once_and_where_it_stands(desk: Any) -> None:
    engine = 'engine=Engine(kind="vllm", version="0.20.1")'
    candidate = f'candidate=Candidate({engine}, profile="plain", flags=["--seed", "1"])'
    (reason,) = desk.reasons(("port=8001", f'port=8001, environment={{"VLLM_API_KEY": "k"}}, {candidate}'))
    assert reason.startswith(f"{SECOND}.environment.VLLM_API_KEY: ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OUR_PASSWORD", "open-sesame"),
        ("AWS_SECRET_ACCESS_KEY", "open-sesame"),
        ("LMCACHE_TOKEN", "open-sesame"),
        ("HTTPS_PROXY", "http://me:sesame@proxy:3128"),
        ("ANYTHING", "hf_" + "a" * 34),
    ],
)
def test_a_secret_in_clear_is_refused_and_one_that_is_read_from_a_file_is_not(
    desk: Any, name: str, value: str
) -> None:
    (reason,) = desk.reasons(("port=8001", f'port=8001, environment={{"{name}": "{value}"}}'))
    assert reason.startswith(f"{SECOND}.environment.{name}: looks like a secret")
    assert value not in reason
    (desk.folder / "secret").write_text(value)
    assert desk.load(
        (
            "port=8001",
            f'port=8001, environment={{"{name}": __import__("pathlib").Path("secret").read_text()}}',
        )
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLLM_MAX_TOKENS", "4096000"),
        ("TOKENIZERS_PARALLELISM", "false!"),
        ("OUR_TOKEN", "/run/secrets/token"),
        ("USE_TOKEN", "true"),
        ("HTTPS_PROXY", "http://proxy:3128"),
    ],
)
def test_what_is_no_secret_passes(desk: Any, name: str, value: str) -> None:
    assert desk.load(("port=8001", f'port=8001, environment={{"{name}": "{value}"}}'))


def test_a_bare_drafter_is_refused_before_anything_is_built(desk: Any, tmp_path: Path) -> None:
    folder = tmp_path / "drafter"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"\0" * 8)
    drafted = (
        'profile="plain"',
        f'profile="vllm-dflash", drafter=Model(repo="a/drafter", revision="2" * 40, folder="{folder}")',
    )
    no_mount = ('mounts=[Mount(source="/tank/models", target="/srv/models")],', "")
    version = ('"0.20.1"', '"0.33.0"')
    found = desk.reasons(drafted, no_mount, version, files="all")
    (reason,) = [reason for reason in found if reason.startswith(f"{SECOND}.drafter.folder")]
    assert "has weights and no config.json" in reason
    assert (
        f"provcheck drafter {folder} --target '<folder of a/target>' --engine vllm==0.33.0 --write" in reason
    )
    (folder / "config.json").write_text("{}")
    left = desk.reasons(drafted, no_mount, version, ("port=8001", 'port="8001"'), files="all")
    assert fields(left) == {f"{SECOND}.port"}


@pytest.mark.parametrize("hushed", [False, True])
@pytest.mark.parametrize(
    ("pair", "red"), [(toy_pair(), False), (incident_pair(), True)], ids=["right", "incident"]
)
def test_a_drafter_that_does_not_fit_the_target_beside_it_is_refused_unless_silenced(
    desk: Any, tmp_path: Path, pair: Pair, red: bool, hushed: bool
) -> None:
    drafter, target = pair.write(tmp_path / "models")
    found = {finding.id for finding in judged(pair).values() if finding.status.value == "fail"}
    silences = "".join(
        f'Silence(id="{one}", owner="ops@example.org", reason="known", until="2099-01-01"), ' for one in found
    )
    profile = f'profile="vllm-dflash", drafter=Model(repo="a/d", revision="2" * 40, folder="{drafter}")'
    changes = (
        ('profile="plain"', f"{profile}, silences=[{silences if hushed else ''}]"),
        ('mounts=[Mount(source="/tank/models", target="/srv/models")],', ""),
        ('"0.20.1"', '"0.33.0"'),
        ("port=8001", 'port="8001"'),
    )
    text = desk.valid(*changes)
    at = text.index('name="second"')
    text = text[:at] + text[at:].replace('revision="1" * 40', f'revision="1" * 40, folder="{target}"', 1)
    told = [reason for reason in desk.reasons_of(text, files="all") if f"{SECOND}.drafter.folder" in reason]
    assert bool(told) is (red and not hushed), told
