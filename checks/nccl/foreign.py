"""What nccl-tests printed, judged as a measurement made elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from checks.gpus.rule import Outcome, failed, passed, skipped, unknown
from checks.model import Finding
from checks.nccl_tests import Footer, footers


def judge_text(text: str) -> tuple[Finding, ...]:
    """Two findings per footer; none when the text has no footer of nccl-tests."""
    found = footers(text)
    return tuple(
        finding
        for number, footer in enumerate(found, 1)
        for finding in _judge(footer, f"run {number} of nccl-tests" if len(found) > 1 else "nccl-tests")
    )


def _judge(footer: Footer, name: str) -> Iterator[Finding]:
    yield _sums(footer, name).finding("nccl.sums", "host")
    yield _busbw(footer, name).finding("nccl.busbw", "host")


def _sums(footer: Footer, name: str) -> Outcome:
    if footer.sums_right is None:
        return unknown(f"{name}: it printed no check of its sums", fix="run it without -c 0")
    if footer.sums_right:
        return passed(f"{name}: no value out of bounds", value=0, limit=0)
    return failed(
        f"{name}: {footer.wrong} values out of bounds; its bandwidth says nothing then",
        value=footer.wrong,
        limit=0,
        cause="data was changed on its way or in memory, and nothing reported an error",
        fix="run 'provcheck nccl' there: nccl.peer_copy names the pair",
    )


def _busbw(footer: Footer, name: str) -> Outcome:
    if footer.busbw is None:
        return unknown(f"{name}: it printed no bandwidth")
    text = f"{name}: {footer.busbw:g} GB/s, the mean over all its sizes"
    if footer.busbw_passed is False:
        return failed(
            f"{text}, below 0.9 of the floor that it was given",
            value=footer.busbw,
            unit="GB/s",
            cause="slow links, a slow rank, or sizes too small for the floor: a mean over sizes hides which",
            fix="run 'provcheck nccl' there: it holds one large size against the links' own limit",
        )
    if footer.busbw_passed:
        return passed(f"{text}, at least 0.9 of the floor that it was given", value=footer.busbw, unit="GB/s")
    return skipped(f"{text}; no floor was given (NCCL_TESTS_MIN_BW)", value=footer.busbw, unit="GB/s")
