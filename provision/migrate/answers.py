"""Step ``answers``: the source's answers are kept, and the target is held against them, each asked in its own guest.

``check`` does both. What the source answered lies in the controller's folder of the run (``answers-SERVICE.json``, with
what it was taken of), so that a later run without a source can still compare.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.files import write_whole
from checks.serving.limits import Limits
from provision.migrate import probe
from provision.migrate.alike import Specs, told, unlike
from provision.migrate.judged import State, Verdict
from provision.migrate.sides import Side
from provision.run.errors import ActFailed
from provision.run.reports import report_of
from provision.spec import Service

SCHEMA = "kpro-answers/1"
SECONDS = 300
"""For all questions to one of the two; usual is a minute."""

MOST = 16 << 20
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "tekken.json", "tiktoken.model")
Say = Callable[[str], None]


def check(source: Side | None, origin: Specs, target: Side, run: str, folder: Path, say: Say) -> Verdict:
    """The target held against the source's answers. ``origin``: the source as its inventory has it, ``source`` None
    where there is no machine any more; ``folder``: the run's own on the controller. Nothing is started, stopped or
    changed but files below /run/kpro-migrate/RUN in both guests."""
    try:
        kept = _kept(source, origin, run, folder, say)
        if kept is None:
            return _nothing(origin)
        say(f"{target.name}: {target.service.name} is held against what {origin.machine.name} answered")
        # What was written when they were taken counts: the inventory may say something else by now.
        apart = unlike(kept["of"], target)
        report = hold(target, run, kept["answers"], exact=not apart)
    except (ActFailed, OSError) as error:
        return _unknown(f"the answers could not be compared: {error}")
    return judge(report, apart, target.service)


def judge(report: dict[str, Any], apart: tuple[str, ...], service: Service) -> Verdict:
    """What a report of ``provcheck _answers compare`` means. ``apart``: why equal answers were not demanded."""
    findings = [one for one in report.get("findings", ()) if isinstance(one, dict)]
    seen, code = report.get("verdict"), report.get("code")
    state: State = "unknown"
    if (seen == "fail" and code == 1) or (seen in ("pass", "warn") and code == 0):
        state = seen
    bad = [one for one in findings if one.get("status") in ("fail", "unknown", "warn")]
    bad.sort(key=lambda one: one.get("status") != "fail")
    seen_facts = report.get("facts")
    numbers = seen_facts if isinstance(seen_facts, dict) else {}
    limits = Limits()
    facts = {
        "verdict": state,
        "compared": numbers.get("compared", 0),
        "first_token_share": numbers.get("first_token_share"),
        "least_share": service.thresholds.get("answers_first_token", limits.answers_first_token),
        "logprob_diff": numbers.get("logprob_diff"),
        "tolerance": service.thresholds.get("answers_logprob", limits.answers_logprob),
        "exact": bool(numbers.get("exact")),
        "findings": [one for one in findings if one.get("status") != "pass"][:40],
    }
    said = _said(state, facts, bad, apart)
    lines = tuple(
        f"{one.get('status')}  {one.get('id')}: {one.get('message')}"
        + (f" ({one['fix']})" if one.get("fix") else "")
        for one in bad
    )
    return Verdict(state, said, lines if state != "pass" else (), {**facts, "said": said})


def _said(state: State, facts: dict[str, Any], bad: list[dict[str, Any]], apart: tuple[str, ...]) -> str:
    if state == "unknown":
        why = bad[0].get("message") if bad else "there is no report"
        return f"whether the target answers as the source is not known: {why}"
    if state == "fail":
        ids = ", ".join(str(one.get("id")) for one in bad if one.get("status") == "fail")
        return (
            f"the target does not answer as the source did ({ids}); nothing was switched, the source serves"
        )
    said = f"{facts['compared']} answers of the source hold on the target"
    if facts["logprob_diff"] is not None:
        said += f", {facts['logprob_diff']:.4f} nat apart"
    return said + (
        f"; equal texts are not demanded ({'; '.join(apart)})" if apart else ", equal to the last token"
    )


def _nothing(origin: Specs) -> Verdict:
    said = (
        f"answers are not compared: {origin.machine.name} is not there to be asked, and no earlier run kept what "
        f"{origin.service.name} answered there"
    )
    return Verdict("skip", said, (), {"verdict": "skip", "compared": 0, "said": said})


def _unknown(said: str) -> Verdict:
    return Verdict("unknown", said, (), {"verdict": "unknown", "compared": 0, "said": said})


def _kept(source: Side | None, origin: Specs, run: str, folder: Path, say: Say) -> dict[str, Any] | None:
    """The source's answers: of this run, else asked now, else of an earlier run where the source is gone."""
    path = folder / f"answers-{origin.service.name}.json"
    if (mine := _read(path, origin)) is not None:
        return mine
    if source is None:
        return saved(folder.parent, origin)
    say(f"{source.name}: {source.service.name} is asked what the target is held against")
    found = {
        "schema": SCHEMA,
        "run": run,
        "machine": source.machine.name,
        "service": source.service.name,
        "of": told(source),
        "answers": keep(source, run),
    }
    write_whole(path, (json.dumps(found) + "\n").encode(), mode=0o600)
    return found


def saved(runs: Path, origin: Specs) -> dict[str, Any] | None:
    """The newest answers of this service on this machine that a run kept; run ids sort by time."""
    for path in sorted(runs.glob(f"*/answers-{origin.service.name}.json"), reverse=True):
        if (found := _read(path, origin)) is not None:
            return found
    return None


def _read(path: Path, origin: Specs) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(MOST))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return None
    if (found.get("machine"), found.get("service")) != (origin.machine.name, origin.service.name):
        return None
    whole = isinstance(found.get("answers"), dict) and isinstance(found.get("of"), dict)
    return found if whole else None


def keep(source: Side, run: str) -> dict[str, Any]:
    """What the source answers now. Raises ActFailed with every reason, OSError when its guest cannot be reached."""
    file = f"{probe.folder(run)}/answers-source.json"
    probe.bring(source, run)
    words = [*_asked(source, run), "--output", file]
    done = source.inside(probe.asked(source.service, run, "_answers ask", words), timeout=SECONDS + 60)
    report = report_of(done)
    if report.get("verdict") not in ("pass", "warn") or done.rc != 0:
        reasons = "; ".join(str(one.get("message")) for one in report.get("findings", ()))
        raise ActFailed(
            f"{source.name}: {source.service.name} does not answer the questions that the target would be held against:"
            f" {reasons}"
        )
    read = source.inside(f"cat -- {shlex.quote(file)}", timeout=60)
    try:
        found = json.loads(read.stdout)
    except (ValueError, RecursionError):
        found = None
    if not read.ok or not isinstance(found, dict):
        raise ActFailed(f"{source.name}: what was answered cannot be read from {file}: {read.error_text}")
    return found


def hold(target: Side, run: str, answers: dict[str, Any], *, exact: bool) -> dict[str, Any]:
    """The report of the target held against kept answers. Raises ActFailed, OSError."""
    file = f"{probe.folder(run)}/answers-of-source.json"
    probe.bring(target, run)
    put = target.inside(
        f"umask 077; cat >{shlex.quote(file)}", stdin=json.dumps(answers).encode(), timeout=60
    )
    if not put.ok:
        raise ActFailed(f"{target.name}: the source's answers cannot be put to {file}: {put.error_text}")
    words = [*_asked(target, run), *(["--exact"] if exact else [])]
    for name, value in sorted(target.service.thresholds.items()):
        if name.startswith("answers_"):
            words += ["--limit", f"{name}={value:g}"]
    script = probe.asked(target.service, run, f"_answers compare {file}", words)
    return report_of(target.inside(script, timeout=SECONDS + 60))


def _asked(side: Side, run: str) -> list[str]:
    words = ["--model", probe.served(side.service), "--json", "--seconds", str(SECONDS)]
    found = side.service.found
    folder = found.model if found is not None else side.service.model.directory
    if folder is None:
        return words
    there = " || ".join(f"[ -e {shlex.quote(f'{folder}/{name}')} ]" for name in _TOKENIZERS)
    return [*words, "--tokenizer", folder] if side.inside(there, timeout=60).ok else words
