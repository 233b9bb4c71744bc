"""The child that reads NVML (``_probe nvml [PLAN]``). It prints one JSON object per line, as soon as it has it:

    {"head": {...}}  library and system getters      {"library": "/usr/lib/.../libnvidia-ml.so.570.148.08"}
    {"begin": [gpu, section]}                        {"done": [gpu, section], "data": {...}}
    {"end": true}  nothing was cut off

so that a GPU that hangs the driver takes nothing with it but the section it hung in. One thread reads one GPU:
eight cost what the slowest costs. PLAN (JSON) says what is still to be read after an earlier child was lost:

    {"count": 8, "gpus": {"1": ["ecc", ...]}, "alone": [[1, "ecc"]], "without": [3]}

``alone`` is read first, one by one: one of them killed the last child. ``without`` has no handle to be asked.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from checks.errors import BadInput
from checks.gpus import nvml_read as read
from checks.gpus.getters import HANDLE, P2P, SECTIONS, SYSTEM, keys
from checks.quiet import keep_quiet, make_nothing

_PR_SET_PDEATHSIG = 1
_SAYING = threading.Lock()
_out = 1


def main(args: list[str]) -> int:
    """Prints the lines; always 0, a failing NVML is an answer too. Raises BadInput for a plan that is none."""
    plan = _plan(args)
    _end_with_parent()
    keep_quiet()
    if read.__file__.startswith("/proc/"):
        # On a machine that is reached by ssh the single file lies in another process's memory file, which Landlock
        # closes: what is imported from it comes first.
        _binding()
    make_nothing()
    _keep_stdout_clean()
    threading.Thread(target=_start_library, daemon=True).start()
    nvml = _binding()
    if isinstance(nvml, dict):
        _say({"head": {"binding": None, "nvmlInit": nvml}})
    else:
        _read(nvml, plan)
    _say({"end": True})
    os.dup2(_out, 1)
    return 0


def _plan(args: list[str]) -> dict[str, Any] | None:
    try:
        plan = json.loads(args[0]) if args else None
    except ValueError:
        plan = args
    if plan is not None and not isinstance(plan, dict):
        raise BadInput("_probe nvml takes a JSON object that says what to read, or nothing")
    return plan


def _end_with_parent() -> None:
    """The kernel kills this child when its parent is gone, however the parent ended."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _keep_stdout_clean() -> None:
    """What a library prints goes to stderr; the lines of this child have the old stdout for themselves."""
    global _out
    _out = os.dup(1)
    os.dup2(2, 1)


def _start_library() -> None:
    """NVML starts while the binding is still being imported; the binding's own start then finds it started."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libnvidia-ml.so.1").nvmlInitWithFlags(0)


def _binding() -> Any:
    try:
        import pynvml
    except ImportError as error:
        return {"err": "ImportError", "cls": "ImportError", "msg": f"nvidia-ml-py is not importable: {error}"}
    if not hasattr(pynvml, "_nvmlGetFunctionPointer"):
        message = f"{pynvml.__file__} is another package of that name, not NVIDIA's nvidia-ml-py"
        return {"err": "ForeignBinding", "cls": "ForeignBinding", "msg": message}
    return pynvml


def _read(nvml: Any, plan: dict[str, Any] | None) -> None:
    started = read.call(nvml, "nvmlInit")
    head: dict[str, Any] = {"binding": getattr(nvml, "__version__", None), "nvmlInit": started}
    if started is None and plan is None:
        head.update({getter.key: read.call(nvml, getter.call) for getter in SYSTEM})
    _say({"head": head})
    _say({"library": _library()})
    if started is not None:
        return
    if plan is None:
        count = head["nvmlDeviceGetCount"]
        count = count if isinstance(count, int) else 0
        plan = {"count": count, "gpus": {str(n): [HANDLE, *SECTIONS, P2P] for n in range(count)}}
    Reader(nvml, plan).run()


class Reader:
    """Reads what the plan names: ``alone`` one by one, then every GPU in a thread, then the pairs of GPUs."""

    def __init__(self, nvml: Any, plan: dict[str, Any]) -> None:
        self.nvml, self.plan = nvml, plan
        self.handles: dict[int, Any] = {}
        self.states: dict[int, dict[str, Any]] = {}
        self.refused: set[int] = set()

    def run(self) -> None:
        alone = [(int(gpu), str(name)) for gpu, name in self.plan.get("alone", ())]
        for gpu, name in alone:
            self._one(gpu, name)
        wanted = {int(gpu): names for gpu, names in self.plan["gpus"].items()}
        rest = {gpu: [n for n in names if (gpu, n) not in alone] for gpu, names in wanted.items()}
        self._threads({gpu: [n for n in names if n != P2P] for gpu, names in rest.items()})
        self._threads({gpu: [P2P] for gpu, names in rest.items() if P2P in names})

    def _threads(self, plan: dict[int, list[str]]) -> None:
        threads = [
            threading.Thread(target=self._gpu, args=(gpu, names), daemon=True)
            for gpu, names in sorted(plan.items())
            if names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _gpu(self, gpu: int, names: list[str]) -> None:
        for name in names:
            self._one(gpu, name)

    def _one(self, gpu: int, name: str) -> None:
        if gpu in self.refused:
            return  # no access to it: the handle's error is its whole evidence
        _say({"begin": [gpu, name]})
        _say({"done": [gpu, name], "data": self._data(gpu, name)})

    def _data(self, gpu: int, name: str) -> dict[str, Any]:
        handle = self._handle(gpu)
        if name == HANDLE:
            if not isinstance(handle, dict):
                return {}
            self.refused.add(gpu)
            return {HANDLE: handle}
        if name == P2P:
            without = self.plan.get("without", ())
            others = [n for n in range(self.plan["count"]) if n not in without]
            return {P2P: read.pairs(self.nvml, gpu, {n: self._handle(n) for n in {*others, gpu}})}
        if isinstance(handle, dict):  # the GPU was there for an earlier child
            return dict.fromkeys(keys(name), handle)
        return read.section(self.nvml, handle, name, self.states.setdefault(gpu, {}))

    def _handle(self, gpu: int) -> Any:
        if gpu not in self.handles:
            self.handles[gpu] = read.handle_of(self.nvml, gpu)
        return self.handles[gpu]


def _library() -> str | None:
    """The file loaded as libnvidia-ml.so.1: its name carries the version of the user-space driver."""
    try:
        with Path("/proc/self/maps").open(encoding="utf-8", errors="replace") as maps:
            names = (line.split(maxsplit=5)[-1].strip() for line in maps if "libnvidia-ml.so" in line)
            return next(names, None)
    except OSError:
        return None


def _say(line: dict[str, Any]) -> None:
    data = json.dumps(line, default=repr).encode() + b"\n"
    with _SAYING:
        while data:
            data = data[os.write(_out, data) :]
