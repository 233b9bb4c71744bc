"""``_probe load work UUID OPTIONS``: the child of one GPU. One JSON object per line.

    {"begin": "link"}  a step starts           {"step": "link", "values": {...}}  it is done
    {"doing": "..."}   a part of it, for when it hangs
    {"wait": "link"}   waits for a line on standard input before that step
    {"failed": {...}}  a step ended in an error    {"end": true}  nothing was cut off

``_probe load record OPTIONS ASKED`` prints the record of this machine, for a provcheck that runs elsewhere.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from checks.errors import BadInput
from checks.load.options import Options

STEPS = ("start", "link", "memory", "heat", "stop")
TOLD = ("link", "memory")
"""Steps that wait to be told: copies run one GPU after another, the rest together."""


def main(args: Sequence[str]) -> int:
    """Runs the child and returns its exit code."""
    end_with_parent()
    if args[:1] == ["work"] and len(args) == 3:
        return _work(args[1], Options.parse(args[2]))
    if args[:1] == ["record"] and len(args) == 3:
        from checks.load.run import observe

        asked = json.loads(args[2])
        options = Options.parse(args[1])
        sys.stdout.write(observe(options, asked["chosen"], force=asked["force"]).dump().decode())
        return 0
    raise BadInput("_probe load takes 'work UUID OPTIONS' or 'record OPTIONS ASKED'")


def _work(uuid: str, options: Options) -> int:
    from checks.cuda.errors import CudaError, CudaMissing, CudaTimeout
    from checks.load.work import Work

    said = [""]

    def doing(what: str) -> None:
        if said[0] != what:
            said[0] = what
            say({"doing": what})

    work = Work(options, uuid, doing)
    for step in STEPS:
        if step in TOLD:
            say({"wait": step})
            if not sys.stdin.readline():
                return 1
        say({"begin": step})
        try:
            values = getattr(work, step)()
        except (CudaError, CudaMissing, CudaTimeout, OSError, MemoryError) as error:
            say({"failed": {"step": step, "doing": said[0], **_why(error)}})
            # A context with a fault or with work that does not end must not be torn down: that may hang too.
            os._exit(1)
        say({"step": step, "values": values})
    say({"end": True})
    return 0


def _why(error: Exception) -> dict[str, Any]:
    from checks.cuda.errors import CudaError, CudaMissing, CudaTimeout

    if isinstance(error, CudaError):
        return {
            "kind": "cuda",
            "code": error.code,
            "name": error.name,
            "text": error.text,
            "call": error.call,
        }
    kind = {CudaMissing: "missing", CudaTimeout: "timeout"}.get(type(error), "error")
    return {"kind": kind, "text": str(error)[:500]}


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, default=repr) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """Has the kernel kill this process when its parent dies, however it dies: no GPU stays loaded."""
    pr_set_pdeathsig = 1
    parent = os.getppid()
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it died in between
