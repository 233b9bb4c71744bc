"""Combinations judged: the rows of checks/data/flagrules.py, and the few that need arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checks.data.flagrules import COMBINATIONS, Combination
from checks.flags import bounds
from checks.flags.read import Reading
from checks.flags.table import Table
from checks.flags.values import BadValue, convert


@dataclass(frozen=True)
class Clash:
    """Something that holds on this command line. ``status`` is ``fail`` or ``warn``, ``check`` whose finding."""

    status: str
    message: str
    fix: str
    source: str
    check: str = "conflict"


@dataclass(frozen=True)
class View:
    """What rules ask of a command line. ``objects``: JSON options with all their keys merged."""

    table: Table
    reading: Reading
    objects: Mapping[str, Mapping[str, Any]]
    environment: Mapping[str, str]

    @property
    def spec(self) -> Mapping[str, Any]:
        """The merged ``--speculative-config``."""
        return self.objects.get("--speculative-config", {})

    def key(self, name: str) -> Any:
        """The value of ``spec.KEY`` or ``--json-option.KEY``; None when it is not there."""
        option, _, key = name.partition(".")
        return self.objects.get("--speculative-config" if option == "spec" else option, {}).get(key)

    def on(self, name: str) -> bool:
        """Given and not switched off; for a key of a JSON option, present and not null."""
        if "." in name:
            return self.key(name) is not None
        for one in reversed(self.reading.given):
            if name in one.option.names:
                return not switched_off(one.option.names, one.spelled)
        return False

    def text(self, name: str) -> str | None:
        """The last value given; None when it was not given or has none."""
        if "." in name:
            value = self.key(name)
            return None if value is None else str(value)
        values = self.reading.values_of(*self._spellings(name))
        return values[0] if values else None

    def number(self, *names: str) -> int | None:
        """The last value of the first of these options that was given and is a whole number."""
        for name in names:
            option = self.table.options.get(name)
            values = self.reading.values_of(*self._spellings(name))
            if option is None or not values:
                continue
            try:
                value = convert(option, values[0])
            except BadValue:
                return None
            return value if isinstance(value, int) else None
        return None

    def _spellings(self, name: str) -> tuple[str, ...]:
        option = self.table.options.get(name)
        return option.names if option else (name,)


def switched_off(names: tuple[str, ...], spelled: str) -> bool:
    """Whether a two-way switch was given in its negative spelling."""
    if spelled.startswith("--no-") and "--" + spelled[5:] in names:
        return True
    mirrored = {"--disable-": "--enable-", "--enable-": "--disable-"}
    first = next((name for name in names if name.startswith("--")), spelled)
    return any(
        spelled.startswith(old) and first == new + spelled[len(old) :] for old, new in mirrored.items()
    )


def clashes(view: View) -> list[Clash]:
    """Every combination that holds, rows first."""
    found = [
        Clash(row.status, row.message, row.fix, row.source)
        for row in COMBINATIONS
        if _applies(row, view.table) and all(_holds(condition, view) for condition in row.when)
    ]
    arithmetic = _vllm(view) if view.table.engine == "vllm" else _sglang(view)
    beyond = [
        Clash("fail", text, fix, source, check="value")
        for text, fix, source in bounds.outside(view.table, view.reading)
    ]
    return [*found, *beyond, *arithmetic, *_devices(view)]


def _applies(row: Combination, table: Table) -> bool:
    if row.engine != table.engine:
        return False
    if not row.since and not row.until:
        return True
    from packaging.version import Version

    version = Version(table.version)
    return not (row.since and version < Version(row.since)) and not (
        row.until and version > Version(row.until)
    )


def _holds(condition: str, view: View) -> bool:
    if condition.startswith("!"):
        return not view.on(condition[1:])
    name, separator, values = condition.partition("!=")
    if separator:
        given = view.text(name)
        return given is not None and given.upper() not in values.upper().split("|")
    name, separator, values = condition.partition("=")
    if separator:
        given = view.text(name)
        return given is not None and given.upper() in values.upper().split("|")
    return view.on(name)


def _vllm(view: View) -> Iterator[Clash]:
    spec, tp = view.spec, view.number("--tensor-parallel-size") or 1
    draft = spec.get("draft_tensor_parallel_size")
    if isinstance(draft, int) and draft not in (1, tp):
        yield Clash(
            "fail",
            f"draft_tensor_parallel_size is {draft}, and only 1 or the target's {tp} is taken",
            f"set it to {tp}, or leave it out",
            "_verify_and_get_draft_tp, config/speculative.py, 0.33.0",
        )
    method = spec.get("method") or view.text("--spec-method")
    if isinstance(method, str) and method.endswith("_mtp"):
        yield Clash(
            "warn",
            f"the method {method[:40]} is deprecated and replaced with mtp",
            "write mtp",
            "SpeculativeConfig.__post_init__, config/speculative.py, 0.20.1 and 0.33.0",
            check="deprecated",
        )
    low, high = spec.get("prompt_lookup_min"), spec.get("prompt_lookup_max")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        yield Clash(
            "fail",
            f"prompt_lookup_min {low} is above prompt_lookup_max {high}",
            "swap them",
            "SpeculativeConfig.__post_init__, config/speculative.py, 0.20.1 and 0.33.0",
        )
    batched, seqs = view.number("--max-num-batched-tokens"), view.number("--max-num-seqs")
    if batched and seqs and batched < seqs:
        yield Clash(
            "fail",
            f"--max-num-batched-tokens {batched} is below --max-num-seqs {seqs}",
            f"raise --max-num-batched-tokens to at least {seqs}",
            "SchedulerConfig.verify_max_model_len, config/scheduler.py, 0.33.0",
        )
    length = view.number("--max-model-len")
    if batched and length and batched < length and _given_off(view, "--enable-chunked-prefill"):
        yield Clash(
            "fail",
            f"--max-num-batched-tokens {batched} is below --max-model-len {length} without chunked prefill",
            f"raise --max-num-batched-tokens to {length}, or leave chunked prefill on",
            "SchedulerConfig.verify_max_model_len, config/scheduler.py, 0.33.0",
        )


def _given_off(view: View, name: str) -> bool:
    return view.reading.has(name) and not view.on(name)


EAGLE = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")


def _sglang(view: View) -> Iterator[Clash]:
    algorithm = (view.text("--speculative-algorithm") or "").upper()
    steps = view.number("--speculative-num-steps")
    topk = view.number("--speculative-eagle-topk")
    drafts = view.number("--speculative-num-draft-tokens")
    if algorithm in EAGLE:
        given = {"--speculative-num-steps": steps, "--speculative-eagle-topk": topk}
        given["--speculative-num-draft-tokens"] = drafts
        missing = [name for name, value in given.items() if value is None]
        if missing and len(missing) < 3 and not view.on("--speculative-adaptive"):
            yield Clash(
                "fail",
                f"{algorithm} has some of its three sizes and lacks {', '.join(missing)}",
                "give all three, or none to let the engine choose",
                "_handle_speculative_decoding 0.5.11 server_args.py:3518; _handle_eagle_family 0.5.23",
            )
        if topk == 1 and steps is not None and drafts is not None and drafts != steps + 1:
            yield Clash(
                "warn",
                f"--speculative-num-draft-tokens {drafts} becomes {steps + 1}: with topk 1 it is steps + 1",
                f"write --speculative-num-draft-tokens {steps + 1}, or --speculative-num-steps {drafts - 1}",
                "_handle_speculative_decoding 0.5.11 server_args.py:3539",
            )
    block = view.number("--speculative-dflash-block-size")
    if algorithm == "DFLASH" and None not in (block, drafts) and block != drafts:
        yield Clash(
            "fail",
            f"--speculative-num-draft-tokens {drafts} and --speculative-dflash-block-size {block} differ",
            "give one of the two: the drafter's block_size",
            "_handle_speculative_decoding 0.5.11 server_args.py:3364; _handle_dflash 0.5.23",
        )
    page, chunk = view.number("--page-size"), view.number("--chunked-prefill-size")
    if page and chunk and chunk > 0 and chunk % page:
        yield Clash(
            "fail",
            f"--chunked-prefill-size {chunk} is no multiple of --page-size {page}",
            f"use {chunk // page * page or page}",
            "check_server_args 0.5.11 and 0.5.23",
        )
    served = view.text("--served-model-name")
    if served and ":" in served and "://" not in served:
        yield Clash(
            "fail",
            f"--served-model-name {served} has a colon, which is kept for model:adapter",
            "choose a name without a colon",
            "check_server_args 0.5.11 and 0.5.23",
        )


def _devices(view: View) -> Iterator[Clash]:
    """More ranks than the GPUs that the same line makes visible."""
    visible = view.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None or view.number("--nnodes") not in (None, 1):
        return
    names = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size")
    ranks = 1
    for name in names:
        ranks *= view.number(name) or 1
    shown = [device for device in visible.split(",") if device.strip()]
    if ranks > len(shown):
        yield Clash(
            "fail",
            f"the line asks for {ranks} GPUs (tensor x pipeline x data parallel) "
            f"and CUDA_VISIBLE_DEVICES shows {len(shown)}",
            "show as many GPUs as ranks, or lower --tensor-parallel-size",
            "CUDA programming guide, CUDA_VISIBLE_DEVICES",
        )
