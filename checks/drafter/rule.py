"""The form of a check and of a rule, and how rules become findings: one finding per check, passes included.

A check is a question ("are these layer ids in order?"). Its rules are the ways in which the answer can be no,
each a row: a typed predicate, a message, the cause, the fix, the source, and the measured effect. All rules
of a check that fire are told at once; the worst gives the status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from checks.data.drafter_effects import Effect, effect
from checks.drafter.case import Case
from checks.model import Finding, Status, verdict_of

Facts = Mapping[str, Any]
When = Callable[[Case], "Facts | None"]


@dataclass(frozen=True)
class Check:
    """One question about one subject.

    ``passes`` says in words why the answer is yes; ``skips`` gives the reason when the question does not
    arise; ``blind`` the reason when it cannot be answered; ``value`` and ``limit`` what was seen and what was
    expected.
    """

    id: str
    why: str
    passes: Callable[[Case], str]
    subject: str = "drafter"
    skips: Callable[[Case], str | None] = lambda case: None
    blind: Callable[[Case], str | None] = lambda case: None
    value: Callable[[Case], Any] = lambda case: None
    limit: Callable[[Case], Any] = lambda case: None


@dataclass(frozen=True)
class Rule:
    """One way to fail a check.

    ``when`` returns the values that ``message``, ``cause`` and ``fix`` are filled with.

    ``effect`` is a key of the measured rows, or a function of the case that picks a row.
    """

    name: str
    check: str
    status: Status
    when: When
    message: str
    cause: str
    fix: str
    source: str
    effect: str | Callable[[Case], Effect | None] | None = None


@dataclass(frozen=True)
class Fired:
    """A rule that applies to a case, with the values that it saw and the effect it has."""

    rule: Rule
    facts: Facts
    effect: Effect | None

    @property
    def message(self) -> str:
        return _fill(self.rule.message, self)

    @property
    def cause(self) -> str:
        return _fill(self.rule.cause, self)

    @property
    def fix(self) -> str:
        return _fill(self.rule.fix, self)


def fired_rules(case: Case, rules: Iterable[Rule]) -> tuple[Fired, ...]:
    """All rules that apply, in the order of the table."""
    result: list[Fired] = []
    for rule in rules:
        facts = rule.when(case)
        if facts is not None:
            row = (
                effect(rule.effect)
                if isinstance(rule.effect, str)
                else rule.effect(case)
                if rule.effect
                else None
            )
            result.append(Fired(rule, facts, row))
    return tuple(result)


def finding_of(check: Check, case: Case, fired: Iterable[Fired]) -> Finding:
    """The one finding of a check: skipped, blind, failed by its rules, or passed."""
    mine = [item for item in fired if item.rule.check == check.id]
    if reason := check.skips(case):
        return Finding(check.id, Status.SKIP, check.subject, reason, owner="user")
    if mine:
        effects = list(dict.fromkeys(item.effect.sentence() for item in mine if item.effect))
        causes = [item.cause for item in mine]
        return Finding(
            check.id,
            verdict_of(Finding(check.id, item.rule.status, check.subject, "") for item in mine),
            check.subject,
            ". ".join(item.message for item in mine),
            value=check.value(case),
            limit=check.limit(case),
            cause=". ".join(dict.fromkeys([*causes, *(f"Measured: {text}" for text in effects)])),
            fix=". ".join(dict.fromkeys(item.fix for item in mine)),
            owner="user",
        )
    if reason := check.blind(case):
        return Finding(check.id, Status.UNKNOWN, check.subject, reason, owner="user")
    return Finding(
        check.id,
        Status.PASS,
        check.subject,
        check.passes(case),
        value=check.value(case),
        limit=check.limit(case),
        owner="user",
    )


def _fill(text: str, item: Fired) -> str:
    return text.format(**item.facts) if item.facts else text
