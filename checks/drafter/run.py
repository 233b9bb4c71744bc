"""One call of the drafter doctor from its request to its report: read, ask relatives, write where asked, judge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from checks.asking import all_of
from checks.drafter.case import Case
from checks.drafter.doctor import judge
from checks.drafter.engine import Engine
from checks.drafter.expected import Siblings, fit_siblings
from checks.drafter.observe import build, local_siblings, observe, original_config
from checks.errors import BadInput
from checks.model import Finding, Report, Status


@dataclass(frozen=True)
class Request:
    """What the caller asked for. ``siblings`` is a folder, ``hub``, or None; the rest is as the options say."""

    drafter: str
    target: str
    engine: str
    runner: str | None = None
    k: int | None = None
    context: int | None = None
    siblings: str | None = None
    write: bool = False
    force: bool = False


def answer(request: Request) -> Report:
    """Judges on this machine. Raises BadInput for what cannot be judged at all."""
    engine = asked(request)
    case = observe(Path(request.drafter), Path(request.target), engine, k=request.k, context=request.context)
    more: list[Finding] = []
    if request.siblings is not None:
        case, told = _with_siblings(case, request.siblings)
        more.append(told)
    if request.write:
        case, told = _write(case, force=request.force)
        more.append(told)
    findings, facts = judge(case)
    return Report("drafter", (*findings, *more), facts=facts)


def asked(request: Request) -> Engine:
    """The engine that is meant. Raises BadInput where there is none, or a folder is not there."""
    with all_of() as ask:
        engine = ask(_engine, request)
        for path, what in ((request.drafter, "drafter"), (request.target, "target")):
            ask.refuse(not Path(path).exists(), f"{path} is not there; give the folder of the {what}")
    assert engine is not None
    return engine


def _engine(request: Request) -> Engine:
    try:
        return Engine.parse(request.engine, request.runner)
    except ValueError as error:
        raise BadInput(f"--engine: {error}") from None


def _with_siblings(case: Case, where: str) -> tuple[Case, Finding]:
    """The case with what relatives say, and one finding about them."""
    unreachable: list[str] = []
    if where == "hub":
        from checks.data.drafter_families import SIBLING_REPOS
        from checks.drafter.hub import fetch

        configs, unreachable = fetch(SIBLING_REPOS)
    else:
        configs = local_siblings(Path(where))
    fit = replace(fit_siblings(configs, case.goal), unreachable=tuple(unreachable))
    built = build(
        case.drafter,
        case.target,
        case.engine,
        same=case.in_target,
        k=case.k,
        context=case.context,
        siblings=fit,
    )
    return built, siblings_finding(fit, where)


def siblings_finding(fit: Siblings, where: str) -> Finding:
    """What the relatives said: unknown when there was none to ask, a warning when they contradict each
    other."""
    gone = "; ".join(fit.unreachable[:4])
    if not fit.used:
        why = (
            f"no relative could be read ({gone})" if gone else f"{where} holds no config of a DFlash drafter"
        )
        fix = "check HF_ENDPOINT, HF_TOKEN and the network, or give a folder with their config.json files"
        return Finding(
            "drafter.siblings", Status.UNKNOWN, "drafter", why, cause=gone or None, fix=fix, owner="user"
        )
    rule = (
        f"ids run from layer {fit.start} to L-{fit.gap}"
        if fit.start is not None
        else "no common rule for ids"
    )
    values = ", ".join(
        f"{name} {value}"
        for name, value in (("mask", fit.mask), ("block", fit.block), ("theta", fit.theta))
        if value
    )
    message = f"{len(fit.used)} relatives: {rule}" + (
        f"; with the target's vocabulary: {values}" if values else ""
    )
    if fit.conflicts:
        return Finding(
            "drafter.siblings",
            Status.WARN,
            "drafter",
            message,
            cause="; ".join(fit.conflicts),
            fix="compare revisions",
            owner="user",
        )
    return Finding(
        "drafter.siblings",
        Status.PASS,
        "drafter",
        message + (f" (not read: {gone})" if gone else ""),
        value=list(fit.used),
        owner="user",
    )


def _write(case: Case, *, force: bool) -> tuple[Case, Finding]:
    """Composes and stores the config; returns the case as it is on disk afterwards."""
    from checks.drafter.compose import compose
    from checks.drafter.store import Exists, store

    folder = Path(case.drafter.path)
    made = compose(case, original_config(folder))
    if made.refusals:
        return case, Finding(
            "drafter.write",
            Status.FAIL,
            "drafter",
            "nothing was written: " + "; ".join(made.refusals),
            cause="a value that nobody confirms would be a guess, and a guess "
            "is what this command is against",
            fix="get the publisher's config.json, or give relatives with --siblings",
            owner="user",
        )
    try:
        kept = store(folder, made.content, made.origins, force=force)
    except Exists:
        return case, Finding(
            "drafter.write",
            Status.FAIL,
            "drafter",
            "nothing was written: there is a config.json already",
            cause="it may be somebody's work",
            fix="add --force to replace it; the original is kept as config.json.orig",
            owner="user",
        )
    from checks.drafter.config import parse

    written = replace(case.drafter, config=parse(made.content))
    after = build(written, case.target, case.engine, k=case.k, context=case.context)
    after = replace(after, expected=case.expected)
    listed = ", ".join(f"{name} ({origin})" for name, origin in made.origins.items())
    message = f"config.json written for {case.engine}: {listed}" + (
        f"; the former one is {kept.name}" if kept else ""
    )
    unsure = [name for name, origin in made.origins.items() if origin in {"formula, unconfirmed", "config"}]
    return after, Finding(
        "drafter.write",
        Status.WARN if unsure else Status.PASS,
        "drafter",
        message,
        value=dict(made.origins),
        cause="; ".join([*made.notes, *([f"unconfirmed: {', '.join(unsure)}"] if unsure else [])]) or None,
        fix="measure the acceptance length before relying on it" if unsure else None,
        owner="user",
    )
