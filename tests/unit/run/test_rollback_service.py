"""Going back to the profile that served before: which one that is, and that what gives way is not put into service
again by the next run."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.data.engines import KEY_VARIABLES
from provision.host.transport import Completed
from provision.run import rollback_service
from provision.run.errors import RunError
from provision.spec import Candidate, Engine, Guest, Model, Service
from provision.stack import candidate, going_back, trials
from provision.stack.desired import DesiredService, desired_service
from provision.stack.going_back import FOLDERS, profile_before, taken_back
from provision.stack.held import Held
from provision.stack.trials import Trial

ENGINE = Engine(kind="standin", version="1.0.0")
SERVICE = Service(
    name="tiny",
    engine=ENGINE,
    model=Model(repo="kpro/tiny", revision="1" * 40),
    candidate=Candidate(engine=ENGINE, profile="plain", flags=["--tok-s", "400"]),
)
GUEST = Guest(name="llm", backend="lxc", id="c1", services=[SERVICE])
OWN: DesiredService = desired_service(GUEST, SERVICE)
PROMOTED = OWN.candidate or OWN
OLDER = replace(OWN, digest="e" * 64, unit=OWN.unit.replace(OWN.digest, "e" * 64))
SERVES = Held(
    good=PROMOTED.digest, running=PROMOTED.digest, up=True, verdict=Trial(PROMOTED.digest, "accepted")
)
HOST: Any = SimpleNamespace(name="@guest/box/llm")
LAST, BEFORE = FOLDERS


def kept(folder: str = LAST, of: DesiredService = OWN) -> dict[str, str]:
    return {
        f"{folder}/tiny/unit": of.unit,
        f"{folder}/tiny/env": of.environment,
        f"{folder}/tiny/url": f"{of.url}\n",
    }


def serves(digest: str, **more: Any) -> Held:
    return Held(good=digest, running=digest, up=True, **more)


def test_what_served_before_is_what_the_last_cut_over_kept() -> None:
    back, said = profile_before(OWN, SERVES, kept())
    assert back is not None
    assert said == ""
    assert (back.digest, back.unit, back.environment) == (OWN.digest, OWN.unit, OWN.environment)
    assert back.staged_unit == "/etc/kpro/staged/back/kpro-tiny.service"
    assert back.trial is None


def test_after_a_refused_trial_it_is_what_served_before_what_was_not_worsened() -> None:
    """The trial was refused: the first folder holds what serves."""
    back, said = profile_before(OWN, serves(OWN.digest), kept() | kept(BEFORE, OLDER))
    assert (back.digest if back else "", said) == (OLDER.digest, "")
    # Also where what serves is down at this moment.
    down = replace(serves(OWN.digest), up=False, running="")
    assert profile_before(OWN, down, kept() | kept(BEFORE, OLDER))[0] == back
    assert profile_before(OWN, down, kept())[0] is None


@pytest.mark.parametrize(
    ("spoil", "held", "said"),
    [
        ({"unit": None}, SERVES, "no profile served before"),
        ({"env": None}, SERVES, "no profile served before"),
        ({"unit": "[Service]\nExecStart=/bin/x\n"}, SERVES, "no unit of kpro's"),
        ({"url": "http://127.0.0.1:9\n"}, SERVES, "http://127.0.0.1:9"),
        ({}, serves(OWN.digest), "no profile served before the one that serves now"),
        ({}, replace(SERVES, verdict=Trial(OWN.digest, "refused", when="then")), "taken back already (then)"),
        ({}, replace(SERVES, last=Trial(OWN.digest, "refused", when="then")), "taken back already (then)"),
    ],
)
def test_where_there_is_nothing_to_go_back_to_it_says_why(
    spoil: dict[str, str | None], held: Held, said: str
) -> None:
    files = kept()
    for part, text in spoil.items():
        files.pop(f"{LAST}/tiny/{part}")
        if text is not None:
            files[f"{LAST}/tiny/{part}"] = text
    back, why = profile_before(OWN, held, files)
    assert back is None
    assert said in why


def test_a_candidate_that_is_taken_back_is_refused_from_then_on() -> None:
    was = taken_back(OWN, SERVES, "now", "r9")
    assert was is not None
    found = was.verdict
    assert (was.path, was.keep) == (trials.path("tiny"), trials.accepted_path("tiny"))
    assert (found.digest, found.verdict, found.run) == (PROMOTED.digest, "refused", "r9")
    after = serves(OWN.digest, verdict=found, accepted=Trial(PROMOTED.digest, "accepted"))
    assert not after.allows(PROMOTED.digest)
    chosen = candidate.choose(OWN, after)
    assert (chosen.serve, chosen.due, chosen.blocked) == (OWN, None, None)
    assert any("taken back by hand" in note for note in chosen.notes)
    # Another key beside it tries it no more than this one: it is the same candidate.
    keyed = desired_service(GUEST, SERVICE.model_copy(update={"environment": {"A": "b"}}))
    assert keyed.candidate is not None
    assert keyed.candidate.digest != found.digest
    assert candidate.choose(keyed, after).due is None


def test_a_profile_of_the_service_itself_that_is_taken_back_is_not_put_into_service_again() -> None:
    plain = desired_service(GUEST, SERVICE.model_copy(update={"candidate": None}))
    for own in (OWN, plain):
        was = taken_back(own, serves(own.digest, last=Trial(own.digest, "accepted")), "now", "r9")
        assert was is not None
        assert (was.path, was.keep) == (trials.service_path("tiny"), trials.service_accepted_path("tiny"))
        after = replace(serves(OLDER.digest, last=was.verdict), live=OLDER.digest)
        chosen = candidate.choose(own, after)
        assert chosen.serve is None
        assert any("taken back by hand" in note for note in chosen.notes)
        assert bool(chosen.blocked) is (own is plain)
        # Nothing was remembered: it comes again.
        assert candidate.choose(own, replace(after, last=None)).serve == own


def test_what_the_inventory_has_and_was_refused_stays_so_when_something_else_is_taken_back() -> None:
    """It has another candidate, or another own profile, by now: the verdicts on those are left where they are."""
    other = Trial("f" * 64, "accepted", asked="beats=1", of="abc")
    was = taken_back(OWN, serves(other.digest, verdict=SERVES.verdict, accepted=other), "now", "r9")
    assert was is not None
    assert was.path == trials.accepted_path("tiny")
    assert (was.verdict.asked, was.verdict.of, was.verdict.accepted) == ("beats=1", "abc", False)
    was = taken_back(OWN, serves(other.digest, last=Trial(OWN.digest, "refused"), before=other), "now", "r9")
    assert was is not None
    assert was.path == trials.service_accepted_path("tiny")
    was = taken_back(OWN, serves(other.digest, last=other), "now", "r9")
    assert was is not None
    assert was.path == trials.service_path("tiny")
    assert taken_back(OWN, serves("1" * 64), "now", "r9") is None
    assert taken_back(OWN, Held(), "now", "r9") is None


def test_the_files_of_a_guest_are_read_whole_and_what_cannot_be_read_is_not_taken_for_absent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places = [str(tmp_path / name) for name in ("unit", "env", "url")]
    monkeypatch.setattr(going_back, "paths", lambda name: places)

    def run(host: Any, script: str, **_: Any) -> Completed:
        done = subprocess.run(["sh", "-c", script], capture_output=True, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    monkeypatch.setattr("provision.run.rollback_service.transport.run", run)
    Path(places[0]).write_text("a\nb\n")
    # An engine without a variable has an empty one.
    Path(places[1]).write_text("")
    assert rollback_service._files(HOST, "tiny") == {places[0]: "a\nb\n", places[1]: ""}
    Path(places[2]).mkdir()
    with pytest.raises(RunError, match=r"cannot be read in its guest.*nothing was touched. Next: "):
        rollback_service._files(HOST, "tiny")


@pytest.mark.parametrize(("served_with", "kept_key"), [("sk-of-then", "sk-of-then"), (None, None)])
def test_the_key_that_goes_back_is_the_one_that_it_served_with(
    served_with: str | None, kept_key: str | None
) -> None:
    """Whatever the operator's file holds by now, or where it is not."""
    line = f'{KEY_VARIABLES[0]}="{served_with}"\n' if served_with else ""
    was = replace(OWN, environment=OWN.environment + line, unit=OWN.unit)
    for now in ("sk-of-now", "", None):
        back, _ = profile_before(replace(OWN, key=now), SERVES, kept(of=was))
        assert back is not None
        assert back.key == kept_key


@pytest.mark.parametrize(
    ("whole", "stands", "said"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_what_cannot_be_remembered_without_the_files_of_this_controller_is_said(
    monkeypatch: pytest.MonkeyPatch, whole: bool, stands: bool, said: bool
) -> None:
    lines: list[str] = []
    for name in ("stack.stage", "cutover.cutover", "_note"):
        monkeypatch.setattr(f"provision.run.rollback_service.{name}", lambda *_, **__: None)
    monkeypatch.setattr(
        "provision.run.rollback_service.service.prove", lambda host, own: Completed(0, b"", b"")
    )
    session: Any = SimpleNamespace(id="r9", say=lines.append, check_lock=lambda machine: None)
    held = serves("1" * 64) if stands else Held()
    machine: Any = SimpleNamespace(name="box")
    before = rollback_service.Before(machine, HOST, OWN, held, OLDER, "", whole)
    assert rollback_service._go_back(session, before) == ((), 0)
    assert any("is not remembered as taken back" in line for line in lines) is said


def test_a_service_that_the_inventory_does_not_have_is_refused_before_anything_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []

    def connected(*_: Any) -> Any:
        tried.append("connected")
        raise RunError("it is off")

    monkeypatch.setattr(rollback_service, "connected", connected)
    file = tmp_path / "box.py"
    file.write_text(
        "from provision.spec import Engine, Guest, Machine, Model, Service, Ssh\n"
        "machine = Machine(name='box', ssh=Ssh(host='127.0.0.1'), guests=[Guest(name='llm', backend='lxc', "
        "id='c1', services=[Service(name='tiny', engine=Engine(kind='standin', version='1.0.0'), "
        "model=Model(repo='kpro/tiny', revision='1' * 40), api_key_file=None)])])\n"
        "metal, guests = machine.pyinfra_groups()\n"
    )
    assert rollback_service.rollback(str(file), (), "nosuch", yes=True, as_json=False) == 2
    assert "--service nosuch: no service of kpro's" in capsys.readouterr().err
    assert tried == []
    assert rollback_service.rollback(str(file), (), "tiny", yes=True, as_json=False) == 1
    assert tried == ["connected"]
