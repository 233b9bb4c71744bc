"""Rules about what the engine brings: libnccl, libcudart, GPUs to test, the variables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checks.data.cuda_errors import MEANINGS
from checks.data.node_variables import OF_NODE
from checks.gpus.rule import Outcome, failed, passed, skipped, unknown, warned
from checks.model import Finding
from checks.nccl.binding import OLDEST, SONAME, version_text
from checks.nccl.scene import Scene

NO_DEVICE, INSUFFICIENT = 100, 35
_QUIET = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "LD_LIBRARY_PATH")


def library(scene: Scene) -> Iterator[Finding]:
    """Which libnccl an engine would load, and whether it loads."""
    yield _library(scene).finding("nccl.library", "host")


def _library(scene: Scene) -> Outcome:
    told, how = scene.measured.look.get("nccl"), scene.measured.source.get("how", "")
    if not isinstance(told, Mapping):
        return unknown(
            f"loading libnccl gave no answer: {_why(scene)}",
            fix="load it by hand: python3 -c \"import ctypes; ctypes.CDLL('libnccl.so.2')\"",
        )
    if "missing" in told:
        driver = scene.measured.look.get("driver")
        named = told.get("asked") != SONAME
        no_gpu = isinstance(driver, Mapping) and ("missing" in driver or driver.get("code") == NO_DEVICE)
        # A machine without a GPU and without an engine is not known to be wrong.
        make = failed if named or not no_gpu else unknown
        return make(
            f"libnccl cannot be used: {told['missing']}",
            cause=f"looked for as {told.get('asked')} ({how})",
            fix="name the engine's environment: --env PATH, --unit NAME or --pid N; or the file itself: --library",
        )
    if "error" in told:
        return failed(
            f"libnccl does not answer: {told['error']}",
            cause=f"{told.get('path')} ({how})",
            fix="install nvidia-nccl anew in the engine's environment",
        )
    version = told.get("version")
    if not isinstance(version, int):
        return unknown("libnccl told no version")
    text = f"NCCL {version_text(version)}, {told.get('path')} ({how})"
    if version < OLDEST:
        return failed(
            f"{text} is too old",
            value=version_text(version),
            limit=version_text(OLDEST),
            cause="before 2.14 a communicator blocks, so no deadline can be held inside a process",
            fix="use the NCCL of a current engine",
        )
    others = {rank.first("version") for run in scene.measured.runs for rank in run.ranks} - {None, version}
    if others:
        return failed(
            f"{text}, but ranks loaded {', '.join(version_text(int(v)) for v in sorted(others))}",
            cause="another libnccl is loaded in the ranks' environment (LD_LIBRARY_PATH, LD_PRELOAD)",
            fix="one libnccl for all: --library names it",
        )
    return passed(text, value=version_text(version))


def runtime(scene: Scene) -> Iterator[Finding]:
    """Whether the engine's libcudart fits the driver, and sees GPUs."""
    yield _runtime(scene).finding("nccl.cuda_runtime", "host")


def _runtime(scene: Scene) -> Outcome:
    told = scene.measured.look.get("runtime")
    if not isinstance(told, Mapping):
        return unknown(
            f"libcudart gave no answer: {_why(scene)}", fix="look at 'provcheck gpus': driver.responds"
        )
    if "absent" in told:
        home = scene.measured.source.get("home")
        if home:
            return warned(
                f"no libcudart was found in {home} or by the loader",
                cause="an engine built for another platform, or one that links it statically",
            )
        return skipped("no libcudart here: NCCL brings its own, and no engine environment was named")
    if "missing" in told:
        return failed(
            f"{told.get('path')} is no complete libcudart: {told['missing']}",
            fix="install nvidia-cuda-runtime anew in the engine's environment",
        )
    version, driver, code = told.get("version"), told.get("driver"), told.get("code")
    text = f"CUDA runtime {_cuda(version)} ({told.get('path')}), driver speaks {_cuda(driver)}"
    too_new = isinstance(version, int) and isinstance(driver, int) and 0 < driver < version // 1000 * 1000
    if code == INSUFFICIENT or too_new:
        if not driver:
            return unknown(
                f"{text}: no driver was found (error {code})",
                value=code,
                cause="libcuda.so.1 is not there, or no NVIDIA driver is loaded",
                fix="look at 'provcheck gpus'",
            )
        return failed(
            f"{text}: the driver is too old for it",
            value=_cuda(driver),
            limit=_cuda(version),
            cause="the engine was built for a newer CUDA than the driver has (error 35)",
            fix=f"install a driver for CUDA {_cuda(version)}, or an engine built for {_cuda(driver)}",
        )
    if code == NO_DEVICE:
        return unknown(
            f"{text}: {told.get('error')} ({code})",
            value=code,
            cause=MEANINGS[NO_DEVICE].cause,
            fix=MEANINGS[NO_DEVICE].fix,
        )
    if code:
        meaning = MEANINGS.get(code)
        return failed(
            f"{text}: {told.get('error')} ({code})",
            value=code,
            cause=meaning.cause if meaning else None,
            fix=meaning.fix if meaning else "look at 'provcheck gpus' and the kernel log",
        )
    if not isinstance(told.get("count"), int):
        return unknown(f"{text}: it told no number of GPUs")
    return passed(f"{text}, {told['count']} GPUs", value=_cuda(version), limit=_cuda(driver))


def gpus(scene: Scene) -> Iterator[Finding]:
    """Whether there are GPUs to test, and free for it. Nothing is said when there are."""
    measured, driver = scene.measured, scene.measured.look.get("driver")
    if measured.hidden:
        yield unknown(
            f"not all GPUs were tested: {measured.hidden}",
            cause="the first process of a node tests all its GPUs, the others do nothing",
            fix="start one process per node that sees them all: no --gpus-per-task, --gpu-bind or "
            "CUDA_VISIBLE_DEVICES per process",
        ).finding("nccl.gpus", "host")
    if measured.busy:
        yield unknown(
            f"not measured{_in_use(measured.busy)}: {'; '.join(measured.busy)}",
            cause="a test beside a running engine would slow it, and measure the engine",
            fix="stop what uses the GPUs, or give --force: at most a quarter of the free memory is taken then, and "
            "nothing of a GPU with less than 2 GiB free",
        ).finding("nccl.gpus", "host")
    elif not isinstance(driver, Mapping):
        yield unknown(
            f"the CUDA driver gave no answer: {_why(scene)}", fix="look at 'provcheck gpus': driver.responds"
        ).finding("nccl.gpus", "host")
    elif "missing" in driver:
        yield unknown(
            f"no GPU can be tested: {driver['missing']}",
            fix="install the NVIDIA driver, or pass its library into this container",
        ).finding("nccl.gpus", "host")
    elif "code" in driver:
        meaning = MEANINGS.get(driver["code"])
        make = unknown if driver["code"] == NO_DEVICE else failed
        yield make(
            f"no GPU can be tested: {driver.get('call')} gave {driver.get('error')} ({driver['code']})",
            cause=meaning.cause if meaning else None,
            fix=meaning.fix if meaning else "look at 'provcheck gpus'",
        ).finding("nccl.gpus", "host")
    elif not measured.gpus:
        yield unknown(
            "no GPU to test: CUDA sees none", fix="look at 'provcheck gpus' and CUDA_VISIBLE_DEVICES"
        ).finding("nccl.gpus", "host")


def environment(scene: Scene) -> Iterator[Finding]:
    """Whether the variables reached every rank, as they read them back before the first collective. A rank of another
    node is held only to what all nodes are to have the same: that node's own report judges the rest."""
    run = scene.first
    if run is None:
        return
    told = {**scene.measured.environment, **run.extra}
    common = {name: value for name, value in told.items() if name not in OF_NODE}
    afar = {rank.rank: node for rank in run.ranks if (node := scene.elsewhere(rank)) is not None}
    seen = {rank.rank: rank.first("environment") for rank in run.ranks}
    blind = [str(number) for number, found in seen.items() if not isinstance(found, Mapping)]
    lost, other = (
        [
            f"rank {number}{f' (node {afar[number]})' if far else ''}: {name} is {found.get(name, 'not set')!r}, "
            f"not {value!r}"
            for number, found in seen.items()
            if isinstance(found, Mapping) and (number in afar) is far
            for name, value in (common if far else told).items()
            if found.get(name) != value
        ]
        for far in (False, True)
    )
    unread = scene.measured.source.get("unread") or []
    own = sorted(set(told) - set(common) - set(_QUIET)) if afar else []
    shown = " ".join(
        f"{name}={value}" for name, value in sorted((common if afar else told).items()) if name not in _QUIET
    )
    apart = f"; each node's own: {' '.join(own)}" if own else ""
    service = scene.measured.source.get("service")
    who = f"of {service} and ours" if service else "ours and the caller's"
    if lost or other:
        heads = (("variables did not reach the ranks: ", lost), ("the nodes' variables differ: ", other))
        fixes = (
            "look for a wrapper that clears the environment",
            "start the command of every node with the same variables",
        )
        outcome = failed(
            "; ".join(head + "; ".join(rows[:4]) for head, rows in heads if rows),
            value=len(lost) + len(other),
            limit=0,
            fix="; ".join(fix for fix, rows in zip(fixes, (lost, other)) if rows),  # noqa: B905 - both are pairs
        )
    elif unread:
        outcome = unknown(
            f"files with the service's variables could not be read: {'; '.join(map(str, unread))[:300]}",
            fix="run as root",
        )
    elif blind:
        outcome = unknown(f"rank {', '.join(blind)} did not come to reading its variables back")
    else:
        outcome = passed(f"{who}, read back by every rank: {_short(shown)}{apart}", value=len(told))
    yield outcome.finding("nccl.environment", "host")


def _in_use(reasons: Sequence[str]) -> str:
    return "" if all("NVML does not tell" in reason for reason in reasons) else ", a GPU is in use"


def _short(text: str) -> str:
    return text if len(text) <= 400 else f"{text[:400]}..."


def _why(scene: Scene) -> str:
    return str(scene.measured.look.get("why") or "no reason is known")[:300]


def _cuda(number: Any) -> str:
    """13000 -> 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}" if isinstance(number, int) and number > 0 else "none"
