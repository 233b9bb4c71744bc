"""What provcheck measures on a running vLLM is what that vLLM counts itself."""

from __future__ import annotations

import pytest

from tests.engine.conftest import Measured
from tests.engine.rig import K, Engine, counted, provcheck

DRAFTS, DRAFTED, ACCEPTED = (
    f"spec_decode_num_{name}_total" for name in ("drafts", "draft_tokens", "accepted_tokens")
)
READY_DRAFTS = 16
"""At most so many drafts belong to the answer that shows readiness, which is asked for before the window opens."""


@pytest.mark.parametrize("name", ["good", "bad", "ngram"])
def test_length_counts_and_curve_are_those_that_the_engine_counted(
    measured: dict[str, Measured], name: str
) -> None:
    one = measured[name]
    told = one.ran.facts["acceptance"]
    drafts = one.gained(DRAFTS)
    assert told["source"] == "counters"
    assert told["k"] == K
    assert 200 <= told["drafts"] <= drafts <= told["drafts"] + READY_DRAFTS
    assert told["length"] == pytest.approx(1 + one.gained(ACCEPTED) / drafts, rel=0.02)
    own = [one.gained(f"pos.{at}") / drafts for at in range(K)]
    assert told["per_position"] == pytest.approx(own, abs=0.03)
    assert sum(own) == pytest.approx(one.gained(ACCEPTED) / drafts)
