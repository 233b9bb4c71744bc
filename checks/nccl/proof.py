"""Is peer-to-peer between these GPUs proven to work, or proven to be broken? Pure.

What the driver reports proves neither. Broken is: data that arrived wrong over a direct copy, or ranks that hang or sum
wrongly with peer access and are right in the same run without it. Everything else is no reason to switch it off.
"""

from __future__ import annotations

from typing import Any

from checks.nccl.measured import Measured, Run
from checks.nccl.rules_ranks import WITHOUT_P2P

OFF = "NCCL_P2P_DISABLE"


def peer_to_peer(measured: Measured) -> dict[str, str]:
    """``state``: works, broken, none (no peer access between any two), untested (one GPU, nobody looked), unproven; and
    ``because``, in words."""
    if len(measured.gpus) < 2 or measured.pairs is None:
        return _said("untested", "there is one GPU" if len(measured.gpus) == 1 else "nothing was measured")
    ways = [pair for pair in measured.pairs if pair.get("direct") is True]
    for pair in ways:
        for copy in pair.get("copies") or ():
            if isinstance(copy.get("wrong"), int) and copy["wrong"] > 0:
                return _said(
                    "broken",
                    f"{copy['wrong']} words arrived wrong in a direct copy of {copy.get('bytes')} bytes from GPU "
                    f"{pair.get('src')} to {pair.get('dst')}, and the driver reported success",
                )
    first = measured.runs[0] if measured.runs else None
    asked = measured.environment.get(OFF, "0") == "0"
    without = next((run for run in measured.runs[1:] if dict(run.extra) == WITHOUT_P2P), None)
    if first is not None and asked and without is not None and _right(without):
        how = _fails(first)
        if how is not None:
            return _said("broken", f"{how} with peer access, and right without it")
    if not ways:
        known = all(pair.get("direct") is False for pair in measured.pairs)
        return (
            _said("none", "the driver allows no peer access between them")
            if known and measured.pairs
            else _said("unproven", "whether there is peer access could not be seen")
        )
    whole = all(_whole(pair) for pair in ways)
    if whole and first is not None and asked and _right(first):
        return _said("works", f"{len(ways)} direct ways copied right, and every sum over them was right")
    return _said(
        "unproven",
        "not every copy and sum came to its end, and peer access was not shown to be why",
    )


def _said(state: str, because: str) -> dict[str, str]:
    return {"state": state, "because": because}


def _whole(pair: Any) -> bool:
    copies = pair.get("copies") or ()
    return (
        bool(copies)
        and not pair.get("hung")
        and not pair.get("error")
        and all(copy.get("wrong") == 0 for copy in copies)
    )


def _right(run: Run) -> bool:
    """Every rank came through, and no number was wrong."""
    return run.whole and all(line.get("wrong") == 0 for rank in run.ranks for line in rank.sums)


def _fails(run: Run) -> str | None:
    """How a run fails in a way that peer access can be the reason of; a rank that died or was stopped from outside says
    nothing of it."""
    if any(rank.ended == "died" or rank.stopped for rank in run.ranks):
        return None
    if any(rank.hung for rank in run.ranks):
        return "ranks hang"
    if any(line.get("wrong") != 0 for rank in run.ranks for line in rank.sums):
        return "sums are wrong"
    return None
