"""A measured window: own counters before and after, fixed prompts in between, one request at a time, then several."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from checks.data import prompts
from checks.errors import BadInput
from checks.serving import counters, metrics, output
from checks.serving.client import Answer, Client, NoAnswer
from checks.serving.limits import Limits


@dataclass
class Window:
    """``before`` and ``after`` are metrics pages (None where the server has none); ``told`` goes into the record."""

    before: str | None
    after: str | None
    told: dict[str, Any]
    failure: str | None = None


@dataclass
class _Tally:
    answers: list[tuple[str, Answer]] = field(default_factory=list)
    kinds: dict[str, counters.Counters] = field(default_factory=dict)


def measure(
    client: Client,
    *,
    seconds: float,
    thinking: bool,
    context: int,
    levels: tuple[int, ...],
    sglang: bool,
    progress: Callable[[str], None] = lambda line: None,
) -> Window:
    """Runs code and prose prompts until there are enough drafts or ``seconds`` are over; then ``levels`` at once.

    The counters are those of the sequential part, so that several requests at once do not blur acceptance.
    """
    end = time.monotonic() + seconds
    before = _page(client)
    tally = _Tally()
    failure = None
    try:
        _sequential(client, tally, end, thinking, context, sglang, before, progress)
    except NoAnswer as error:
        failure = str(error)
    after = _settled(client, before, tally)
    told = {**_told(tally, thinking), "context": context}
    if failure is None:
        for level in levels:
            progress(f"{level} requests at once")
            rate = _at_once(client, level, thinking, seconds, sglang)
            if rate is not None:
                told["tok_s"][str(level)] = rate
    told["foreign_traffic"] = _foreign(before, after, tally)
    return Window(before, after, told, failure)


def _sequential(
    client: Client,
    tally: _Tally,
    end: float,
    thinking: bool,
    context: int,
    sglang: bool,
    page: str | None,
    progress: Callable[[str], None],
) -> None:
    start = last = _counts(page)
    turn = 0
    while True:
        kind, texts = (("code", prompts.CODE), ("prose", prompts.PROSE))[turn % 2]
        text = prompts.preamble(context) + texts[turn // 2 % len(texts)]
        left = end - time.monotonic()
        if left <= 0:
            return
        tally.answers.append(
            (kind, client.chat(text, prompts.MAX_TOKENS, thinking, max(30.0, left), sglang=sglang))
        )
        turn += 1
        now = _counts(_page(client))
        if now is not None and last is not None:
            gained = counters.difference(last, now)
            tally.kinds[kind] = _sum(tally.kinds.get(kind), gained)
        last = now or last
        drafts = counters.difference(start, last).drafts if start and last else None
        progress(f"{turn} answers" + (f", {drafts:.0f} drafts" if drafts else ""))
        if turn >= 4 and turn % 2 == 0 and _enough(drafts, tally):
            return


def _enough(drafts: float | None, tally: _Tally) -> bool:
    """Enough drafts; without draft counters, enough verified steps, or enough tokens for a steady rate."""
    if drafts is not None and drafts > 0:
        return drafts >= Limits().drafts
    verified = sum(int(answer.spec.get("spec_verify_ct") or 0) for _, answer in tally.answers)
    if verified:
        return verified >= Limits().drafts
    return (
        sum(answer.tokens or 0 for _, answer in tally.answers) >= 4 * prompts.MAX_TOKENS
        or len(tally.answers) >= 12
    )


def _at_once(client: Client, level: int, thinking: bool, seconds: float, sglang: bool) -> float | None:
    """Mean decode tokens/s per request with ``level`` running; None when one of them failed."""
    texts = [(prompts.CODE + prompts.PROSE)[index % 12] for index in range(level)]
    with ThreadPoolExecutor(level) as pool:
        jobs = [
            pool.submit(client.chat, text, prompts.MAX_TOKENS, thinking, seconds, sglang=sglang)
            for text in texts
        ]
        try:
            answers = [job.result() for job in jobs]
        except NoAnswer:
            return None
    return decode_rate(answers)


def decode_rate(answers: list[Answer]) -> float | None:
    """Tokens after the first over the time since the first: 1 / TPOT, whole-window. None without token counts."""
    timed = [answer for answer in answers if answer.tokens and answer.tokens > 1 and answer.seconds > 0]
    if not timed:
        return None
    return sum((answer.tokens or 0) - 1 for answer in timed) / sum(answer.seconds for answer in timed)


def _told(tally: _Tally, thinking: bool) -> dict[str, Any]:
    answers = [answer for _, answer in tally.answers]
    bad, odd = (
        output.faults([output.look(answer.content, answer.reasoning) for answer in answers])
        if answers
        else ([], [])
    )
    rate = decode_rate(answers)
    told: dict[str, Any] = {
        "prompts": "shipped",
        "prompts_version": prompts.VERSION,
        "thinking": thinking,
        "requests": len(answers),
        "tokens": sum(answer.tokens or 0 for answer in answers),
        "content_characters": sum(len(answer.content) for answer in answers),
        "reasoning_characters": sum(len(answer.reasoning) for answer in answers),
        "ttft_ms": round(1000 * statistics.median(answer.ttft for answer in answers), 2) if answers else None,
        "tok_s": {} if rate is None else {"1": round(rate, 3)},
        "output": {"faults": bad, "odd": odd},
        "kinds": {kind: _kind(tally, kind) for kind in ("code", "prose")},
    }
    if spec := _speculation(answers):
        told["speculation"] = spec
    return told


def _kind(tally: _Tally, kind: str) -> dict[str, Any]:
    counted = tally.kinds.get(kind)
    rate = decode_rate([answer for name, answer in tally.answers if name == kind])
    found: dict[str, Any] = {"tok_s": None if rate is None else round(rate, 3)}
    if counted and counted.drafts and counted.accepted is not None:
        found |= {"length": round(1 + counted.accepted / counted.drafts, 4), "drafts": counted.drafts}
    return found


def _speculation(answers: list[Answer]) -> dict[str, Any] | None:
    """SGLang's own statistics, added up. The histogram was renamed between 0.5.11 and 0.5.23."""
    calls = tokens = 0
    histogram: list[int] = []
    for answer in answers:
        spec = answer.spec
        verified, made = spec.get("spec_verify_ct"), spec.get("completion_tokens", answer.tokens)
        if not isinstance(verified, int) or not isinstance(made, int) or verified <= 0:
            continue
        calls, tokens = calls + verified, tokens + made
        counts = spec.get("spec_correct_drafts_histogram") or spec.get("spec_accept_histogram") or []
        for at, count in enumerate(counts if isinstance(counts, list) else []):
            if isinstance(count, int):
                histogram += [0] * (at + 1 - len(histogram))
                histogram[at] += count
    return {"verify_calls": calls, "tokens": tokens, "histogram": histogram} if calls else None


def _page(client: Client) -> str | None:
    try:
        return client.page("/metrics")
    except NoAnswer:
        return None


def _settled(client: Client, before: str | None, tally: _Tally) -> str | None:
    """The page once the engine has counted our last tokens; it publishes a moment after it answers."""
    own = sum(answer.tokens or 0 for _, answer in tally.answers)
    page = _page(client)
    for _ in range(15):
        first, now = _counts(before), _counts(page)
        if (
            first is None
            or now is None
            or (now.generation_tokens or 0) - (first.generation_tokens or 0) >= own
        ):
            break
        time.sleep(0.2)
        page = _page(client)
    return page


def _counts(page: str | None) -> counters.Counters | None:
    return counters.of_page(metrics.parse(page)) if page else None


def _sum(old: counters.Counters | None, new: counters.Counters) -> counters.Counters:
    if old is None:
        return new
    return counters.Counters(
        drafts=(old.drafts or 0) + (new.drafts or 0), accepted=(old.accepted or 0) + (new.accepted or 0)
    )


def _foreign(before: str | None, after: str | None, tally: _Tally) -> bool | None:
    """Whether others were served in the window: more tokens were generated than we received."""
    own = sum(answer.tokens or 0 for _, answer in tally.answers)
    try:
        first, last = _counts(before), _counts(after)
        if first is None or last is None or not own:
            return None
        made = counters.difference(first, last).generation_tokens
    except BadInput:
        return None
    return None if made is None else made > 1.05 * own + 8
