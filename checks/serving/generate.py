"""Does a server really generate? A streamed completion with at least one token of text is the only proof.

``/health`` answers 200 in vLLM and SGLang while the first request would fail, so it is not asked at all. The
API key goes from its file into a header, and into no argument list, message or log.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from checks.errors import BadInput
from checks.serving.address import Server
from checks.serving.stream import Kind, Try, attempt

_PAUSE = 1.0


@dataclass(frozen=True)
class Result:
    """The answer of ``_generate``; ``seconds`` is the whole waiting time."""

    ok: bool
    tokens: int
    text: str
    seconds: float
    why: str

    def line(self) -> str:
        return json.dumps(asdict(self))


def wait(
    target: Server,
    deadline: float,
    *,
    once: bool = False,
    alive: Callable[[], bool] | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> tuple[Result, int]:
    """Tries until text comes, a final answer comes, or ``deadline`` seconds are over: result and exit code.

    ``alive`` says whether the server's process still runs; when it does not, waiting ends. Exit codes: 0
    generated, 1 the server is there and does not generate, 3 it could not be reached.
    """
    start = time.monotonic()
    met = False
    said = ""
    while True:
        if alive is not None and not alive():
            last = Try(
                Kind.DEAD, f"the server's process is gone; whatever answers on {target.shown} is not it"
            )
            break
        last = attempt(target, max(0.1, deadline - (time.monotonic() - start)))
        if last.kind is Kind.NOTHING_LISTENS and met:
            last = Try(Kind.DEAD, f"{last.why}; it listened before: the server died")
        met = met or last.kind is not Kind.NOTHING_LISTENS
        waited = time.monotonic() - start
        if last.kind.final or once or waited + _PAUSE >= deadline:
            break
        if last.why != said:
            progress(f"{waited:.0f} s: {last.why}")
            said = last.why
        time.sleep(_PAUSE)
    ok = last.kind is Kind.GENERATED
    result = Result(ok, last.tokens, last.text, round(time.monotonic() - start, 3), last.why)
    return result, 0 if ok else 3 if last.kind is Kind.NOTHING_LISTENS else 1


def process_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def pid_watch(pid: int | None) -> Callable[[], bool] | None:
    """``alive`` for ``wait``; our own process and its parent are no server."""
    if pid is None:
        return None
    if pid in (os.getpid(), os.getppid()):
        raise BadInput(f"--pid {pid} is not the server's process")
    return lambda: process_alive(pid)
