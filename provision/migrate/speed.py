"""Step ``speed``: the target's decode speed against the source's.

The source's figure is what it did when it was well: the kept reading of the profile that serves, else what its
inventory states, else it is measured now. The target's is the measurement of this run.
"""

from __future__ import annotations

import base64
import binascii
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from checks.serving.limits import Limits
from checks.serving.trial import acceptance, tok_s
from provision.migrate import probe
from provision.migrate.alike import Specs, gpus
from provision.migrate.judged import State, Verdict
from provision.migrate.sides import Side
from provision.run.errors import ActFailed
from provision.run.reports import report_of
from provision.spec import Service
from provision.stack import baselines, trials

MEASURE_S = 420
"""The longest that a measurement may take: twice its window of 120 s, and what comes before and after."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Figure:
    """``tok_s`` decode tokens/s of one request of ``concurrency``; ``acceptance`` mean length, None without speculation
    or not known; ``whence``: where it comes from, in words."""

    tok_s: float
    whence: str
    acceptance: float | None = None
    taken: str = ""
    concurrency: int = 1

    def event(self, side: str, end: Specs, what: str) -> dict[str, Any]:
        """Facts of the journal's event ``reading``."""
        given = {
            "side": side,
            "host": end.machine.name,
            "service": end.service.name,
            "what": what,
            "tok_s": self.tok_s if self.concurrency == 1 else None,
            "by_concurrency": {str(self.concurrency): self.tok_s},
            "acceptance": self.acceptance,
            "taken": self.taken or None,
        }
        return {name: value for name, value in given.items() if value is not None}


def check(
    source: Side | None,
    origin: Specs,
    target: Side,
    run: str,
    say: Say,
    report: Mapping[str, Any] | None = None,
) -> Verdict:
    """The target's speed against the source's. ``origin``: the source as its inventory has it, ``source`` None where
    its machine is gone or no longer serves; ``report``: of ``provcheck serve`` about the target, where there is one."""
    try:
        before = of_source(source, origin, run, say)
        if before is None:
            said = (
                f"speeds are not compared: {origin.machine.name} is not there to be measured, and its inventory states "
                "no baseline"
            )
            return Verdict("skip", said, (), {"said": said})
        now = of_target(target, run, before.concurrency, say, report)
    except (ActFailed, OSError) as error:
        return Verdict("unknown", f"the speeds could not be compared: {error}")
    return judge(before, now, origin, target)


def judge(before: Figure, now: Figure, origin: Specs, target: Specs) -> Verdict:
    """Against the thresholds of the target's service. Another kind of GPU is told and excuses nothing: where it is
    meant to be slower, ``thresholds`` says so."""
    usual, own = Limits(), target.service.thresholds
    least = own.get("speed_fail", usual.speed_fail)
    odd = own.get("speed_warn", max(usual.speed_warn, least))
    ratio = now.tok_s / before.tok_s
    state: State = "fail" if ratio < least else "warn" if ratio < odd else "pass"
    of = "" if before.concurrency == 1 else f" of {before.concurrency} at once"
    said = (
        f"{now.tok_s:.1f} tok/s{of} on {target.machine.name}, {before.tok_s:.1f} on {origin.machine.name} "
        f"({before.whence}): {ratio:.2f}x, {least:g} is the least"
    )
    one, other = gpus(origin), gpus(target)
    lines = (
        [f"the GPUs are others: {', '.join(one) or 'none'}; here {', '.join(other) or 'none'}"]
        if one != other
        else []
    )
    if state == "fail":
        name = target.service.name
        lines += [
            f"name the cause, in the guest: provcheck serve {probe.address(target.service)} --diagnose",
            f"where {target.machine.name} is meant to be slower: thresholds={{'speed_fail': {ratio * 0.95:.2f}}} of "
            f"{name} in its inventory",
        ]
    facts = {
        "said": said,
        "ratio": round(ratio, 3),
        "limit": least,
        "readings": [before.event("source", origin, "baseline"), now.event("target", target, "measured")],
    }
    return Verdict(state, said, tuple(lines), facts)


def of_source(source: Side | None, origin: Specs, run: str, say: Say) -> Figure | None:
    """What the source did when it was well; None where nobody knows. Raises ActFailed, OSError."""
    if source is not None and (found := _readings(source)) is not None:
        return found
    stated = origin.service.baseline
    if stated is not None:
        whence = f"stated: {stated.source}"
        return Figure(stated.decode_tok_s, whence, concurrency=stated.concurrency)
    if source is None:
        return None
    say(f"{source.name}: no reading of {source.service.name} is kept; it is measured as it runs")
    return _measure(source, run, 1)


def of_target(target: Side, run: str, concurrency: int, say: Say, report: Mapping[str, Any] | None) -> Figure:
    """What the target does now: by the report of this run's gate, by its cut-over of this run, else measured. Raises
    ActFailed, OSError."""
    if report is not None and (found := _of_report(report, concurrency, "the gate of this run")) is not None:
        return found
    if concurrency == 1 and (own := _cut_over(target, run)) is not None:
        return own
    say(f"{target.name}: {target.service.name} is measured")
    return _measure(target, run, concurrency)


_LOOK = """
cat {good} 2>/dev/null | head -c 200 | tr -d '\\n'; echo
for f in {folder}/*.json; do
  [ -f "$f" ] || continue
  printf '%s ' "${{f##*/}}"; head -c 262144 "$f" | base64 | tr -d '\\n'; echo
done
"""


def _readings(source: Side) -> Figure | None:
    name = source.service.name
    done = source.inside(
        _LOOK.format(good=shlex.quote(good(name)), folder=shlex.quote(f"{baselines.FOLDER}/{name}")),
        timeout=60,
    )
    if not done.ok:
        raise ActFailed(f"{source.name}: the readings of {name} cannot be read: {done.error_text}")
    digest, *rows = done.text.split("\n")
    return chosen(digest.strip(), _files(rows))


def good(service: str) -> str:
    """Holds the digest of the profile that was last seen well."""
    return f"/var/lib/kpro/good/{service}"


def _files(rows: list[str]) -> dict[str, str]:
    found = {}
    for row in rows:
        name, _, data = row.partition(" ")
        try:
            found[name] = base64.b64decode(data, validate=True).decode("utf-8", "replace")
        except binascii.Error:
            continue
    return found


def chosen(digest: str, files: Mapping[str, str]) -> Figure | None:
    """The reading of the profile that serves: its own (``KEY.DIGEST.json``) before the one of its kind that was taken
    of it. Readings of other profiles say nothing about this one, and what the inventory states is no reading."""
    own = []
    for name, text in files.items():
        try:
            reading = baselines.read(name.removesuffix(".json"), text)
        except baselines.NoReading:
            continue
        if reading is not None and digest and reading.digest == digest and name != f"{baselines.STATED}.json":
            own.append(reading)
    own.sort(key=lambda one: (one.key.count("."), one.taken))
    if not own:
        return None
    best = own[-1]
    return Figure(best.tok_s, f"kept reading of {best.taken or 'an unknown day'}", best.length, best.taken)


def _cut_over(target: Side, run: str) -> Figure | None:
    """What the cut-over of this very run measured of the profile that serves."""
    name = target.service.name
    done = target.inside(
        f"cat {shlex.quote(good(name))} 2>/dev/null | head -c 200 | tr -d '\\n'; echo; "
        f"cat {shlex.quote(trials.service_path(name))} 2>/dev/null; :",
        timeout=60,
    )
    digest, _, text = done.text.partition("\n")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or told.get("run") != run or told.get("digest") != digest.strip():
        return None
    rate = told.get("tok_s")
    if not isinstance(rate, (int, float)) or isinstance(rate, bool) or rate <= 0:
        return None
    length = told.get("acceptance")
    return Figure(
        float(rate),
        "the cut-over of this run",
        length if isinstance(length, float) else None,
        str(told.get("when")),
    )


def _measure(side: Side, run: str, concurrency: int) -> Figure:
    """Raises ActFailed where it is not well, OSError."""
    probe.bring(side, run)
    service: Service = side.service
    words = ["--model", probe.served(service), "--unit", service.unit, "--json"]
    words += ["--concurrency", str(concurrency)] if concurrency > 1 else []
    report = report_of(side.inside(probe.asked(service, run, "serve", words), timeout=MEASURE_S))
    found = _of_report(report, concurrency, "measured now")
    if found is None or report.get("verdict") not in ("pass", "warn"):
        bad = [one for one in report.get("findings", ()) if one.get("status") in ("fail", "unknown")]
        reasons = "; ".join(f"{one.get('id')}: {one.get('message')}" for one in bad) or "it gave no speed"
        raise ActFailed(f"{side.name}: {service.name} could not be measured: {reasons}")
    return found


def _of_report(report: Mapping[str, Any], concurrency: int, whence: str) -> Figure | None:
    rate = tok_s(report)
    if concurrency > 1:
        facts = report.get("facts")
        window = facts.get("window") if isinstance(facts, dict) else None
        levels = window.get("tok_s") if isinstance(window, dict) else None
        given = levels.get(str(concurrency)) if isinstance(levels, dict) else None
        rate = float(given) if isinstance(given, (int, float)) and not isinstance(given, bool) else None
    if rate is None or rate <= 0:
        return None
    return Figure(rate, whence, acceptance(report), concurrency=concurrency)
