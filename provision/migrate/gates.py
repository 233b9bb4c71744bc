"""Gates that need files alone, asked before anything is copied: the source's files, the target's engine and GPUs. Pure.

What needs the target's own GPUs or its installed engine is asked there, before the unit is started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checks.data.gpu_memory import usable_gib
from provision.adopt.process import quoted
from provision.migrate.ends import Asked, Pair
from provision.stack import engine_words
from provision.stack.desired import PYTHON, PYZ

SECONDS = 120


def questions(pair: Pair) -> list[tuple[str, tuple[str, ...]]]:
    """Each gate with its words of provcheck. Empty where kpro's provcheck is not in the source's guest, or the engine
    is none that it knows."""
    source, target = pair.ends
    engine = target.service.engine
    words = pair.commands.get("target", ())
    folder = source.folder("model")
    if not source.guest.managed or folder is None or not words or not engine_words.known(engine.kind):
        return []
    try:
        said = engine_words.said(engine.kind, engine.version, words)
    except ValueError:
        return []
    found: list[tuple[str, tuple[str, ...]]] = []
    drafter = source.folder("drafter") if target.service.drafter == source.service.drafter else None
    if target.service.drafter is None or drafter is not None:
        gpus = _gpus(pair)
        if gpus is not None:
            more = ["--drafter", drafter] if drafter is not None else ["--mtp"] if said.mtp else []
            more += ["-k", str(said.drafts)] if said.drafts else []
            fit = ("fit", folder, "--engine", said.option, "--context", said.context, *said.words, *more)
            found.append(("fit", (*fit, "--gpus", gpus)))
    if drafter is not None:
        more = ["-k", str(said.drafts)] if said.drafts else []
        more += ["--context", said.context] if said.context.isdecimal() and said.context != "1" else []
        found.append(("drafter", ("drafter", drafter, "--target", folder, "--engine", said.option, *more)))
    return found


def _gpus(pair: Pair) -> str | None:
    """``2xRTX A6000``; None where the guest has none, of two kinds, or of one whose memory is not in the table."""
    target = pair.target
    models = {gpu.bdf: gpu.model for gpu in target.machine.gpus}
    kinds = {models.get(bdf, "") for bdf in target.guest.gpus}
    if len(kinds) != 1 or usable_gib(kind := kinds.pop()) is None:
        return None
    return f"{len(target.guest.gpus)}x{kind}"


def script(words: Sequence[str]) -> str:
    """For the guest's shell."""
    return " ".join(quoted(word) for word in (PYTHON, PYZ, *words, "--json"))


def read(gate: str, code: int, report: Mapping[str, object] | None, said: str) -> Asked:
    """``provcheck``'s verdict; whatever is no report of it is unknown."""
    verdict = report.get("verdict") if report is not None else None
    if report is None or verdict not in ("pass", "warn", "fail", "unknown"):
        return Asked(gate, "unknown", (said[-300:] or f"provcheck ended with {code} and no report",))
    findings = report.get("findings")
    lines = [
        f"{one.get('id')}: {one.get('message')}"
        for one in (findings if isinstance(findings, list) else ())
        if isinstance(one, Mapping) and one.get("status") in ("fail", "unknown", "warn")
    ]
    return Asked(gate, verdict, tuple(lines))
