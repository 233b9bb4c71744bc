"""What an engine says of itself in its log: version, settings, layers really used, graphs, errors, statistics.

Only lines are read, never a whole document; a log of any size is cut to its head and tail by the reader
(:mod:`checks.serving.record`), because settings stand at the start and failures at the end.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from checks.data.engine_errors import ERRORS

MAX_LINE = 16 * 1024


@dataclass(frozen=True)
class SpecLine:
    """One statistics line of a running engine. Counts are those of the interval, not since start."""

    length: float
    accepted: float | None = None
    drafted: float | None = None
    per_position: tuple[float, ...] = ()


@dataclass(frozen=True)
class ErrorLine:
    """``row`` is an id of :data:`checks.data.engine_errors.ERRORS`; ``numbers`` what its pattern captured."""

    row: str
    line: str
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True)
class EarlierStart:
    """What an earlier start in the same log captured, and where its compiled graphs lie."""

    layers: tuple[int, ...]
    cache_dirs: tuple[str, ...]


@dataclass
class LogFacts:
    """Everything read from a log; None or empty where the log does not say."""

    engine: str | None = None
    version: str | None = None
    config: dict[str, str] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)
    layers: tuple[int, ...] | None = None
    runner: str | None = None
    mask_token_id: int | None = None
    graphs: bool | None = None
    graphs_line: str | None = None
    warm_cache: bool | None = None
    cache_dirs: tuple[str, ...] = ()
    attention_backend: str | None = None
    kv_store: str | None = None
    nccl: str | None = None
    custom_allreduce_off: str | None = None
    flash_attention: int | None = None
    loaded_gib: float | None = None
    architectures: tuple[str, ...] = ()
    most_running: int | None = None
    earlier: tuple[EarlierStart, ...] = ()
    health_ok: bool = False
    request_failed: bool = False
    xids: tuple[str, ...] = ()
    errors: tuple[ErrorLine, ...] = ()
    statistics: tuple[SpecLine, ...] = ()
    throughputs: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()


_INIT = re.compile(r"Initializing a V1 LLM engine \(v(?P<version>[^)]+)\) with config: (?P<config>.*)")
_ARGS = re.compile(r"non-default args: (\{.*\})")
_SGL_ARGS = re.compile(r"server_args=(?:ServerArgs)?[({](?P<config>.*)")
_PAIR = re.compile(r"[\s,({'\"]?(\w+)['\"]?[=:] ?('[^']*'|\"[^\"]*\"|\[[^\]]*\]|[^,\s(){}]+)")
_LAYERS = re.compile(r"Using (auxiliary|Eagle3 auxiliary) layers from [\w ]+: [(\[]([\d, ]*)[)\]]")
_GRAPHS_ON = re.compile(
    # SGLang 0.5.11: "Capture draft extend cuda graph end", 0.5.23: "Capture target verify CUDA graph end"; graphs of
    # the prefill ("piecewise", "target prefill") say nothing of decoding.
    r"Graph capturing finished|Capture (?:(?!prefill|piecewise)\w{1,12} ){0,3}cuda graph end",
    re.I,
)
_GRAPHS_OFF = re.compile(r"Cudagraph is disabled under eager mode|Skipping CUDA graph capture", re.I)
_SPEC = re.compile(
    r"SpecDecoding metrics: Mean acceptance length: (?P<length>\d{1,6}(?:\.\d{1,6})?),.*?Accepted:"
    r" (?P<accepted>\d{1,12})"
    r" tokens, "
    r"Drafted: (?P<drafted>\d{1,12}) tokens(?:, Per-position acceptance rate: (?P<positions>[\d., ]+?))?(?:,"
    r" Avg|$)"
)
_DECODE = re.compile(r"Decode batch.*?#running-req: (?P<running>\d{1,9})")
_ACCEPT = re.compile(r"accept len: (?P<length>\d{1,6}(?:\.\d{1,6})?)")
_GEN = re.compile(r"gen throughput \(token/s\): (?P<rate>\d{1,9}(?:\.\d{1,6})?)")
_VLLM_RATE = re.compile(
    r"Avg generation throughput: (?P<rate>\d{1,9}(?:\.\d{1,6})?) tokens/s, Running: 1 reqs"
)
_RUNNING = re.compile(r"(?:Running: |#running-req: )(\d{1,6})")
_XID = re.compile(r"NVRM: Xid .*?: (\d+), pid=.*?name=([^,]+)")


def parse(lines: Iterable[str]) -> LogFacts:
    """Reads log lines in order. A new start (its line of arguments) forgets what an earlier start said, so that a
    journal over several starts is judged by the last; kernel lines (Xid) and what each start captured are kept."""
    facts = LogFacts()
    errors: list[ErrorLine] = []
    statistics: list[SpecLine] = []
    throughputs: list[float] = []
    notes: list[str] = []
    xids: list[str] = []
    for raw in lines:
        line = raw[:MAX_LINE].rstrip()
        if _ARGS.search(line) or _SGL_ARGS.search(line):
            facts = LogFacts(version=facts.version if not errors else None, earlier=_earlier(facts))
            del errors[:], statistics[:], throughputs[:], notes[:]
        _identity(facts, line)
        _machinery(facts, line, notes)
        _running(facts, line, statistics, throughputs)
        if match := _XID.search(line):
            xids.append(f"{match[1]} {match[2]}")
        for row in ERRORS:
            if match := row.pattern.search(line):
                errors.append(ErrorLine(row.id, line[-400:], tuple(part for part in match.groups() if part)))
    facts.errors, facts.statistics = tuple(errors[-200:]), tuple(statistics[-5000:])
    facts.throughputs, facts.xids = tuple(throughputs[-5000:]), tuple(xids[-50:])
    facts.notes = tuple(dict.fromkeys(notes))
    return facts


def _earlier(facts: LogFacts) -> tuple[EarlierStart, ...]:
    if facts.layers is None:
        return facts.earlier
    return (*facts.earlier, EarlierStart(facts.layers, facts.cache_dirs))[-50:]


def _identity(facts: LogFacts, line: str) -> None:
    if match := _INIT.search(line):
        facts.engine, facts.version = "vllm", match["version"]
        facts.config = pairs(match["config"])
    elif match := _ARGS.search(line):
        facts.engine = facts.engine or "vllm"
        facts.args = literal(match[1])
    elif match := _SGL_ARGS.search(line):
        facts.engine = "sglang"
        facts.config = pairs(match["config"])
    elif match := re.search(r"\bversion (\d+\.\d+\.\d+\S*)\s*$", line):
        facts.version = facts.version or match[1]
    if match := re.search(r"\b(vLLM|sglang) is using nccl==([\d.]+)", line, re.I):
        facts.nccl = match[2]
        facts.engine = facts.engine or match[1].lower()


def _machinery(facts: LogFacts, line: str, notes: list[str]) -> None:
    if match := _LAYERS.search(line):
        facts.layers = tuple(int(part) for part in re.findall(r"\d{1,6}", match[2])[:1024])
        facts.runner = "v2" if match[1].startswith("Eagle3") else "v1"
    if match := re.search(r"DFLASH draft runner ready.*mask_token_id=(\d{1,9})", line):
        facts.mask_token_id = int(match[1])
    if _GRAPHS_ON.search(line):
        facts.graphs, facts.graphs_line = True, line[-200:]
    elif _GRAPHS_OFF.search(line):
        facts.graphs, facts.graphs_line = False, line[-200:]
    if match := re.search(r"Using cache directory: (\S+)", line):
        facts.cache_dirs = tuple(dict.fromkeys((*facts.cache_dirs, match[1])))
    if "Directly load AOT compilation" in line or "Directly load the compiled graph" in line:
        facts.warm_cache = True
    elif "Compiling a graph for" in line:
        facts.warm_cache = facts.warm_cache or False
    if match := re.search(r"Using FlashAttention version (\d)\b", line):
        facts.flash_attention = int(match[1])
    if match := re.search(r"Model loading took (\d{1,5}(?:\.\d{1,6})?) GiB", line):
        facts.loaded_gib = max(facts.loaded_gib or 0.0, float(match[1]))
    if match := re.search(r"Resolved architecture: (\w{1,80})", line):
        facts.architectures = tuple(dict.fromkeys((*facts.architectures, match[1])))[:8]
    if match := re.search(r"Using (\S+) attention backend", line, re.I):
        facts.attention_backend = match[1]
    if match := re.search(r"Using (\S+) data type to store kv cache", line):
        facts.kv_store = match[1]
    if match := re.search(r"Custom allreduce is disabled because (.*)", line):
        facts.custom_allreduce_off = match[1][:300]
    for text in _NOTES:
        if text in line:
            notes.append(line[line.index(text) :][:300])


_NOTES = (
    "Spec v1 is used",
    "Non-overlap (synchronous) spec v2 is used",
    "DFLASH block size mismatch",
    "Model Runner V2 does not yet support",
    "Following weights were not initialized from checkpoint",
    "Draft config num_target_layers=",
    "Added DFLASH mask token to tokenizer",
    "Asynchronous scheduling is disabled",
    "will run multiple times of forward on same MTP layer",
)


def _running(facts: LogFacts, line: str, statistics: list[SpecLine], throughputs: list[float]) -> None:
    if '"GET /health HTTP' in line and " 200" in line:
        facts.health_ok = True
    if '"POST /v1/' in line and " 500" in line:
        facts.request_failed = True
    if match := _RUNNING.search(line):
        facts.most_running = max(facts.most_running or 0, int(match[1]))
    if match := _SPEC.search(line):
        positions = tuple(
            float(part) for part in re.findall(r"\d{1,3}\.\d{1,6}", match["positions"] or "")[:512]
        )
        statistics.append(
            SpecLine(float(match["length"]), float(match["accepted"]), float(match["drafted"]), positions)
        )
    elif match := _VLLM_RATE.search(line):
        throughputs.append(float(match["rate"]))
    elif match := _DECODE.search(line):
        facts.engine = facts.engine or "sglang"
        if (accept := _ACCEPT.search(line)) and int(match["running"]):
            statistics.append(SpecLine(float(accept["length"])))
        if (gen := _GEN.search(line)) and match["running"] == "1":
            throughputs.append(float(gen["rate"]))
        if graph := re.search(r"cuda graph: (True|False)", line):
            facts.graphs, facts.graphs_line = graph[1] == "True", line[-200:]


def pairs(text: str) -> dict[str, str]:
    """``key=value`` and ``'key': value`` pairs of an engine's own printed config; the first of a name wins."""
    found: dict[str, str] = {}
    for match in _PAIR.finditer(text[:MAX_LINE]):
        found.setdefault(match[1], match[2].strip("'\""))
    return found


def literal(text: str) -> dict[str, Any]:
    """A printed Python dict, or the pairs in it when it was cut off; never evaluated."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return dict(pairs(text))
    return value if isinstance(value, dict) else {}
