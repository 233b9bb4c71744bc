"""What a profile is held against before it serves: the baseline, the thresholds, the ratio that it must reach. Pure."""

from __future__ import annotations

from checks.serving.limits import Limits
from provision.stack import baselines, candidate, sameness
from provision.stack.baselines import Reading
from provision.stack.candidate import Choice
from provision.stack.desired import DesiredService
from provision.stack.forecast import MEASURE_SECONDS
from provision.stack.held import Held
from provision.stack.scene import Scene


def against(at: Scene, choice: Choice) -> tuple[str, Reading | None]:
    """The file that a candidate is held against, and what is in it: the reading of what serves. None: it is still to be
    measured."""
    seen = at.held or Held()
    if (own := _of(seen, seen.stands)) is not None and not (
        choice.serve and choice.serve.digest != seen.stands
    ):
        return baselines.path(at.own.name, own.key), own
    key = baselines.own_key(at.key(choice.serve), choice.serve.digest) if choice.serve else seen.stands[:12]
    return baselines.path(at.own.name, key), seen.readings.get(key)


def _of(seen: Held, digest: str) -> Reading | None:
    """The best reading that was taken of exactly this profile."""
    same = [one for one in seen.readings.values() if digest and one.digest == digest]
    return max(same, key=lambda one: one.tok_s, default=None)


def held_to(at: Scene, desired: DesiredService) -> tuple[str | None, float | None]:
    """(file of the baseline, least ratio to its tokens/s) of a profile that is no candidate: its own earlier reading,
    else what it takes the place of, and the best of its kind. What the inventory states is a limit too: of them, the
    one that asks for more."""
    fail, stated = _fail(desired), _stated_rate(at)
    if (path := unmeasured(at, desired)) is not None:
        return path, fail
    kept = _kept(at, desired)
    if kept is not None:
        return baselines.path(at.own.name, kept.key), max(
            fail, fail * stated / kept.tok_s
        ) if stated else fail
    if at.own.service.baseline is not None:
        return baselines.path(at.own.name, baselines.STATED), fail if stated else None
    return None, None


def unmeasured(at: Scene, desired: DesiredService) -> str | None:
    """Where the reading goes of what serves, is to give way to ``desired``, and has none: it is measured first."""
    seen = at.held or Held()
    if not seen.stands_up or seen.stands == desired.digest or _of(seen, seen.stands) is not None:
        return None
    goes_back = at.own.candidate is None and _of(seen, desired.digest) is not None
    return None if goes_back else baselines.path(at.own.name, seen.stands[:12])


def _kept(at: Scene, desired: DesiredService) -> Reading | None:
    seen = at.held or Held()
    itself = _of(seen, desired.digest)
    # Without a candidate the inventory asks for this very profile, and that was measured before.
    if itself is not None and (at.own.candidate is None or seen.stands in ("", desired.digest)):
        return itself
    replaced, mine = _of(seen, seen.stands), sameness.shape(desired)
    same = [one for one in seen.readings.values() if mine and one.shape == mine]
    # Only what the service says beside it is another, or a candidate was taken out of the inventory: what a candidate
    # of another shape could do is no measure for it.
    if same and (replaced in same or (at.own.candidate is None and _was_candidate(seen))):
        return max(same, key=lambda one: one.tok_s)
    found = (itself, replaced, seen.readings.get(at.key(desired)))
    return max((one for one in found if one is not None), key=lambda one: one.tok_s, default=None)


def _was_candidate(seen: Held) -> bool:
    known = seen.record(seen.stands)
    return known is not None and known.accepted and bool(known.of)


def to_beat(at: Scene, desired: DesiredService, running: Reading | None) -> float:
    """The ratio to what runs that a candidate must reach, and not fall behind what the inventory states either."""
    spec, stated = at.own.service.candidate, _stated_rate(at)
    least = candidate.beats(spec) if spec is not None else 1.0
    return max(least, _fail(desired) * stated / running.tok_s) if stated and running else least


def _fail(desired: DesiredService) -> float:
    return desired.service.thresholds.get("speed_fail", Limits().speed_fail)


def _stated_rate(at: Scene) -> float | None:
    """Decode tokens/s of one request as the inventory states it."""
    stated = at.own.service.baseline
    return stated.decode_tok_s if stated is not None and stated.concurrency == 1 else None


def gate_words(thresholds: dict[str, float], baseline: str | None, level: int) -> tuple[str, ...]:
    """Words of ``provcheck serve`` behind the URL; never none, since that would be no measurement."""
    words = ["--seconds", str(MEASURE_SECONDS)]
    words += [word for name, n in sorted(thresholds.items()) for word in ("--limit", f"{name}={n:g}")]
    words += ["--baseline", baseline] if baseline else []
    words += ["--concurrency", str(level)] if level > 1 else []
    return tuple(words)


def level(at: Scene) -> int:
    return at.own.service.baseline.concurrency if at.own.service.baseline else 1
