"""A command that is told to end: by Ctrl-C, SIGTERM or SIGHUP, each as a KeyboardInterrupt that is not lost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN_S = 0.01
INTERRUPTED = 130


class Told:
    """Which signal it was; None for none, or for Ctrl-C as Python has it."""

    number: int | None = None

    @property
    def code(self) -> int:
        """The exit code of a shell whose command a signal ended."""
        return INTERRUPTED if self.number is None else 128 + self.number


@contextmanager
def in_order(told: Told) -> Iterator[None]:
    """A SIGTERM or SIGHUP ends the command as Ctrl-C does: its children, files and shared memory are taken along.

    Only the first of them, and only where the caller did not have it ignored (nohup). What comes while Python finalizes
    an object is raised there, told and dropped (sys.unraisablehook); it is raised again a moment later.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        told.number = number
        raise KeyboardInterrupt

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        else:
            hook(what)

    hook, sys.unraisablehook = sys.unraisablehook, dropped
    before = {signal.SIGALRM: signal.signal(signal.SIGALRM, signal.default_int_handler)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        if told.number is None:
            for number, handler in before.items():
                signal.signal(number, handler)
