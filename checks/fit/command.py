"""``provcheck fit MODEL_DIR --engine vllm==0.20.1 --gpus 2xA6000 --context 131072``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from checks.asking import all_of
from checks.fit import here
from checks.fit.ask import Model, Question
from checks.fit.cache import DTYPES, Settings
from checks.fit.engines import vllm_defaults
from checks.fit.files import Folder, read_folder
from checks.fit.gpus import GIB, Gpus
from checks.fit.judge import judge
from checks.fit.shape import Shape, read_shape
from checks.fit.weights import weights
from checks.flags.table import parse_engine
from checks.judged import AllAtOnce, judged
from checks.model import Report
from checks.ranges import FiniteRange
from checks.report.options import Presentation, also, finish, report_options

_EPILOG = """\b
Examples:
  provcheck fit models/target --engine vllm==0.20.1 --gpus 2xA6000 --context 131072
  provcheck fit models/target --drafter models/drafter -k 15 --engine vllm==0.33.0 --gpus 2x48G --context 65536
  provcheck fit models/target --mtp -k 3 --engine sglang==0.5.11 --gpus gpus.json --context 262144

\b
Only config.json, model.safetensors.index.json and safetensors headers are read: fetch the *.json files of a
repository and ask before the weights. What the engine keeps for itself is a range; each number has its
source under facts in --json.
"""


def _context(_: click.Context, __: click.Parameter, value: str) -> int:
    """Tokens; 0 for the model's own length."""
    if value == "model":
        return 0
    if not value.isdecimal() or not 1 <= int(value) <= 1 << 24:
        raise click.BadParameter(
            f"{value[:40]!r} is no number of tokens from 1 to {1 << 24}, and not 'model'"
        )
    return int(value)


def _given(
    how: Presentation,
    model_dir: Folder | None,
    drafter: Folder | None,
    engine: tuple[str, str] | None,
    gpus: Gpus | None,
    context: int | None,
    cache: float | None,
    speculative_tokens: int | None,
    mtp: bool,
    **_: Any,
) -> tuple[Shape | None, Shape | None]:
    """The shapes of the model and of its drafter, as far as they are given. Raises BadInput."""
    with all_of() as ask:
        ask.refuse(
            how.host is not None,
            "--host: folders are read here; run provcheck fit on the machine that holds them",
        )
        ask.refuse(mtp and drafter is not None, "--mtp and --drafter exclude each other: one of them drafts")
        ask.refuse(
            (mtp or drafter is not None) and speculative_tokens == 0,
            "a drafter needs -k: how many tokens it drafts per step",
        )
        ask.refuse(
            cache is not None and gpus is not None and not gpus.ram,
            "--cache goes with --gpus ram: on a GPU the cache is what the engine's share leaves",
        )
        if gpus is not None and engine is not None:
            ask.refuse(
                gpus.ram and engine[0] != "vllm",
                f"--gpus ram: {engine[0]} is started on GPUs only; say which",
            )
        read = ask(read_shape, model_dir.config) if model_dir else None
        drafts = ask(read_shape, drafter.config) if drafter else None
        if model_dir is not None and read is not None:
            ask.refuse(
                context == 0 and read.max_positions is None,
                f"--context model: the config in {model_dir.name} does not say how long; give the number of tokens",
            )
    return read, drafts


@click.command(cls=AllAtOnce, epilog=_EPILOG, also=also(_given))
@click.argument("model_dir", type=click.Path(path_type=Path), callback=judged(read_folder))
@click.option(
    "--drafter",
    type=click.Path(path_type=Path),
    callback=judged(read_folder),
    metavar="DIR",
    help="Folder of the draft model.",
)
@click.option(
    "--engine",
    required=True,
    callback=judged(parse_engine),
    metavar="ENGINE==VERSION",
    help="vllm==VERSION or sglang==VERSION.",
)
@click.option(
    "--gpus",
    required=True,
    callback=judged(here.gpus),
    metavar="GPUS",
    help="2xA6000, 2x48G, a file of gpus --record, here, or ram.",
)
@click.option(
    "--context",
    required=True,
    callback=_context,
    metavar="TOKENS",
    help="Longest request; 'model' for all that the model was made for, as engines take it unless told.",
)
@click.option(
    "--cache",
    type=FiniteRange(0.01, 1 << 20),
    metavar="GIB",
    help="Size of the cache where it is set (ram only).",
)
@click.option("--tp", type=click.IntRange(1, 1024), help="Tensor parallel size; all GPUs unless given.")
@click.option(
    "--kv-cache-dtype",
    type=click.Choice(sorted(DTYPES)),
    default="auto",
    show_default=True,
    help="Kind of the cache.",
)
@click.option(
    "-k",
    "--speculative-tokens",
    type=click.IntRange(0, 1024),
    default=0,
    help="num_speculative_tokens; for SGLang num-draft-tokens.",
)
@click.option("--mtp", is_flag=True, help="The target's own MTP heads draft.")
@click.option(
    "--memory-fraction",
    type=FiniteRange(0.01, 1.0),
    help="--gpu-memory-utilization or --mem-fraction-static; the engine's default unless given.",
)
@click.option(
    "--max-requests", type=click.IntRange(1, 1 << 16), help="--max-num-seqs or --max-running-requests."
)
@click.option(
    "--max-batched-tokens", type=click.IntRange(1, 1 << 24), help="--max-num-batched-tokens (vLLM)."
)
@click.option("--block-size", type=click.IntRange(1, 4096), help="Tokens per cache block or page.")
@click.option(
    "--state-ratio",
    type=FiniteRange(0.01, 10),
    help="--mamba-full-memory-ratio (SGLang, hybrid models).",
)
@click.option("--text-only", is_flag=True, help="A vision tower is not loaded.")
@click.option("--eager", is_flag=True, help="No CUDA graphs.")
@report_options
def fit(
    how: Presentation,
    model_dir: Folder,
    drafter: Folder | None,
    engine: tuple[str, str],
    gpus: Gpus,
    context: int,
    cache: float | None,
    tp: int | None,
    kv_cache_dtype: str,
    speculative_tokens: int,
    mtp: bool,
    memory_fraction: float | None,
    max_requests: int | None,
    max_batched_tokens: int | None,
    block_size: int | None,
    state_ratio: float | None,
    text_only: bool,
    eager: bool,
) -> int:
    """Will the model serve this context length on these GPUs? From files, before the weights are fetched."""
    name, version = engine
    read, drafts = _given(how, model_dir, drafter, engine, gpus, context, cache, speculative_tokens, mtp)
    assert read is not None
    tokens = context or read.max_positions
    assert tokens is not None
    ranks = tp or len(gpus.usable)
    settings = Settings(
        ranks,
        kv_cache_dtype,
        block_size or (64 if read.latent else 16),
        max_batched_tokens or vllm_defaults(gpus.least)[0],
        speculative_tokens,
        state_bytes=2 if name == "vllm" else 4,
    )
    model = Model(
        read,
        weights(model_dir, read, ranks, mtp=mtp, text_only=text_only),
        drafts,
        weights(drafter, drafts, ranks, mtp=True, text_only=True) if drafter and drafts else None,
    )
    question = Question(
        name,
        version,
        gpus,
        tokens,
        settings,
        fraction=memory_fraction,
        seqs=max_requests,
        state_share=state_ratio,
        mtp=mtp,
        text_only=text_only,
        eager=eager,
        cache=None if cache is None else int(cache * GIB),
    )
    findings, figures = judge(model, question)
    return finish(Report("fit", tuple(findings), facts=figures), how)
