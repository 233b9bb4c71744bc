"""Where a machine stands, from what was looked at: journal, lock, drift, services."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from checks.snapshot import CouldNotLook
from provision.host import last_run
from provision.host.changes import Change, dump
from provision.host.reboot import ARM
from provision.migrate import standing
from provision.migrate.standing import Record
from provision.plan import Item, Plan, Refusal, Step
from provision.planner import Observed
from provision.run.journal import Journal
from provision.spec import Engine, Guest, Machine, Model, Service
from provision.status import looks, verdicts
from provision.status.show import show
from provision.status.state import Status, status_of, unreachable
from tests.unit.plan.seen import Seen

SERVICE = Service(
    name="chat",
    engine=Engine(kind="vllm", version="0.20.1"),
    model=Model(repo="org/model", revision="a" * 40),
    api_key_file=None,
)
GUEST = Guest(name="llm", backend="lxc", id="llm", services=(SERVICE,))
MACHINE = Machine(name="box", guests=(GUEST,))
ITEM = Item(Step.CONTAINER, "container.start", "@local", "llm", "start container llm")
WRONG = Refusal("machine.gpus", "none there", "nothing to serve with", "look")


def host(state: str = "RUNNING") -> Seen:
    seen = Seen().cmd("uname-r", "6.17.13-2-pve\n").cmd("lxc-ls", "llm\n").cmd("lxc-info-llm", f"{state}\n")
    return seen.put("file", "/proc/driver/nvidia/version", None).put("file", ARM, None)


def inside(active: str = "active") -> Seen:
    return Seen().cmd("unit-chat", f"ActiveState={active}\nSubState=running\n")


def beside(manifest: str | None = None, lock: str = "free\n", journal: str = "") -> Seen:
    seen = Seen().put("file", looks.MANIFEST, manifest)
    return seen.cmd("lock-held", lock).cmd("last-run", journal)


def status(
    plan: Plan | None = None,
    metal: Seen | None = None,
    guest: Seen | None = None,
    other: Seen | None = None,
    digests: Seen | None = None,
) -> Status:
    observed = Observed((metal or host()).snapshot, {"llm": (guest or inside()).snapshot})
    made = status_of(
        MACHINE,
        plan or Plan("box"),
        observed,
        (other or beside()).snapshot,
        (digests or Seen()).snapshot,
        {"r2": "apply other"},
    )
    show([made], [{}], Console(file=io.StringIO(), width=120))
    json.dumps(made.as_dict())
    return made


@pytest.mark.parametrize(
    ("plan", "state"),
    [
        (Plan("box"), "in sync"),
        (Plan("box", (ITEM,)), "pending"),
        (Plan("box", (ITEM,), (WRONG,)), "refused"),
    ],
)
def test_the_state_is_that_of_the_plan(plan: Plan, state: str) -> None:
    assert status(plan).state == state


def test_a_service_is_as_systemd_says_with_the_versions_of_the_inventory() -> None:
    (guest,) = status().guests
    assert guest["state"] == "running"
    (service,) = guest["services"]
    assert (service["active"], service["engine"]) == ("active", "vllm 0.20.1")
    (failed,) = status(guest=inside("failed")).guests[0]["services"]
    assert failed["active"] == "failed"


def test_a_service_that_could_not_be_looked_at_is_unknown() -> None:
    made = status(guest=Seen())
    assert made.guests[0]["services"][0]["active"] == "unknown"
    assert "service chat in llm" in made.unknown


def test_a_machine_that_cannot_be_reached_is_unknown_in_all() -> None:
    made = unreachable(MACHINE, "no route")
    assert (made.state, made.drift, made.locked_by) == ("unknown", "unknown", "unknown")
    assert made.unknown == {"machine": "no route"}


CHANGES = [
    Change("file", "r1", "/etc/a", "1" * 64),
    Change("file", "r2", "/etc/a", "2" * 64),
    Change("file", "r1", "/etc/b", "3" * 64),
    Change("file", "r1", "/etc/c", "4" * 64),
    Change("packages", "r1", names=("x",)),
]


def test_drift_is_what_is_no_longer_as_kpro_wrote_it_last() -> None:
    digests = Seen().put("sha", "/etc/a", "2" * 64).put("sha", "/etc/b", "9" * 64).put("sha", "/etc/c", None)
    made = status(other=beside(dump(CHANGES)), digests=digests)
    assert not isinstance(made.drift, str)
    assert [(one["path"], one["state"]) for one in made.drift] == [("/etc/b", "changed"), ("/etc/c", "gone")]


def test_what_lies_in_the_containers_of_other_inventories_is_none_of_this_one_s_drift() -> None:
    files = {name: f"/var/lib/lxc/{name}/config" for name in ("llm", "other", "llm2")}
    changes = [Change("file", "r1", path, "1" * 64) for path in (*files.values(), "/etc/a")]
    assert list(looks.written(changes, ["llm"])) == [files["llm"], "/etc/a"]
    digests = Seen().put("stat", "/var/lib/lxc/llm", None).put("sha", "/etc/a", "1" * 64)
    made = status(other=beside(dump(changes)), digests=digests.put("sha", files["llm"], None))
    assert not isinstance(made.drift, str)
    assert [(one["path"], one["state"]) for one in made.drift] == [("/var/lib/lxc/llm", "gone")]


def test_what_is_other_than_written_names_the_run_and_what_that_was_for() -> None:
    digests = Seen().put("sha", "/etc/a", "9" * 64)
    (one,) = looks.drift(digests.snapshot, {"/etc/a": CHANGES[1]}, {"r2": "apply other"})
    assert (one["run"], one["reason"]) == ("r2", "apply other")
    assert "run r2, apply other" in one["why"]


def test_a_container_that_is_gone_altogether_is_one_row() -> None:
    paths = ["/var/lib/lxc/old/config", "/var/lib/lxc/old/rootfs/etc/x"]
    files = {path: Change("file", "r1", path, "1" * 64) for path in paths}
    assert "stat:/var/lib/lxc/old" in looks.drift_requests(files)
    seen = Seen().put("sha", paths[0], None).put("sha", paths[1], None)
    there = seen.put("stat", "/var/lib/lxc/old", "755 0 0 4096 directory").snapshot
    assert [one["path"] for one in looks.drift(there, files, {})] == paths
    (one,) = looks.drift(seen.put("stat", "/var/lib/lxc/old", None).snapshot, files, {})
    assert (one["path"], one["state"], "2 file(s)" in one["why"]) == ("/var/lib/lxc/old", "gone", True)


def test_what_a_run_was_for_is_told_by_its_journal_and_only_by_it() -> None:
    journal = Journal("20261129T172000Z-a1b2c3")
    journal.write("run", reason="apply kpro5", phases=[])
    journal.close()
    asked = ["20261129T172000Z-a1b2c3", "20261129T182000Z-a1b2c3", "../x"]
    assert verdicts.reasons(asked) == {asked[0]: "apply kpro5"}


def test_a_file_that_cannot_be_read_is_no_drift_and_not_well() -> None:
    digests = Seen().put("sha", "/etc/a", None, "cannot be read")
    found = looks.drift(digests.snapshot, {"/etc/a": CHANGES[1]}, {})
    assert [one["state"] for one in found] == ["unknown"]


def test_a_broken_manifest_makes_drift_unknown() -> None:
    made = status(other=beside("{"))
    assert made.drift == "unknown"
    assert "files of kpro" in made.unknown


JOURNAL = "\n".join(
    [
        "20261129T152000Z-a1b2c3.jsonl",
        '{"at": "t1", "event": "begin", "text": "start a"}',
        '{"at": "t2", "event": "done", "text": "start a"}',
        '{"at": "t3", "event": "begin", "text": "load b"}',
        '{"at": "t4", "event": "failed", "text": "load b", "why": "no"}',
        '{"at": "t5", "event": "begin", "text": "undo c"}',
        '{"at": "t6", "ev',
    ]
)


def test_the_last_run_is_told_by_the_machine_s_own_journal() -> None:
    run = last_run.last_run(beside(journal=JOURNAL).snapshot)
    assert run is not None
    assert (run.run, run.at, run.done) == ("20261129T152000Z-a1b2c3", "t5", 1)
    assert run.failed == "load b: no"
    assert run.unfinished == "undo c"
    assert last_run.last_run(beside().snapshot) is None


def test_a_journal_that_cannot_be_read_is_not_no_run() -> None:
    with pytest.raises(CouldNotLook):
        last_run.last_run(Seen().cmd("last-run", "", 1).snapshot)


@pytest.mark.parametrize(("said", "holder"), [("free\n", None), ('held\n{"run": "x"}\n', '{"run": "x"}')])
def test_the_holder_of_the_lock_is_told(said: str, holder: str | None) -> None:
    assert looks.lock_holder(beside(lock=said).snapshot) == holder


@pytest.mark.parametrize("said", ["", "what\n"])
def test_a_lock_that_cannot_be_seen_is_not_free(said: str) -> None:
    with pytest.raises(CouldNotLook):
        looks.lock_holder(beside(lock=said).snapshot)
    assert status(other=beside(lock=said)).locked_by == "unknown"


def test_a_reboot_and_its_confirmation_are_told() -> None:
    reboot = Item(Step.REBOOT, "reboot", "@local", "box", "reboot: Xid 154")
    made = status(Plan("box", (reboot,)), host().put("file", ARM, '{"run": "r7"}'))
    assert made.reboot == ("reboot: Xid 154",)
    assert made.waits_for_confirmation == "r7"
    assert status().waits_for_confirmation is None


def test_the_newest_verdict_of_a_gate_is_the_last_one() -> None:
    assert verdicts.last_verdicts(MACHINE) == {}
    for run, verdict in (("20261129T152000Z-a1b2c3", "fail"), ("20261129T162000Z-a1b2c3", "pass")):
        journal = Journal(run)
        journal.write("gate", host="@guest/@local/llm", service="chat", verdict=verdict)
        journal.write("gate", host="@guest/@local/other", service="chat", verdict="fail")
        journal.close()
    (one,) = verdicts.last_verdicts(MACHINE).items()
    assert one[0] == "chat on @guest/@local/llm"
    assert one[1]["verdict"] == "pass"


@pytest.mark.parametrize(
    ("step", "first"), [("delta", "box  in sync; NOBODY ANSWERS for chat now"), ("warm", "box  in sync")]
)
def test_the_first_line_says_that_clients_of_a_service_that_is_moved_get_no_answer(
    step: str, first: str
) -> None:
    record = Record("R", "chat", "source", "other", "me", step, "open", "then", words=("a", "b"))
    found = status(metal=host().put("file", standing.path("chat"), record.dump().decode()))
    out = io.StringIO()
    show([found], [{}], Console(file=out, width=200))
    lines = out.getvalue().splitlines()
    assert lines[0] == first
    assert "provision migrate a b --resume, or --rollback" in out.getvalue()


def _units(record: str | None, unit: str) -> str:
    seen = Seen().cmd("unit-chat", unit)
    found = status(metal=host().put("file", standing.path("chat"), record), guest=seen)
    out = io.StringIO()
    show([found], [{}], Console(file=out, width=200))
    return next(line for line in out.getvalue().splitlines() if "chat.service" in line)


def test_a_unit_that_is_gone_is_not_said_to_be_stopped_and_where_it_went_is() -> None:
    gone = "ActiveState=inactive\nSubState=dead\nUnitFileState=\nMainPID=0\n"
    left = gone.replace("UnitFileState=", "UnitFileState=disabled")
    record = Record("R", "chat", "source", "other", "me", "stop", "finalized", "then").dump().decode()
    assert _units(record, gone).endswith(": not there any more, it was moved to other for good")
    assert ": not there, vllm 0.20.1" in _units(None, gone)
    assert ": inactive, vllm 0.20.1" in _units(record, left)
