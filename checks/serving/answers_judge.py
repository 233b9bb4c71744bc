"""What kept answers of one service and the look at another one mean: are they the same model? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from checks.data.answer_apis import NO_PROBABILITIES
from checks.data.questions import QUESTIONS
from checks.model import Finding, Report, Status
from checks.serving.answers_form import WHOLE, Answers, Item
from checks.serving.answers_same import template, tokenizer
from checks.serving.answers_sides import BROKE, PATIENCE, Compared, Held, Met, finding

ENOUGH = 10
"""Answers that a share or a mean is made of at the least."""


def judge_asked(answers: Answers, met: Met) -> Report:
    """The report of a round of questions: are there answers to compare with?"""
    items = list(answers.items.values())
    told = [item for item in items if item.tokens]
    broke = [f"{item.id}: {item.why.removeprefix(BROKE)}" for item in items if item.why.startswith(BROKE)]
    cut = [
        f"{item.id} ended with {item.finish!r} after {len(item.tokens)} tokens"
        for item in told
        if not item.whole
    ]
    left = [f"{item.id}: {item.why}" for item in items if item.why and not item.why.startswith(BROKE)]
    if met.down:
        judged = _answers(Status.UNKNOWN, met.down, "start the service, or give its key with --api-key-file")
    elif met.stopped or cut or len(broke) >= PATIENCE:
        why = met.stopped or _listed([*broke, *cut])
        judged = _answers(
            Status.FAIL, why, "read the engine's log: provcheck serve URL --log FILE --diagnose"
        )
    elif len(told) < ENOUGH:
        judged = _answers(
            Status.UNKNOWN,
            f"{len(told)} of {len(items)} questions were answered, {ENOUGH} are needed: {_listed([*broke, *left])}",
            "serve with a greater context, or with --max-logprobs above 0",
        )
    else:
        beside = f"; not answered, so not compared: {_listed([*broke, *left])}" if broke or left else ""
        judged = _answers(
            Status.WARN if broke else Status.PASS,
            f"{len(told)} of {len(items)} questions answered{beside}",
            None,
            len(told),
            len(items),
        )
    return Report("answers", (judged,), facts=_facts(answers) | {"answered": len(told)})


def judge(c: Compared) -> Report:
    """Every finding of a comparison."""
    findings = (answered(c), tokenizer(c), template(c), logprobs(c), first_token(c), text(c))
    facts: dict[str, Any] = {
        "source": _facts(c.source),
        "target": {"engine": c.kind},
        "compared": len(c.pairs()),
        "exact": c.exact,
        "logprob_diff": difference(c),
        "first_token_share": share(c),
    }
    return Report("answers", findings, facts=facts)


def answered(c: Compared) -> Finding:
    """Did the target take what the source took?"""
    if c.met.down:
        return _answers(Status.UNKNOWN, c.met.down, "start the target, or give its key with --api-key-file")
    trouble = [f"{held.id}: {held.trouble}" for held in c.held.values() if held.trouble]
    trouble += [
        f"{held.id}: ended with {held.said.finish!r} after {len(held.said.tokens)} tokens"
        for held in c.held.values()
        if held.said is not None and held.said.finish not in WHOLE
    ]
    if c.met.stopped or trouble:
        why = c.met.stopped or f"{len(trouble)} questions failed: {_listed(trouble)}"
        return _answers(
            Status.FAIL,
            why,
            "read the target's log; a token id out of the vocabulary means another model, a prompt that is too long "
            "another --max-model-len",
        )
    if len(c.pairs()) < ENOUGH:
        told = f"only {len(c.pairs())} answers could be compared, {ENOUGH} are needed"
        return _answers(Status.UNKNOWN, told, "ask the source anew: provcheck _answers ask")
    told = f"{len(c.pairs())} answers of the source were weighed by the target"
    return _answers(Status.PASS, told, None, len(c.pairs()), len(QUESTIONS))


def difference(c: Compared) -> float | None:
    """Mean absolute difference of the log-probabilities of all tokens that the source answered, in nats."""
    gaps = [
        abs(one - other)
        for item, held in c.pairs()
        if item.logprobs is not None and held.scored is not None
        for one, other in zip(item.logprobs, held.scored.logprobs, strict=True)
    ]
    return sum(gaps) / len(gaps) if gaps else None


def logprobs(c: Compared) -> Finding:
    """Do both give the source's answers the same probability?"""
    ident, mean = "serve.answers_logprobs", difference(c)
    weighed = [item for item, held in c.pairs() if item.logprobs is not None and held.scored is not None]
    limit = c.limits.answers_logprob
    if mean is not None and len(weighed) >= ENOUGH:
        tokens = sum(len(item.tokens) for item in weighed)
        told = f"{mean:.4f} nat mean difference over {tokens} tokens of {len(weighed)} answers"
        status = Status.PASS if mean <= limit else Status.FAIL
        fix = "compare commit, quantisation, dtype and flags of the two: provcheck compare SOURCE TARGET"
        return finding(
            ident, status, told, None if status is Status.PASS else fix, round(mean, 5), limit, "nat"
        )
    never = [_never(why) for why in c.untold]
    if never and None not in never and len(_firsts(c)) >= 3 * ENOUGH:
        told = f"they are not told: {never[0]}; serve.answers_first_token looks into the answers instead"
        return finding(ident, Status.SKIP, told, None, None, limit, "nat")
    why = "; ".join(c.untold) or f"of {len(weighed)} answers only"
    return finding(
        ident,
        Status.UNKNOWN,
        f"the log-probabilities could not be compared: {why}",
        "serve without what refuses them",
    )


def _never(why: str) -> str | None:
    """Where it is written that an engine cannot tell any; None: it could, set up otherwise."""
    return next((source for words, source in NO_PROBABILITIES.items() if words in why), None)


def _firsts(c: Compared) -> list[bool]:
    """For each place that was looked at: does the target say there what the source said, or what it finds as likely?

    The first token of each answer; where no probabilities are told also places within.
    """
    found: list[bool] = []
    for item, held in c.pairs():
        if held.forced:
            found += [token == item.tokens[place] for place, token in sorted(held.forced.items())]
        elif held.scored is not None and item.logprobs is None and c.untold:
            found += [held.scored.behind(at, token) == 0 for at, token in enumerate(item.tokens)]
        elif held.said is not None:
            same = held.said.tokens[0] == item.tokens[0]
            found.append(same or _tie(item, held, 0, c.limits.answers_tie))
    return found


def share(c: Compared) -> float | None:
    firsts = _firsts(c)
    return sum(firsts) / len(firsts) if firsts else None


def first_token(c: Compared) -> Finding:
    """Would the target begin its answers as the source began them?"""
    ident, found = "serve.answers_first_token", _firsts(c)
    limit = c.limits.answers_first_token
    if len(found) < ENOUGH:
        told = f"{len(found)} first tokens could be compared, {ENOUGH} are needed"
        return finding(ident, Status.UNKNOWN, told, "see serve.answers")
    agree = sum(found) / len(found)
    status = Status.PASS if agree >= limit else Status.FAIL
    fix = "compare commit, quantisation, dtype and flags of the two: provcheck compare SOURCE TARGET"
    where = "places of the answers" if len(found) > len(c.pairs()) else "answers"
    told = f"{sum(found)} of {len(found)} {where} begin with the source's token: {agree:.3f}"
    return finding(ident, status, told, None if status is Status.PASS else fix, round(agree, 4), limit)


def text(c: Compared) -> Finding:
    """Are the answers equal to the last token, where that is demanded? A choice between two tokens that are equally
    likely is no difference: which one is taken changes with the other requests of a batch.

    Not demanded, a target must still say what it finds likely itself: one that weighs a text well and makes another has
    a broken decoder.
    """
    ident = "serve.answers_text"
    pairs = [(item, held) for item, held in c.pairs() if held.said is not None]
    if len(pairs) < ENOUGH:
        return finding(ident, Status.UNKNOWN, f"{len(pairs)} answers could be compared", "see serve.answers")
    parted = [(item, held, at) for item, held in pairs if (at := parting(item, held)) is not None]
    same = len(pairs) - len(parted)
    ties = [item.id for item, held, at in parted if _tie(item, held, at, c.limits.answers_tie)]
    other = [f"{item.id} from token {at + 1} on" for item, _, at in parted if item.id not in ties]
    odd = [
        f"{item.id} at token {at + 1}"
        for item, held, at in parted
        if _unlikely(held, at, c.limits.answers_tie)
    ]
    if len(odd) > (1 - c.limits.answers_first_token) * len(pairs):
        told = f"{len(odd)} of {len(pairs)} answers go on with a token that it finds unlikely: {', '.join(odd[:8])}"
        fix = "try it with speculation off and without CUDA graphs: what weighs a text is well, what makes one is not"
        return finding(ident, Status.FAIL, told, fix, same, len(pairs))
    if not c.exact:
        told = (
            f"{same} of {len(pairs)} answers are equal; not demanded, which is for one kind of GPU, engine and "
            "tensor-parallel size"
        )
        return finding(ident, Status.SKIP, told, None, same, len(pairs))
    if other:
        told = f"{len(other)} of {len(pairs)} answers are others: {', '.join(other[:8])}"
        fix = "another commit, quantisation or flag: provcheck compare SOURCE TARGET"
        return finding(ident, Status.FAIL, told, fix, same, len(pairs))
    if ties:
        told = (
            f"{same} of {len(pairs)} answers are equal; the others part where two tokens are at most "
            f"{c.limits.answers_tie:g} nat from each other: {', '.join(ties)}"
        )
        return finding(ident, Status.WARN, told, None, same, len(pairs))
    return finding(ident, Status.PASS, f"{same} answers are equal to the last token", None, same, len(pairs))


def parting(item: Item, held: Held) -> int | None:
    """Where two answers part; None where they are equal."""
    assert held.said is not None
    if held.said.tokens == item.tokens and held.said.text == item.text:
        return None
    pairs = zip(item.tokens, held.said.tokens, strict=False)
    shorter = min(len(item.tokens), len(held.said.tokens))
    return next((at for at, (one, other) in enumerate(pairs) if one != other), shorter)


def _tie(item: Item, held: Held, at: int, most: float) -> bool:
    """Are the two tokens with which the answers part equally likely to the target?"""
    assert held.said is not None
    if held.scored is None or at >= min(len(item.tokens), len(held.said.tokens)):
        return False
    return max(held.scored.behind(at, item.tokens[at]), held.scored.behind(at, held.said.tokens[at])) <= most


def _unlikely(held: Held, at: int, most: float) -> bool:
    assert held.said is not None
    if held.scored is None or at >= len(held.said.tokens):
        return False
    return held.scored.behind(at, held.said.tokens[at]) > most


def _facts(answers: Answers) -> dict[str, Any]:
    return {
        "engine": answers.engine,
        "version": answers.version,
        "model": answers.model,
        "taken": answers.taken,
    }


def _listed(lines: Iterable[str]) -> str:
    lines = list(lines)
    rest = f"; and {len(lines) - 4} more" if len(lines) > 4 else ""
    return "; ".join(line[:200] for line in lines[:4]) + rest


def _answers(status: Status, message: str, fix: str | None, value: Any = None, limit: Any = None) -> Finding:
    return finding("serve.answers", status, message, fix, value, limit)
