"""Children that never outlive this process, however it ends, unless they are let go.

A death signal (PR_SET_PDEATHSIG) would not do: it is bound to the thread that started the child, and the kernel
clears it when the child changes its user, as QEMU does here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_WATCH = Path(__file__).with_name("_watch.py")

# The child itself tells the watcher, so that no moment is left in which nobody knows it; then it lets the pipe go.
_ANNOUNCE = 'echo $$ >&$0; eval "exec $0>&-"; exec -- "$@"'


class Leash:
    """Holds children by a pipe to a watcher. ``folders`` are removed when the children are ended."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        self._watcher = subprocess.Popen(
            [sys.executable, "-S", "-E", str(_WATCH), *map(str, folders)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._watcher.stdin is not None
        self._pipe = self._watcher.stdin

    def start(
        self,
        argv: Sequence[str],
        *,
        out: IO[bytes] | int,
        err: IO[bytes] | int = subprocess.STDOUT,
        stdin: int = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Starts a child in a session of its own: a Ctrl-C at the terminal reaches only this process."""
        pipe = self._pipe.fileno()
        child = subprocess.Popen(
            ["bash", "-c", _ANNOUNCE, str(pipe), *argv],
            stdin=stdin,
            stdout=out,
            stderr=err,
            env=None if env is None else {**os.environ, **env},
            pass_fds=(pipe, *pass_fds),
            start_new_session=True,
        )
        self._children.append(child)
        return child

    def cut(self) -> None:
        """Ends every child (SIGKILL) and waits until they are gone. Harmless when repeated."""
        with suppress(BrokenPipeError):
            self._pipe.close()
        self._watcher.wait()
        for child in self._children:
            child.wait()

    def let_go(self) -> None:
        """The children live on; nothing is removed."""
        self._pipe.write(b"keep\n")
        self._pipe.close()
        self._watcher.wait()
        for child in self._children:
            # Popen would warn at its end about a child that still runs.
            child.returncode = child.returncode if child.poll() is not None else 0
