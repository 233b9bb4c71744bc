"""What a report says of each kind of run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provision.report import entries, gates, told
from provision.report.document import SCHEMA, Report
from provision.report.write import document
from tests.unit.report import journals
from tests.unit.report.journals import GIB, GUEST, KINDS, METAL, POSITIONS, RUN, STEPS, event, raw
from tests.unit.report.pages import page, report

WORDS = {
    "green": ("done", 0, True), "in_sync": ("in sync", 0, True), "red_gate": ("failed", 1, False),
    "refused_candidate": ("failed", 1, False), "refused": ("refused", 3, False),
    "interrupted": ("interrupted", 130, False), "replayed": ("done", 0, True), "migrate": ("done", 0, True),
    "taken_back": ("taken back", 1, False),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_how_a_run_ended_is_its_first_word(kind: str) -> None:
    found = report(KINDS[kind]()).outcome
    assert (found.state, found.exit, found.well) == WORDS[kind]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_document_has_its_schema_and_every_section(kind: str) -> None:
    data = json.loads(document(report(KINDS[kind]())))
    assert data["schema"] == SCHEMA == "kpro-report/1"
    assert data["run"] == RUN
    assert set(data) == {
        "schema", "run", "kpro", "asked", "outcome", "evidence", "runs", "steps", "changes", "downtime", "copies",
        "gates", "findings", "silences", "refusals", "candidates", "readings", "answers", "moved", "claims", "said",
        "notes", "back", "lost",
    }  # fmt: skip


def test_a_green_run_says_who_asked_what_when_and_how_long() -> None:
    asked = report(KINDS["green"]()).asked
    assert (asked.command, asked.by, asked.machines) == ("provision apply kpro5", "ops@desk", ("kpro5",))
    assert (asked.services, asked.seconds) == (("chat",), 471.5)
    assert asked.began.startswith("2026-11-30T12:00:00")


def test_a_step_has_its_time_and_its_changes_and_one_that_only_looked_is_told_apart() -> None:
    steps = {step.name: step for step in report(KINDS["green"]()).steps}
    assert steps["3 driver"].state == "done"
    assert steps["3 driver"].seconds == pytest.approx(58.7, abs=0.1)
    assert steps["3 driver"].changes == 1
    assert steps["4 reboot"].state == "nothing to do"
    assert sum(step.seconds or 0 for step in steps.values()) <= 471.5


def test_a_step_that_failed_says_why_and_what_it_had_not_come_to_is_named() -> None:
    events = KINDS["interrupted"]()
    plan = next(one for one in events if one["event"] == "plan")
    shown: list[dict[str, Any]] = [
        {"step": 3, "host": METAL, "text": "install driver 580.159.04 (open)"},
        {"step": 10, "host": GUEST, "text": "put kpro-chat.service into service"},
    ]
    plan["items"] = shown
    found = report(events)
    states = {change.text: change.state for change in found.changes}
    assert states["take 0000:41:00.0 out of /etc/modprobe.d/vfio.conf"] == "done"
    assert states["install driver 580.159.04 (open)"] == "under way"
    assert states["put kpro-chat.service into service"] == "not reached"


def test_a_red_gate_has_its_reason_its_numbers_and_the_next_command() -> None:
    found = report(KINDS["red_gate"]())
    (finding,) = found.findings
    assert (finding.id, finding.status, finding.value, finding.limit) == ("gpu.ecc", "fail", "3", "0")
    assert (finding.cause, finding.fix) == ("a bad cell", "reset it")
    assert "3 uncorrectable errors" in found.outcome.why[0]
    assert found.outcome.next == ("provision apply kpro5",)
    assert found.back == ()
    assert next(step for step in found.steps if step.name == "9 gate").state == "failed"


def test_a_silenced_finding_stands_apart_with_owner_reason_and_day() -> None:
    found = report(KINDS["green"]())
    assert [one.id for one in found.silences] == ["gpu.power_limit"]
    assert found.silences[0].silence == "by ops@example.org until 2027-01-31: rack budget"
    assert [one.id for one in found.findings if not one.silence] == ["gpu.pcie_width"]


def test_every_refusal_has_its_next_step_and_nothing_is_to_be_taken_back() -> None:
    found = report(KINDS["refused"]())
    assert [one.where for one in found.refusals] == ["machines.kpro5.gpus[0]", "machines.kpro5.gpus[1]"]
    assert {one.next for one in found.refusals} == {"stop the machine: qm stop 101"}
    assert found.back == ()
    shown = page(KINDS["refused"]()).words
    assert shown.count("qm stop 101") >= 2
    assert "Nothing was changed by this run" in shown


def test_a_refused_candidate_is_told_with_its_figures_and_the_service_goes_on() -> None:
    found = report(KINDS["refused_candidate"]())
    (one,) = found.candidates
    assert (one.verdict, one.candidate, one.tok_s, one.downtime_s) == ("refused", True, 96.1, None)
    assert "what served before goes on" in found.outcome.text
    assert not [back for back in found.back if "--service" in back.command]


def test_an_accepted_candidate_can_be_taken_back_by_name() -> None:
    commands = [back.command for back in report(KINDS["green"]()).back]
    assert commands == [
        "provision rollback kpro5 --service chat",
        "provision rollback kpro5",
        f"/var/lib/kpro/undo.sh {RUN}",
    ]


def test_downtime_is_measured_or_said_not_to_be() -> None:
    (one,) = report(KINDS["green"]()).downtime
    assert (one.service, one.seconds, one.forecast_s) == ("chat", 38.4, 41.0)
    (lost,) = report(KINDS["refused_candidate"]()).downtime
    assert lost.seconds is None
    assert "not measured" in page(KINDS["refused_candidate"]()).words


def test_what_rests_on_a_record_is_said_loudly_and_what_does_not_is_not() -> None:
    assert report(KINDS["replayed"]()).evidence == "replayed"
    assert "REPLAYED A verdict below rests on a record" in page(KINDS["replayed"]()).words
    assert report(KINDS["green"]()).evidence == "live"
    assert "REPLAYED" not in page(KINDS["green"]()).text
    assert report(KINDS["in_sync"]()).evidence == "none"
    assert "NO GATE" in page(KINDS["in_sync"]()).words


def test_a_reading_stands_beside_the_baseline_that_it_was_held_to() -> None:
    baseline, candidate = report(KINDS["green"]()).readings
    assert (baseline.baseline, baseline.tok_s, baseline.acceptance) == (True, 71.3, 2.61)
    assert (candidate.baseline, candidate.tok_s, candidate.per_position) == (False, 96.1, tuple(POSITIONS))
    assert candidate.by_concurrency == ((1, 96.1), (4, 81.2), (16, 44.0))
    words = page(KINDS["green"]()).words
    assert "chat: drafts accepted, by position" in words
    assert "chat: decode speed of one request" in words


def test_a_migration_has_its_steps_copies_and_both_sides() -> None:
    found = report(KINDS["migrate"]())
    assert [step.name for step in found.steps] == list(STEPS)
    assert {step.state for step in found.steps} == {"done"}
    assert (found.asked.source, found.asked.target, found.asked.machines) == (
        "kpro6",
        "kpro5",
        ("kpro5", "kpro6"),
    )
    (copy, delta) = found.copies
    assert (copy.bytes, copy.files, copy.route, copy.state) == (41 * GIB, 23, "direct", "done")
    assert len(copy.samples) == 5
    assert [(one.gate, one.before and one.before.of, one.after and one.after.of) for one in found.gates] == [
        ("gpus", "the source", "the target"), ("nccl", "the source", "the target"),
    ]  # fmt: skip
    assert [(one.label, one.baseline) for one in found.readings] == [
        ("the source baseline", True), ("the target measured", False),
    ]  # fmt: skip
    assert found.answers[0].first_token_share == 0.985
    assert [(one.what, one.stays) for one in found.moved] == [
        ("model acme/large@1111", False),
        ("compile caches", True),
    ]
    assert [back.command for back in found.back] == [
        "provision migrate kpro6 kpro5 --rollback", "provision migrate kpro6 kpro5 --finalize",
    ]  # fmt: skip
    assert delta.step == "delta"


def test_a_migration_that_was_taken_back_says_why_and_leaves_nothing_to_take_back() -> None:
    found = report(KINDS["taken_back"]())
    assert found.outcome.why == ("the switch hook ended with 7",)
    assert {step.state for step in found.steps} == {"undone"}
    assert [back.command for back in found.back] == ["provision migrate kpro6 kpro5"]


def test_a_migration_cut_in_the_middle_goes_on_or_back() -> None:
    events = [one for one in KINDS["migrate"]() if one["event"] != "end"]
    cut = events[: next(n for n, one in enumerate(events) if one.get("step") == "warm")]
    found = report([*cut, event(99, "step", step="warm", state="begin")])
    assert found.outcome.state == "did not end"
    assert found.steps[-1].state == "under way"
    assert [back.command.rsplit(" ", 1)[1] for back in found.back] == ["--resume", "--rollback"]


def test_one_that_was_taken_up_again_is_not_ended_by_its_first_end() -> None:
    events = [*journals.migrate("copy", fails=True), event(900, "step", step="copy", state="begin")]
    assert report(events).outcome.state == "did not end"
    events += [
        event(990, "step", step="copy", state="done", seconds=90),
        event(991, "end", exit=0, failed=[]),
    ]
    found = report(events)
    assert found.outcome.exit == 0
    assert next(step for step in found.steps if step.name == "copy").state == "done"


def test_once_it_is_finalized_there_is_no_way_back() -> None:
    events = [
        *KINDS["migrate"](),
        event(2000, "step", step="finalize", state="done"),
        event(2001, "end", exit=0),
    ]
    assert report(events).back == ()


def test_a_gate_that_was_asked_twice_shows_both_and_one_asked_once_what_an_earlier_run_saw() -> None:
    def gate(at: float, verdict: str, name: str = "") -> dict[str, Any]:
        more = {"gate": name} if name else {}
        return event(at, "checked" if name else "gate", host=GUEST, service="chat", verdict=verdict, **more)

    then = entries.read(journals.EARLIER, raw([gate(0, "warn"), gate(1, "pass", "fit")]))
    events = [
        *journals.begun(),
        gate(1, "fail"),
        gate(5, "pass"),
        gate(6, "pass", "fit"),
        gate(7, "pass", "load"),
    ]
    rows = {one.gate: one for one in report(events, earlier=gates.seen_last([then])).gates}
    gpus, fit, load = rows["gpus"], rows["fit"], rows["load"]
    assert gpus.before is not None
    assert (gpus.before.verdict, gpus.before.of) == ("fail", "earlier in this run")
    assert fit.before is not None
    assert (fit.before.verdict, fit.before.of) == ("pass", f"run {journals.EARLIER}")
    assert load.before is None
    assert all(one.after is not None and one.after.verdict == "pass" for one in rows.values())


def test_the_runs_of_a_demonstration_are_told_in_it() -> None:
    own = [
        event(0, "run", reason="demo", by="ops@desk"),
        event(1, "step", step="apply", state="begin"),
        event(500, "step", step="apply", state="done", seconds=499),
        event(501, "claims", claims=[{"what": "the service answers", "seen": "'Hello'", "state": "shown"}]),
        event(502, "end", exit=0, failed=[], changed=[]),
    ]
    inner = entries.read("20261130T120001Z-ffffff", raw(KINDS["replayed"]()))
    found: Report = told.report(entries.read(RUN, raw(own)), [inner])
    assert found.runs == ("20261130T120001Z-ffffff",)
    assert found.evidence == "replayed"
    assert [(step.name, step.of) for step in found.steps][:2] == [("apply", ""), ("1 inspect", "apply kpro5")]
    assert found.claims[0].state == "shown"
    assert found.back == ()
    assert found.asked.command == "provision demo"


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        ("assign kpro5 61:00.0 vm", "provision assign kpro5 61:00.0 lxc"),
        ("assign kpro5 61:00.0 lxc", "provision assign kpro5 61:00.0 vm"),
        ("rollback kpro5", "provision apply kpro5"),
    ],
)
def test_each_command_has_its_own_way_back(reason: str, command: str) -> None:
    events = [
        *journals.begun(reason),
        journals.item(1, "begin", 8, "x", "change x"),
        journals.item(2, "done", 8, "x", "change x"),
        event(3, "end", exit=0),
    ]
    assert [back.command for back in report(events).back] == [command]


def test_what_was_taken_back_on_the_metal_is_told() -> None:
    events = [
        *journals.begun(),
        *journals.operations(1, "3 driver: install"),
        journals.item(1.1, "begin", 3, "driver", "install the driver"),
        journals.item(2, "failed", 3, "driver", "install the driver", why="it does not compile"),
        event(3, "rolled back", host=METAL, whole=True, reboot=False, said=["put /etc/default/grub back"]),
        event(4, "end", exit=1, failed=[METAL]),
    ]
    found = report(events)
    assert "what it changed on the machine was taken back" in found.outcome.text
    assert [(one.step, one.state) for one in found.changes] == [
        ("3 driver", "failed"),
        ("the way back", "done"),
    ]


def test_a_long_text_is_folded_and_whole() -> None:
    events = KINDS["red_gate"]()
    long = "\n".join(f"line {n} of the log" for n in range(400))
    for one in events:
        if one["event"] == "failed":
            one["why"] = long
    shown = page(events)
    assert "line 399 of the log" in shown.text
    assert "details" in shown.elements


def test_a_migration_that_the_operator_took_back_offers_no_second_way_back() -> None:
    events = [
        *KINDS["migrate"](),
        event(2000, "run", reason="migrate kpro6 kpro5 --rollback"),
        *(
            event(2001, "step", step=step, state="undone", seconds=0.1)
            for step in reversed(STEPS)
            if step != "preflight"
        ),
        event(2002, "end", exit=0, failed=[]),
    ]
    found = report(events)
    assert (found.outcome.state, found.outcome.exit) == ("taken back", 0)
    assert [back.command for back in found.back] == ["provision migrate kpro6 kpro5"]


def test_a_migration_that_was_taken_back_in_between_and_went_through_is_not_called_taken_back() -> None:
    events = [
        event(0, "run", reason="migrate kpro6 kpro5"),
        event(1, "step", step="drain", state="undone", seconds=0.1),
        event(2, "step", step="stop", state="done", seconds=0.1),
        event(3, "step", step="moved", state="done"),
        event(4, "end", exit=0, failed=[]),
    ]
    assert report(events).outcome.state == "done"
    assert report([*events[:2], events[-1]]).outcome.state == "taken back"


def test_one_taken_up_by_another_controller_is_called_by_its_plain_command() -> None:
    events = [
        event(0, "run", reason="migrate kpro6 kpro5 --resume", source="kpro6", target="kpro5"),
        event(1, "step", step="copy", state="begin"),
        event(2, "step", step="copy", state="undo failed", why="the disk is gone"),
        event(3, "end", exit=1, failed=[]),
    ]
    found = report(events)
    assert found.steps[0].state == "failed"
    assert [back.command for back in found.back] == [
        "provision migrate kpro6 kpro5 --resume", "provision migrate kpro6 kpro5 --rollback",
    ]  # fmt: skip


def test_the_chain_within_a_migration_is_told_apart_and_its_gate_gives_way_to_the_last_one() -> None:
    events = KINDS["migrate"]()
    warm = [
        *journals.operations(3, "9 gate"),
        event(3.1, "gate", host="@guest/kpro5/llm", service="chat", verdict="fail", evidence="live"),
        event(
            3.2,
            "checked",
            host="@guest/kpro5/llm",
            service="chat",
            gate="fit",
            verdict="pass",
            evidence="live",
        ),
        event(3.3, "step", step="moved", state="done"),
    ]
    then = entries.read(
        journals.EARLIER,
        raw([event(0, "checked", host="@guest/kpro6/x", service="chat", gate="fit", verdict="warn")]),
    )
    found = report([*events[:4], *warm, *events[4:]], earlier=gates.seen_last([then]))
    assert [(step.name, step.of) for step in found.steps if step.of] == [
        ("9 gate", "the chain's own steps, within these")
    ]
    assert "moved" not in [step.name for step in found.steps]
    rows = {one.gate: one for one in found.gates}
    assert rows["gpus"].after is not None
    assert (rows["gpus"].after.verdict, rows["gpus"].after.of) == ("pass", "the target")
    assert rows["fit"].before is not None
    assert (rows["fit"].before.verdict, rows["fit"].before.of) == (
        "warn",
        f"the source, run {journals.EARLIER}",
    )


def test_what_moves_is_told_with_its_size() -> None:
    moves = [
        {"what": "model: acme/large", "how": "copied", "bytes": 3 * GIB, "files": 12, "note": "by checksum"}
    ]
    events = [event(0, "run", reason="migrate a b"), event(1, "plan", machine="b", moves=moves, stays=[])]
    (one,) = report(events).moved
    assert one.how == "copied, 3 GiB, 12 files, by checksum"


def test_a_migration_that_was_refused_has_its_reasons_and_nothing_to_take_back() -> None:
    reason = {
        "where": "kpro5",
        "seen": "12 GiB are free",
        "why": "41 GiB are to come",
        "next": "free some space",
    }
    events = [
        event(0, "run", reason="migrate kpro6 kpro5", source="kpro6", target="kpro5"),
        event(1, "step", step="preflight", state="begin"),
        event(2, "plan", machine="kpro5", refusals=[reason]),
        event(3, "step", step="preflight", state="failed", why="1 reason(s)"),
        event(4, "end", exit=3, failed=[]),
    ]
    found = report(events)
    assert [one.next for one in found.refusals] == ["free some space"]
    assert found.back == ()


def test_the_worst_finding_comes_first_and_what_is_silenced_last() -> None:
    hushed = journals.SILENCED | {"status": "fail", "id": "gpu.silenced"}
    told_ = [
        hushed,
        *(journals.finding(status, f"gpu.{status}", "m") for status in ("warn", "unknown", "fail", "pass")),
    ]
    events = [*journals.begun(), event(1, "gate", host=GUEST, service="chat", verdict="fail", findings=told_)]
    assert [one.id for one in report(events).findings] == [
        "gpu.fail",
        "gpu.unknown",
        "gpu.warn",
        "gpu.silenced",
    ]
