"""May this service move from this machine to that one? All that speaks against it, at once. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from provision.migrate import earlier, rules_copy, rules_machine, rules_pair, rules_service, rules_way
from provision.migrate.case import Case, of
from provision.migrate.ends import Pair
from provision.migrate.seen import Looks
from provision.plan import Plan, Refusal

RULES = (*rules_pair.RULES, *rules_machine.RULES, *rules_way.RULES, *rules_service.RULES, *rules_copy.RULES)
"""In the order in which refusals are told."""


def judge(source: Looks | None, target: Looks, pair: Pair, target_plan: Plan) -> list[Refusal]:
    """Every refusal, each once. ``source`` None: it is dead (``--cold``). ``target_plan``: what the chain would do on
    the target, with the arriving models left out. Nothing may be touched while this is not empty."""
    said: dict[tuple[str, str], Refusal] = {}
    for refusals in by_rule(source, target, pair, target_plan).values():
        for refusal in refusals:
            said.setdefault((refusal.where, refusal.seen), refusal)
    return list(said.values())


def by_rule(
    source: Looks | None, target: Looks, pair: Pair, target_plan: Plan
) -> Mapping[str, list[Refusal]]:
    """The refusals of each rule by its id; a rule that refuses nothing is not in it, nor one that could only tell what
    follows from an earlier migration."""
    case = Case(pair, source, target, target_plan)
    follows = earlier.follows(case).about
    found = {rule.id: of(rule, case) for rule in RULES if rule.about not in follows}
    return {id: refusals for id, refusals in found.items() if refusals}
