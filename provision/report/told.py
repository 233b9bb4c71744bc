"""From a journal, and those that belong to it, to the report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provision.report import gates, measured, outcome, steps
from provision.report.back import back
from provision.report.document import Claim, Look, Report
from provision.report.entries import Journal, mappings, of, text, texts
from provision.report.gates import Key


def report(
    journal: Journal,
    others: Sequence[Journal] = (),
    earlier: Mapping[Key, Look] | None = None,
    kpro: str = "",
) -> Report:
    """``others``: the runs that this one made; ``earlier``: verdicts of the runs before it; ``kpro``: the version that
    makes the report. Whatever the journal holds, this raises nothing: a fact that is none is not known."""
    everything = (journal, *others)
    ended = outcome.outcome(journal, others)
    changed = steps.changes(everything)
    left = () if ended.well or ended.state in outcome.UNTOUCHED else steps.not_reached(everything, changed)
    tried = measured.candidates(everything)
    events = [event for one in everything for event in one.events]
    return Report(
        run=journal.run,
        kpro=kpro,
        asked=outcome.asked(journal, others),
        outcome=ended,
        evidence=gates.evidence(everything),
        runs=tuple(one.run for one in others),
        steps=steps.steps(everything),
        changes=(*changed, *left),
        downtime=measured.downtimes(everything),
        copies=measured.copies(everything),
        gates=gates.gates(everything, earlier or {}),
        findings=gates.findings(everything),
        refusals=outcome.refusals(events),
        candidates=tried,
        readings=measured.readings(everything),
        answers=measured.answers(everything),
        moved=measured.moved(everything),
        claims=tuple(
            Claim(text(one, "what"), text(one, "seen"), text(one, "state"))
            for event in of(events, "claims")
            for one in mappings(event, "claims")
        ),
        said=tuple(f"{text(event, 'service')}: {text(event, 'text')!r}" for event in of(events, "answered")),
        notes=tuple(
            dict.fromkeys(note for event in of(events, "plan", "note") for note in texts(event, "notes"))
        ),
        back=back(everything, ended.state, changed, tried),
        lost=tuple(line for one in everything for line in one.lost),
        events=tuple(dict(event) for event in events),
    )
