"""Whoever has both inventories brings a service back, also without the files that only a run forward reads."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provision.inventory import InventoryRefused, load, resolving
from provision.inventory.here import NO_KEY, as_far_as_here
from provision.migrate.asked import Asked, both_ends
from provision.run import rollback, rollback_service, wanted
from provision.run.errors import Away, Unreachable
from provision.spec import Hooks

_FILE = """\
from provision.spec import *

engine = Engine(kind="standin", version="1.0.0", source="wheel", wheelhouse="{away}/wheels", lock="{away}/lock",
                patches=[Patch(file="{away}/a.diff", why="it")])
machine = Machine(
    name="{name}",
    ssh=Ssh(host="{host}"{ssh}),
    managed=False,
    guests=[Guest(name="llm", backend="lxc", id="llm", services=[
        Service(
            name="tiny",
            engine=engine,
            model=Model(repo="kpro/tiny", revision="1" * 40, folder="{away}/model"),
            listen="0.0.0.0",
            api_key_file="{away}/key",
            replay="{away}/record.json",
            migration={migration},
        )
    ])],
)
metal, guests = machine.pyinfra_groups()
"""
FIELDS = ("engine.wheelhouse", "engine.lock", "engine.patches[0]", "model.folder", "api_key_file", "replay")
BACK = ("rollback", "finalize")


def asked(folder: Path, way: str, cold: bool = False, **fields: str) -> Asked:
    """``fields``: what else the target's inventory says."""
    for at, name in enumerate("ab"):
        given = {"away": str(folder / "away"), "name": name, "host": f"192.0.2.{at + 1}", "ssh": ""}
        given |= {"migration": "None"} | (fields if name == "b" else {})
        (folder / f"{name}.py").write_text(_FILE.format(**given))
    return Asked(str(folder / "a.py"), str(folder / "b.py"), None, way, cold, "", True, False, False)


def reasons(ask: Asked) -> list[str]:
    with pytest.raises(InventoryRefused) as refused:
        both_ends(ask)
    return refused.value.reasons


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("way", BACK)
def test_a_way_back_and_an_end_need_no_file_of_a_run_forward(tmp_path: Path, way: str, cold: bool) -> None:
    for end in both_ends(asked(tmp_path, way, cold))[:2]:
        # What the run reads of the machine, whenever it takes its lock.
        made = wanted.wanted_for(end.machine).services["llm"]
        assert [(one.name, one.key, one.record) for one in made] == [("tiny", "", None)]
        assert end.has_key
        assert end.service in end.machine.guests[0].services


@pytest.mark.parametrize("way", ["begin", "dry-run"])
def test_a_run_forward_names_every_file_of_both_ends(tmp_path: Path, way: str) -> None:
    said = reasons(asked(tmp_path, way))
    for name in ("a.py", "b.py"):
        for field in FIELDS:
            assert any(f".{field}: " in one and name in one for one in said), (name, field, said)


def test_going_on_names_all_that_the_target_needs_at_once_and_which_step_does(tmp_path: Path) -> None:
    said = reasons(asked(tmp_path, "resume"))
    for field in FIELDS:
        (one,) = [line for line in said if f".{field}: " in line]
        assert "b.py" in one
        assert one.endswith("; the step configure needs it")
    assert "--rollback and --finalize need none of them" in said[-1]
    assert not any("a.py" in one for one in said)


def hooks_of(tmp_path: Path) -> str:
    words = ", ".join(f"{verb}=['{tmp_path}/lb', '{verb}']" for verb in ("drain", "switch", "back", "check"))
    return f"Migration(traffic=Hooks({words}))"


def test_what_leads_to_the_machines_and_leads_the_clients_is_needed_to_go_on(tmp_path: Path) -> None:
    said = reasons(asked(tmp_path, "resume", migration=hooks_of(tmp_path), ssh=f", key='{tmp_path}/id'"))
    left = [one for one in said if "the step configure needs it" not in one and "--rollback and" not in one]
    assert any(".ssh.key: there is no file" in one for one in left)
    for verb in ("drain", "switch", "back", "check"):
        assert any(f".traffic.{verb}[0]: there is no program" in one for one in left)
    assert len(left) == 5


@pytest.mark.parametrize("way", BACK)
def test_a_way_back_and_an_end_need_only_what_leads_to_the_machines(tmp_path: Path, way: str) -> None:
    hooks = hooks_of(tmp_path)
    (said,) = reasons(asked(tmp_path, way, migration=hooks, ssh=f", key='{tmp_path}/id'"))
    assert ".ssh.key: there is no file" in said
    _, target, _ = both_ends(asked(tmp_path, way, migration=hooks))
    # The programs are still the ones to call: they may be back by then.
    assert target.service.migration is not None
    assert isinstance(target.service.migration.traffic, Hooks)


def test_a_name_that_does_not_resolve_is_a_machine_that_is_not_reached_on_the_way_back_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "why_not", lambda ssh, seconds: f"{ssh.host!r} cannot be resolved")
    assert both_ends(asked(tmp_path, "rollback"))
    said = reasons(asked(tmp_path, "finalize"))
    assert [one.partition(":")[0] for one in said] == ["machine.ssh.host"] * 2


def test_where_nothing_is_missing_the_machine_is_the_very_same(tmp_path: Path) -> None:
    away = tmp_path / "away"
    asked(tmp_path, "rollback")
    (machine,) = load(str(tmp_path / "b.py"), files="way", names=False).machines
    here = as_far_as_here(machine)
    assert here is not machine
    (service,) = here.guests[0].services
    assert (service.api_key_file, service.replay, service.model.folder) == (NO_KEY, None, None)
    assert (service.engine.wheelhouse, service.engine.lock, service.engine.patches) == (None, None, ())
    (away / "model").mkdir(parents=True)
    (away / "model/config.json").touch()
    (away / "key").write_text("sk-1\n")
    (away / "key").chmod(0o644)
    (service,) = as_far_as_here(machine).guests[0].services
    assert service.model.folder == away / "model"
    # One that is there and open to others is no secret, and is not read.
    assert service.api_key_file == NO_KEY
    plain = re.sub(r"engine = .*?\n\n?machine", "engine = Engine(kind='standin', version='1.0.0')\nmachine",
                   (tmp_path / "b.py").read_text(), flags=re.DOTALL)  # fmt: skip
    (tmp_path / "b.py").write_text(plain.replace("replay=", "# replay="))
    (away / "key").chmod(0o600)
    (machine,) = load(str(tmp_path / "b.py"), names=False).machines
    assert as_far_as_here(machine) is machine


@pytest.mark.parametrize("service", [None, "tiny"])
def test_so_does_provision_rollback_with_and_without_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str | None
) -> None:
    asked(tmp_path, "rollback")
    stood: list[Any] = []

    def connected(loaded: Any, limit: Any, phases: Any, reason: str, reboot: bool, machines: Any) -> Any:
        stood.extend(machines.values())
        raise Unreachable([Away("a", "a", "it is off", "look")])

    module = rollback if service is None else rollback_service
    monkeypatch.setattr(module, "connected", connected)
    more = (False,) if service is None else ()
    words = ((),) if service is None else ((), service)
    assert module.rollback(str(tmp_path / "a.py"), *words, True, False, *more) == 1
    (machine,) = stood
    assert wanted.wanted_for(machine).services["llm"][0].key == ""


def test_two_wrong_ends_are_both_told_whatever_is_wrong_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "why_not", lambda ssh, seconds: f"{ssh.host!r} cannot be resolved")
    ask = asked(tmp_path, "rollback")
    said = reasons(replace(ask, way="finalize", target=str(tmp_path / "kpro99.py")))
    assert any("'192.0.2.1' cannot be resolved" in one for one in said)
    assert any("kpro99.py does not exist" in one for one in said)
    said = reasons(replace(ask, way="begin", source=str(tmp_path / "kpro98.py"), target="kpro99"))
    assert any("kpro98.py does not exist" in one for one in said)
    assert any("there is no inventory 'kpro99'" in one for one in said)


@pytest.mark.parametrize("way", ["begin", "resume", "rollback", "finalize"])
def test_that_both_are_one_machine_is_told_before_its_name_and_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(resolving, "why_not", lambda ssh, seconds: f"{ssh.host!r} cannot be resolved")
    ask = asked(tmp_path, way)
    with pytest.raises(ValueError, match="are both the machine a: a service moves between two"):
        both_ends(replace(ask, target=ask.source))
    path = Path(ask.target)
    path.write_text(path.read_text().replace("192.0.2.2", "192.0.2.1"))
    with pytest.raises(ValueError, match=r"are both reached at 192\.0\.2\.1, port 22"):
        both_ends(ask)
