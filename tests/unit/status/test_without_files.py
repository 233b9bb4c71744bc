"""Who only looks at machines needs no file that a run forward copies to them, and says what was not judged without."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from provision.inspect import live as inspecting
from provision.inspect import record as recording
from provision.inventory import InventoryRefused, load
from provision.inventory.here import as_far_as_here, lacking
from provision.plan import PHASES, Item, Plan, Refusal, Step
from provision.planner import Observed
from provision.run import commands, rollback, rollback_service, wanted
from provision.run.errors import Away, Unreachable
from provision.run.session import Session
from provision.spec import Engine, Guest, Hub, Machine, Model, Service
from provision.status import live
from provision.status.show import show
from provision.status.state import status_of
from tests.unit.migrate.test_another_controller import FIELDS, asked
from tests.unit.status.test_status import MACHINE, beside, host, inside

HOOKS = "Migration(traffic=Hooks({}))".format(
    ", ".join(f"{verb}=['/no/{verb}']" for verb in ("drain", "switch", "back", "check"))
)
PROXY = "Migration(traffic=HAProxy(backend='b', source='s', target='t', on='ssh', ssh={}))".format(
    "Ssh(host='192.0.2.9', key='/no/id')"
)


def looks(monkeypatch: pytest.MonkeyPatch, path: Path, folder: Path) -> list[tuple[str, int, list[Any]]]:
    """Every command that only looks or takes back, how it ended where no machine is reached, and what it read."""
    stood: list[Any] = []

    def connected(*_: Any, machines: Any = None, **__: Any) -> Any:
        stood.extend((machines or {}).values())
        raise Unreachable([Away("a", "a", "it is off", "look")])

    def back_connected(loaded: Any, limit: Any, phases: Any, reason: str, reboot: bool, machines: Any) -> Any:
        return connected(machines=machines)

    for module in (live.runner, recording.runner, inspecting.runner):
        monkeypatch.setattr(module, "connected", connected)
    for module in (rollback, rollback_service):
        monkeypatch.setattr(module, "connected", back_connected)
    word, found = str(path), []
    for name, call in (
        ("status", lambda: live.status(word, (), False)),
        ("inspect", lambda: inspecting.inspect(word, (), False)),
        ("record", lambda: recording.record(word, folder / "tree", (), False)),
        ("rollback", lambda: rollback.rollback(word, (), True, False, False)),
        ("rollback --service", lambda: rollback_service.rollback(word, (), "tiny", True, False)),
    ):
        stood.clear()
        found.append((name, call(), list(stood)))
    return found


@pytest.mark.parametrize("migration", ["None", HOOKS, PROXY])
def test_who_looks_or_takes_back_needs_no_file_of_a_run_forward_and_none_that_leads_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migration: str
) -> None:
    asked(tmp_path, "rollback", migration=migration)
    for name, code, stood in looks(monkeypatch, tmp_path / "b.py", tmp_path):
        assert code == 1, name
        for machine in stood:
            # What is asked of guests goes by the services: it can be worked out.
            assert [one.name for one in wanted.wanted_for(machine).services["llm"]] == ["tiny"], name
        assert bool(stood) is (name != "inspect")


def test_what_leads_to_the_machine_is_needed_by_status_and_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(tmp_path, "rollback", ssh=", key='/no/id'")
    ends = {name: code for name, code, _ in looks(monkeypatch, tmp_path / "b.py", tmp_path)}
    assert (ends["status"], ends["rollback"], ends["rollback --service"]) == (2, 2, 2)
    assert capsys.readouterr().err.count("machine.ssh.key: there is no file /no/id") == 3


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_who_goes_forward_needs_them_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    from provision.run import assign

    asked(tmp_path, "rollback")
    word = str(tmp_path / "b.py")
    assert (
        getattr(commands, command)(word, (), None, *((None, False) if command == "plan" else (True, False)))
        == 2
    )
    assert assign.assign(assign.Asked(word, "00:00.0", "vm", None, (), True, False, False)) == 2
    said = capsys.readouterr().err
    for field in FIELDS:
        assert said.count(f".{field}: ") >= 2, field


def test_what_is_lacking_is_told_by_guest_and_field(tmp_path: Path) -> None:
    asked(tmp_path, "rollback")
    (machine,) = load(str(tmp_path / "b.py"), files="reach", names=False).machines
    (why,) = lacking(machine).values()
    for field in FIELDS:
        assert any(one.startswith(f"services[0].{field}: ") for one in why), field
    assert lacking(MACHINE) == {}


def service(**model: Any) -> Machine:
    made = Service(
        name="a",
        engine=Engine(kind="standin", version="1.0.0"),
        model=Model(repo="a/b", revision="1" * 40, **model),
    )
    return Machine(name="m", guests=(Guest(name="g", backend="lxc", id="g", services=(made,)),))


def test_a_model_whose_folder_is_named_twice_and_a_token_that_is_not_here() -> None:
    for machine in (service(source="folder", folder="/no/model"), service(folder="/no/model")):
        assert as_far_as_here(machine).guests[0].services[0].model.origin == "in place"
        assert list(lacking(machine)) == ["g"]
    hub = Hub(token_file=Path("/no/token"))
    for machine, lacks in ((service(source="hub"), ["g"]), (service(), [])):
        found = machine.model_copy(update={"hub": hub})
        assert as_far_as_here(found).hub.token_file is None
        assert list(lacking(found)) == lacks


ITEM = Item(Step.DRIVER, "driver", "@local", "driver", "install a driver")


@pytest.mark.parametrize(
    ("plan", "state"),
    [
        (Plan("box"), "unknown"),
        (Plan("box", (ITEM,)), "pending"),
        (Plan("box", (), (Refusal("machine.gpus", "none there", "why", "next"),)), "refused"),
    ],
)
def test_what_was_not_judged_is_never_in_sync(plan: Plan, state: str) -> None:
    lacks = {"llm": ("services[0].api_key_file: /no/key cannot be looked at",)}
    seen = Observed(host().snapshot, {"llm": inside().snapshot})
    made = status_of(MACHINE, plan, seen, beside().snapshot, None, {}, {}, lacks)
    assert made.state == state
    ((what, why),) = made.unknown.items()
    assert what == "whether llm is as the inventory says"
    assert "/no/key cannot be looked at" in why
    # What systemd says of it is known all the same; which profile it is, is not claimed.
    (one,) = made.guests[0]["services"]
    assert (one["active"], "runs" in one) == ("active", False)
    out = io.StringIO()
    show([made], [{}], Console(file=out, width=200))
    assert "unknown: whether llm is as the inventory says: this controller lacks" in out.getvalue()
    assert status_of(MACHINE, Plan("box"), seen, beside().snapshot, None, {}, {}, {}).state == "in sync"


def test_of_a_guest_that_lacks_files_nothing_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_of: list[set[str]] = []

    def planned(machine: Machine, _: Any, observed: Observed, __: Any) -> Plan:
        asked_of.append(set(observed.guests))
        return Plan(machine.name)

    monkeypatch.setattr("provision.run.session.plan_machine", planned)
    session: Any = SimpleNamespace(
        handovers={},
        wanted=lambda machine: None,
        observed=lambda machine: Observed(host().snapshot, {"llm": None, "other": None}),
        phases=PHASES,
        hosts_in_limit=lambda machine: [],
        hub=SimpleNamespace(ask=lambda plan: False),
    )
    Session.plan(session, MACHINE, {"llm": ("why",)})
    Session.plan(session, MACHINE)
    assert asked_of == [{"other"}, {"llm", "other"}]


def test_status_hands_both_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(tmp_path, "rollback")
    seen: list[Any] = []

    @contextmanager
    def connected(*_: Any, machines: Any, **__: Any) -> Iterator[Any]:
        def plan(machine: Machine, without: Any) -> Plan:
            seen.append((machine is machines["b"], list(without)))
            raise Unreachable([Away("kpro6", "kpro6", "enough", "nothing")])

        yield SimpleNamespace(session=SimpleNamespace(plan=plan))

    monkeypatch.setattr(live.runner, "connected", connected)
    assert live.status(str(tmp_path / "b.py"), (), True) == 1
    assert seen == [(True, ["llm"])]
    with pytest.raises(InventoryRefused):
        load(str(tmp_path / "b.py"), names=False)
