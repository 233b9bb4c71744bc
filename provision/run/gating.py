"""Step 9: everything that is proven before something that runs is stopped. All gates are asked, all reasons are told.

The gate ``gpus`` of each service comes first, then the rows of ``provision.stack.gates`` for every profile that this
run is about to start. A profile that serves already is not asked about again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gevent.lock import RLock
from pyinfra.api.host import Host

from checks.model import Status
from provision.acts import gates as gate_acts
from provision.acts import stack as stack_acts
from provision.inventory import flag_rules
from provision.plan import Item
from provision.run import resting
from provision.run.carrying import Commands, executing, ticking
from provision.run.errors import ActFailed, CandidateRefused
from provision.run.reports import green, kept_findings, line_of, red_text, report_of, shown_verdict, unknown
from provision.run.session import Session
from provision.spec import Guest, Machine
from provision.stack import candidate, gates, measured
from provision.stack.cutover import Cutover
from provision.stack.desired import DesiredService, gate_command
from provision.stack.gates import Case, Gate, Gpus, Skip

RESTART = "container.restart"
_PROBING: defaultdict[str, RLock] = defaultdict(RLock)
CUTOVER, CANDIDATE = "service.cutover", "service.candidate"


def services(session: Session, host: Host, machine: Machine) -> tuple[DesiredService, ...]:
    """The services of a guest; the metal itself has none, nor has a guest whose GPU virtual machines have."""
    if host.name == machine.host_name:
        return ()
    guest: Guest = host.data.guest
    if resting.rests(session, machine, guest):
        return ()
    return tuple(session.wanted(machine).services[guest.name])


def gate(session: Session, host: Host, machine: Machine, *, restarted: bool) -> Commands:
    """Raises ActFailed with every reason of every red gate. ``restarted``: asked again where this run restarted the
    container, since its new configuration is what counts; what lies in files does not change by that."""
    if not executing(session.state):
        host.noop("the gate is asked when the run gets here")
        return
    if restarted and not _was_restarted(session, host, machine):
        host.noop("the container was not restarted")
        return
    asking = _Asking(session, host, machine, restarted)
    asking.gpus()
    asking.others()
    if asking.red:
        raise ActFailed("\n".join(asking.red))
    host.noop("the gate is asked after the restart" if asking.postponed else "the gate is green")
    yield from ()


class _Asking:
    """The gates of one guest in one pass: what they saw, and what is red."""

    def __init__(self, session: Session, host: Host, machine: Machine, restarted: bool) -> None:
        self.session, self.host, self.machine, self.restarted = session, host, machine, restarted
        self.red: list[str] = []
        self.postponed = False
        self.seen = Gpus(green=True)

    def gpus(self) -> None:
        for name, command in _gpu_gates(self.session, self.host, self.machine):
            began = time.monotonic()
            report = report_of(stack_acts.gate(self.host, command))
            took = time.monotonic() - began
            self.session.journal.write(
                "gate",
                host=self.host.name,
                service=name,
                verdict=report["verdict"],
                evidence=report.get("evidence", "none"),
                seconds=round(took, 1),
                findings=kept_findings(report),
            )
            facts = report.get("facts")
            self.seen = Gpus(
                self.seen.green and green(report),
                self.seen.replayed or report.get("evidence") == "replayed",
                facts if isinstance(facts, dict) else {},
            )
            if green(report):
                self._say(f"gate of {name}: {shown_verdict(report)} ({took:.1f} s)")
            elif not self.restarted and _restart_comes(self.session, self.host, self.machine):
                self._say(
                    f"gate of {name}: red in the container as it runs; nothing serves in it, so it is"
                    " restarted with its new configuration and asked again"
                )
                self.postponed = True
            else:
                self.red.append(red_text(name, report))

    def others(self) -> None:
        if self.restarted and not self.seen.green:
            return
        for number, (item, profile) in enumerate(_profiles(self.session, self.host, self.machine)):
            case = self._case(profile)
            skipped, before = [], len(self.red)
            for row in gates.arising(case, of_gpus_only=self.restarted):
                if (row.active and number) or (row.of_gpus and self.postponed):
                    continue
                answer = row.ask(case)
                if isinstance(answer, Skip):
                    self._journal(row, case, {"verdict": "skip"}, 0.0, answer.why)
                    skipped += [f"{row.id} ({answer.why})"] if answer.told else []
                    continue
                red = self._one(row, case, answer)
                case = replace(case, red=case.red | red)
            if item is not None and item.kind == CANDIDATE and self.red[before:]:
                # It is not tried, and keeps nothing else from being done.
                why = "\n".join(self.red[before:])
                del self.red[before:]
                name = candidate.name_of(case.profile)
                later = "It was not tried; the next run asks again"
                told = CandidateRefused(self.host.name, case.profile.name, name, why, later)
                self.session.tried.red[item.id] = told
                self._say(f"gates of {_name(case)}: its candidate is red and will not be tried:\n{why}")
            if skipped:
                self._say(f"gates of {_name(case)} that were not asked: {', '.join(skipped)}")

    def _case(self, profile: DesiredService | None) -> Case:
        """With what is asked of the guest only where GPUs may be put to work."""
        guest: Guest = self.host.data.guest
        case = Case(guest, profile, self.seen)
        if not guest.gpus or not self.seen.green or self.seen.replayed or self.seen.in_use:
            return case
        units = [desired.service.unit for desired in services(self.session, self.host, self.machine)]
        units += [unit.replace(".service", "-candidate.service") for unit in units]
        if stack_acts.running(self.host, units):
            return Case(guest, profile, self.seen, running=True)
        boot, files = gate_acts.kept(self.host)
        found = {}
        for row in measured.KEEPING:
            place = self._place(case, boot)
            text = files.get(measured.path_of(row.gate, place.variables))
            if (what := measured.holds(text, row.gate, place, datetime.now(UTC))) is not None:
                found[row.gate] = what
        return Case(guest, profile, self.seen, kept=found)

    def _place(self, case: Case, boot: str) -> measured.Place:
        variables = gates.nccl_variables(case)
        return measured.place_of(
            self.seen.facts, self.session.wanted(self.machine).pyz.sha256, boot, variables
        )

    def _one(self, row: Gate, case: Case, words: tuple[str, ...]) -> set[str]:
        """Asks one gate; the ids of what is red."""
        variables = gates.nccl_variables(case) if row.id == "nccl" else {}
        seconds = row.deadline(case)
        line = gate_acts.line_of(row, words, seconds, gates.silences_of(case), variables)
        # Guests of one machine share its memory and PCIe root: beside each other they would measure each other.
        alone = _PROBING[self.machine.name] if row.active else nullcontext()
        with alone, ticking(self.session, self.host.name, f"the gate {row.id} of {_name(case)}: {row.text}"):
            began = time.monotonic()
            try:
                report = report_of(gate_acts.ask(self.host, line, seconds))
            except OSError as error:
                report = unknown(f"the guest gave no answer ({error}); its deadline is {seconds} s")
        if report.get("evidence", "live") != "live":
            report = unknown(
                "its evidence is not live: what was replayed opens no gate but that of a test host"
            )
        took = time.monotonic() - began
        said = line_of(report, row.id)
        if row.active:
            self._keep(row, case, report)
        self._journal(row, case, report, took, said)
        if green(report):
            self._say(f"gate {row.id} of {_name(case)}: {report['verdict']} ({took:.1f} s): {said}")
            for note in _notes(row, case):
                self._say(f"gate {row.id} of {_name(case)}: note: {note}")
            return set()
        red = _red_ids(report)
        again = gate_acts.by_hand(gates.again(row, words, red))
        self.red.append(red_text(_name(case), report, row.id, again))
        return red

    def _keep(self, row: Gate, case: Case, report: dict[str, Any]) -> None:
        """A red one too: it is what the next plan decides by."""
        place = self._place(case, gate_acts.kept(self.host)[0])
        when = datetime.now(UTC).isoformat(timespec="seconds")
        text = measured.kept(report, place, when, self.session.id) if report.get("schema") else None
        if text is not None:
            gate_acts.keep(self.host, measured.path_of(row.id, place.variables), text)

    def _journal(self, row: Gate, case: Case, report: dict[str, Any], took: float, said: str) -> None:
        self.session.journal.write(
            "checked",
            host=self.host.name,
            service=_name(case),
            gate=row.id,
            verdict=str(report["verdict"]),
            evidence=report.get("evidence", "none"),
            seconds=round(took, 1),
            said=said,
            findings=kept_findings(report),
        )

    def _say(self, text: str) -> None:
        self.session.say(f"{self.host.name}: {text}")


def _notes(row: Gate, case: Case) -> list[str]:
    """What the table of released engines would have refused, and the installed parser takes."""
    if row.id != "flags":
        return []
    table = flag_rules.by_table(case.profile.service, case.command, case.variables)
    said = [finding.message for finding in table.findings if finding.status is Status.FAIL]
    return [f"the installed parser knows what the table of releases does not: {text}" for text in said]


def _red_ids(report: dict[str, Any]) -> set[str]:
    return {one["id"] for one in report["findings"] if one.get("status") in ("fail", "unknown")}


def _name(case: Case) -> str:
    return case.desired.name if case.desired is not None else case.guest.name


def _gpu_gates(session: Session, host: Host, machine: Machine) -> list[tuple[str, tuple[str, ...]]]:
    """What the gate is asked for, by name: each service of a guest, or its GPUs where it has no service yet."""
    found = services(session, host, machine)
    if found or host.name == machine.host_name:
        return [(desired.name, desired.gate) for desired in found]
    guest: Guest = host.data.guest
    gated = guest.gpus and guest.managed and not resting.rests(session, machine, guest)
    return [(guest.name, gate_command(guest, None))] if gated else []


def _profiles(
    session: Session, host: Host, machine: Machine
) -> list[tuple[Item | None, DesiredService | None]]:
    """The profiles that this run is about to start here, with the items that do so; none of both for GPUs that have no
    service yet."""
    if host.name == machine.host_name:
        return []
    found: list[tuple[Item | None, DesiredService | None]] = []
    plan = session.plan(machine)
    for item in (*plan.of(CUTOVER, host.name), *plan.of(CANDIDATE, host.name)):
        cutover: Cutover = item.payload
        # The very same profile was proven when it was new, and every second here is one without the service.
        if cutover.mode != "again":
            found.append((item, cutover.desired))
    if not found and not services(session, host, machine) and _gpu_gates(session, host, machine):
        return [(None, None)]
    return found


def _was_restarted(session: Session, host: Host, machine: Machine) -> bool:
    return host.name != machine.host_name and any(
        item.kind == RESTART and item.subject == host.data.guest.name and item.host == machine.host_name
        for item in session.changed
    )


def _restart_comes(session: Session, host: Host, machine: Machine) -> bool:
    """Does a restart that was shown wait for this guest, and would it take nothing away? A service that runs is left
    alone: its container may have lost its GPUs, but the service itself still has them open."""
    if host.name == machine.host_name or "activate" not in session.phases:
        return False
    waits = any(
        item.subject == host.data.guest.name for item in session.plan(machine).of(RESTART, machine.host_name)
    )
    units = [desired.service.unit for desired in services(session, host, machine)]
    return waits and not stack_acts.running(host, units)
