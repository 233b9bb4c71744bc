"""``provcheck drafter``: a drafter's files against its target and one engine version, before any GPU time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from checks.asking import all_of
from checks.drafter.run import Request, answer, asked
from checks.judged import AllAtOnce
from checks.report.options import Presentation, also, finish, report_options

_EPILOG = """\b
Examples:
  provcheck drafter models/drafter --target models/target --engine vllm==0.20.1
  provcheck drafter models/drafter --target models/target --engine vllm==0.20.1 --write
  provcheck drafter models/drafter --target models/target --engine sglang==0.5.23 -k 16
  provcheck drafter models/drafter --target models/target --engine vllm==0.33.0 --siblings configs/
  provcheck drafter models/target --target models/target --engine sglang==0.5.11      multi-token prediction
  provcheck drafter /srv/models/drafter --target /srv/models/target --engine vllm==0.20.1 --host kpro5
  provcheck drafter --knowable

\b
Only headers and configs are read. The target needs no weights, only config.json and its tokenizer files.
--siblings hub asks HF_ENDPOINT (default https://huggingface.co) with HF_TOKEN from the environment.
"""


def _request(how: Presentation, *, knowable: bool, **given: Any) -> Request | None:
    """What is asked; None where nothing is judged. Raises BadInput, with what is not there of the folders that are read
    here."""
    if knowable:
        return None
    with all_of() as ask:
        named = [given[name] for name in ("drafter_dir", "target_dir", "engine_text")]
        drafter, target, engine = map(str, named)
        ask.refuse(
            None in named,
            "give the drafter's folder, --target with the target's folder, and --engine like vllm==0.20.1",
        )
        ask.refuse(
            given["force"] and not given["write"],
            "--force goes with --write: it lets a config.json be replaced",
        )
        options = {name: given[name] for name in ("runner", "k", "context", "siblings", "write", "force")}
        request = Request(drafter, target, engine, **options)
        if None not in named and how.host is None:
            ask(asked, request)
    return request


@click.command("drafter", cls=AllAtOnce, epilog=_EPILOG, also=also(_request))
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
def command(how: Presentation, **given: Any) -> int:
    """Is this draft model's config right for its target and this engine version?

    Reads headers and configs only. Layer ids (count, order, range, counting), mask token, RoPE, vocabulary,
    windows, block and k, tensors, silent defaults, revision. Every fault is told with its measured size.
    """
    request = _request(how, **given)
    if request is None:
        from checks.drafter.knowable import page

        click.echo(page(), nl=False)
        return 0
    if how.host is not None:
        from checks.drafter.afar import answer_from

        return finish(answer_from(how.host, request), how)
    return finish(answer(request), how)
