"""``provcheck drafter``: judges a drafter's files against its target and one engine version, before any
GPU time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from checks.drafter.case import Case
from checks.drafter.doctor import judge
from checks.drafter.engine import Engine
from checks.drafter.expected import Siblings, fit_siblings
from checks.drafter.observe import build, local_siblings, observe, original_config
from checks.errors import BadInput
from checks.model import Finding, Report, Status
from checks.report.options import Presentation, finish, report_options

_EPILOG = """\b
Examples:
  provcheck drafter models/drafter --target models/target --engine vllm==0.20.1
  provcheck drafter models/drafter --target models/target --engine vllm==0.20.1 --write
  provcheck drafter models/drafter --target models/target --engine sglang==0.5.23 -k 16
  provcheck drafter models/drafter --target models/target --engine vllm==0.33.0 --siblings configs/
  provcheck drafter models/target --target models/target --engine sglang==0.5.11      multi-token prediction
  provcheck drafter --knowable

\b
Only headers and configs are read. The target needs no weights, only config.json and its tokenizer files.
--siblings hub asks HF_ENDPOINT (default https://huggingface.co) with HF_TOKEN from the environment.
"""


@click.command("drafter", epilog=_EPILOG)
@click.argument("drafter_dir", type=click.Path(path_type=Path), required=False)
@click.option("--target", "target_dir", type=click.Path(path_type=Path), help="Folder of the target model.")
@click.option(
    "--engine",
    "engine_text",
    metavar="NAME==VERSION",
    help="vllm, sglang, dflash (the reference) or llama.cpp.",
)
@click.option(
    "--runner", type=click.Choice(["v1", "v2"]), help="vLLM's model runner; by default that of the version."
)
@click.option(
    "-k",
    "--num-speculative-tokens",
    "k",
    type=click.IntRange(1, 1024),
    help="Tokens per draft that you will ask for.",
)
@click.option(
    "--context", type=click.IntRange(1), metavar="TOKENS", help="Longest context that you will serve."
)
@click.option(
    "--siblings",
    is_flag=False,
    flag_value="hub",
    metavar="[DIR|hub]",
    help="Fit the rule from configs of published relatives, in a folder or from the hub.",
)
@click.option(
    "--write", is_flag=True, help="Write the config.json for this engine, each value with its origin."
)
@click.option(
    "--force", is_flag=True, help="With --write: replace a config.json that is there; the original is kept."
)
@click.option(
    "--knowable", is_flag=True, help="List what is judged field by field, and what no file can tell."
)
@report_options
def command(
    how: Presentation,
    drafter_dir: Path | None,
    target_dir: Path | None,
    engine_text: str | None,
    runner: str | None,
    k: int | None,
    context: int | None,
    siblings: str | None,
    write: bool,
    force: bool,
    knowable: bool,
) -> int:
    """Is this draft model's config right for its target and this engine version? Reads headers and configs
    only.

    Layer ids (count, order, range, counting), mask token, RoPE, vocabulary, windows, block and k, tensors,
    silent defaults, revision. Every fault is told with its measured size.
    """
    if knowable:
        from checks.drafter.knowable import page

        click.echo(page(), nl=False)
        return 0
    if drafter_dir is None or target_dir is None or engine_text is None:
        raise BadInput(
            "give the drafter's folder, --target with the target's folder, and --engine like vllm==0.20.1"
        )
    if how.host is not None:
        raise BadInput("--host: folders are read here; run provcheck on the machine that holds them")
    if force and not write:
        raise BadInput("--force goes with --write: it lets a config.json be replaced")
    try:
        engine = Engine.parse(engine_text, runner)
    except ValueError as error:
        raise BadInput(str(error)) from None
    case = observe(drafter_dir, target_dir, engine, k=k, context=context)
    more: list[Finding] = []
    if siblings is not None:
        case, told = _with_siblings(case, siblings)
        more.append(told)
    if write:
        case, told = _write(case, force=force)
        more.append(told)
    findings, facts = judge(case)
    return finish(Report("drafter", (*findings, *more), facts=facts), how)


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
