"""Two services side by side: which settings differ in effect, what was measured, and what to carry over. Pure.

Settings are compared by meaning, not by name: SGLang's 4 draft tokens are vLLM's 3, its EAGLE without a draft model
is MTP. Acceptance rates are never compared, their definitions differ; lengths and tokens/s are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checks.data.settings_map import SETTINGS, SettingRow
from checks.model import Finding, Report, Status
from checks.serving.diagnose import as_facts, diagnose
from checks.serving.evidence import Evidence
from checks.serving.judge import generates
from checks.serving.judge_speed import status_of
from checks.serving.signs import signs_of


@dataclass(frozen=True)
class Difference:
    """One setting that differs, or is known of one service only. ``a`` and ``b`` are canonical values."""

    row: SettingRow
    a: Any
    b: Any
    known: str

    @property
    def effect(self) -> int:
        """Expected effect, 0..3; what only one of the two says counts one less."""
        return self.row.effect if self.known == "both" else max(0, self.row.effect - 1)


def differences(a: Evidence, b: Evidence) -> tuple[Difference, ...]:
    """Ranked by expected effect, then in the order of the table."""
    found: list[Difference] = []
    for row in SETTINGS:
        has_a, has_b = row.key in a.settings.values, row.key in b.settings.values
        one, two = a.settings.get(row.key), b.settings.get(row.key)
        if not (has_a or has_b) or (has_a and has_b and _same(one, two)):
            continue
        if has_a != has_b and not _applies(row, (b if has_a else a).settings.engine):
            continue
        found.append(Difference(row, one, two, "both" if has_a and has_b else "a" if has_a else "b"))
    return tuple(sorted(found, key=lambda item: -item.effect))


def _same(one: Any, two: Any) -> bool:
    return one == two or str(one).lower() == str(two).lower()


def _applies(row: SettingRow, engine: str | None) -> bool:
    """Whether the other engine has such a setting at all."""
    return bool(row.sglang if engine == "sglang" else row.vllm)


def compare(a: Evidence, b: Evidence, name_a: str, name_b: str) -> Report:
    """A is the one that is good, B the one in question; findings speak of B."""
    found = [
        _answers(b),
        _speed(a, b, name_a, name_b),
        _length(a, b),
        _step(a, b),
        _drafter(a, b),
        *_settings(a, b),
    ]
    facts = {
        "a": {"name": name_a, **_numbers(a)},
        "b": {"name": name_b, **_numbers(b)},
        "differences": [
            {
                "key": item.row.key,
                "meaning": item.row.meaning,
                "a": item.a,
                "b": item.b,
                "effect": item.effect,
                "known": item.known,
                "port": item.row.port,
                "source": item.row.source,
            }
            for item in differences(a, b)
        ],
        "drafter": {key: list(pair) for key, pair in drafter_differences(a, b).items()},
        "port_over": _port_over(a, b),
        "diagnosis_b": as_facts(diagnose(b)),
    }
    live = a.seen.live or b.seen.live
    return Report(
        "compare", tuple(item for item in found if item is not None), "live" if live else "replayed", facts
    )


def _numbers(e: Evidence) -> dict[str, Any]:
    return {
        "engine": e.settings.engine,
        "version": e.settings.version,
        "tok_s": round(e.speed.tok_s, 2) if e.speed else None,
        "length": round(e.acceptance.length, 3) if e.acceptance else None,
        "per_position": [round(share, 4) for share in e.acceptance.positions] if e.acceptance else [],
        "ms_per_step": round(e.speed.ms_per_step, 2) if e.speed and e.speed.ms_per_step else None,
    }


def _answers(b: Evidence) -> Finding | None:
    """Whether the one in question generates at all; said only when it does not."""
    found = generates(b, signs_of(b))
    return found if found.status is Status.FAIL else None


def drafter_differences(a: Evidence, b: Evidence) -> dict[str, tuple[Any, Any]]:
    """Fields of the drafters' configs that differ, nested ones as ``dflash_config.mask_token_id``."""
    one, two = _leaves(a.seen.drafter_config or {}), _leaves(b.seen.drafter_config or {})
    return {
        key: (one.get(key), two.get(key))
        for key in sorted(one.keys() | two.keys())
        if one.get(key) != two.get(key)
    }


def _leaves(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in list(config.items())[:1000]:
        if isinstance(value, dict) and not prefix:
            found.update(_leaves(value, f"{name}."))
        else:
            found[prefix + str(name)] = value
    return found


def _drafter(a: Evidence, b: Evidence) -> Finding | None:
    if a.seen.drafter_config is None or b.seen.drafter_config is None:
        return None
    changed = drafter_differences(a, b)
    told = [f"{key}: {_brief(one)} -> {_brief(two)}" for key, (one, two) in changed.items()]
    if a.log.layers and b.log.layers and a.log.layers != b.log.layers:
        told.append(f"layers captured: {list(a.log.layers)} -> {list(b.log.layers)}")
    if not told:
        return _make("serve.drafter_config", Status.PASS, "the drafters' configs are equal", None, "drafter")
    return _make(
        "serve.drafter_config", Status.WARN, f"the drafters differ: {'; '.join(told[:12])}", None, "drafter"
    )


def _brief(value: Any) -> str:
    return "absent" if value is None else str(value)[:80]


def _speed(a: Evidence, b: Evidence, name_a: str, name_b: str) -> Finding:
    if a.speed is None or b.speed is None:
        lacking = name_a if a.speed is None else name_b
        return _make(
            "serve.speed",
            Status.UNKNOWN,
            f"no decode speed in {lacking}: nothing to compare",
            "measure both with provcheck serve --record",
        )
    ratio = b.speed.tok_s / a.speed.tok_s
    status = status_of(ratio, b.limits)
    told = f"{b.speed.tok_s:.1f} tok/s against {a.speed.tok_s:.1f}: {ratio:.2f}x"
    return Finding(
        "serve.speed",
        status,
        "engine",
        told,
        value=round(ratio, 3),
        limit=b.limits.speed_fail,
        unit="x",
        owner="user",
    )


def _length(a: Evidence, b: Evidence) -> Finding | None:
    """Acceptance of B beside A's. Another method or draft length has another length: told, judged by B's own curve."""
    if a.acceptance is None or b.acceptance is None:
        return None
    headline = diagnose(b).headline
    told = f"acceptance length {b.acceptance.length:.2f} against {a.acceptance.length:.2f}"
    same = a.method == b.method and a.k == b.k
    ratio = b.acceptance.length / a.acceptance.length
    signs = diagnose(b).signs
    if signs.dead or signs.cliff or (signs.cut and not same):
        return _make(
            "serve.acceptance",
            Status.FAIL,
            f"{told}: {headline}",
            "provcheck serve --diagnose on the second",
            "drafter",
        )
    if same and ratio < b.limits.length_fail:
        return _make(
            "serve.acceptance",
            Status.FAIL,
            f"{told}, same method and draft length",
            "provcheck serve --diagnose on the second",
            "drafter",
        )
    return _make(
        "serve.acceptance",
        Status.PASS,
        told + ("" if same else f" ({a.method} k={a.k}, {b.method} k={b.k})"),
        None,
        "drafter",
    )


def _step(a: Evidence, b: Evidence) -> Finding | None:
    if not (a.speed and b.speed and a.speed.ms_per_step and b.speed.ms_per_step):
        return None
    told = f"{b.speed.ms_per_step:.1f} ms per step against {a.speed.ms_per_step:.1f}"
    comparable = a.settings.engine == b.settings.engine and a.method == b.method and a.k == b.k
    if not comparable:
        return _make(
            "serve.step", Status.SKIP, f"{told}; of another engine or method, so told and not judged", None
        )
    ratio = b.speed.ms_per_step / a.speed.ms_per_step
    status = (
        Status.FAIL
        if ratio > b.limits.step_fail
        else Status.WARN
        if ratio > b.limits.step_warn
        else Status.PASS
    )
    return _make(
        "serve.step",
        status,
        f"{told}: {ratio:.2f}x",
        "provcheck serve --diagnose on the second" if ratio > b.limits.step_warn else None,
    )


def _settings(a: Evidence, b: Evidence) -> list[Finding]:
    ranked = differences(a, b)
    heavy = [item for item in ranked if item.effect >= 2]
    light = [item for item in ranked if item.effect < 2]
    found: list[Finding] = []
    if heavy:
        told = "; ".join(f"{item.row.meaning}: {_show(item, 'a')} -> {_show(item, 'b')}" for item in heavy)
        found.append(
            _make(
                "serve.settings",
                Status.WARN,
                f"{len(heavy)} settings of weight differ: {told}",
                "; ".join(item.row.port for item in heavy[:4]),
            )
        )
    elif ranked or a.settings.values:
        told = f"no setting of weight differs ({len(light)} others do)"
        found.append(_make("serve.settings", Status.PASS, told, None))
    else:
        found.append(
            _make(
                "serve.settings",
                Status.UNKNOWN,
                "neither service says how it is set up",
                "give logs of their starts",
            )
        )
    return found


def _show(item: Difference, side: str) -> str:
    value = item.a if side == "a" else item.b
    if item.known not in ("both", side):
        return "not stated"
    return "on" if value is True else "off" if value is False or value is None else str(value)


def _port_over(a: Evidence, b: Evidence) -> list[str]:
    """What of A's set-up to carry to B: settings that A has on and B lacks, heaviest first, in B's spelling."""
    return [
        f"{item.row.meaning}: {_show(item, 'a')} (now {_show(item, 'b')}): {item.row.port}"
        for item in differences(a, b)
        if item.effect >= 1 and item.known != "b" and item.row.key != "model"
    ]


def _make(ident: str, status: Status, message: str, fix: str | None, subject: str = "engine") -> Finding:
    return Finding(ident, status, subject, message, fix=fix, owner="user")
