"""A command that is told to end: by Ctrl-C, SIGTERM or SIGHUP, each as one KeyboardInterrupt where the command waits.

What must not be cut in the middle holds it back (``held``): then it comes at the end of that, which has a deadline.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gevent

from checks.ending import Told
from provision.printable import say_on_stderr
from provision.run.errors import ActFailed

_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
NOTHING = "nothing was changed"


class Ended(KeyboardInterrupt):
    """An interrupt whose last words are known. ``document``: what JSON has of it. Empty ``words``: all was said."""

    def __init__(self, words: str, **document: Any) -> None:
        self.words, self.document = words, document
        super().__init__(words)
        if _now is not None:
            _now.last = self


class _Listener:
    """Of the one greenlet that commands run in. Signal handlers only note; what is raised is raised by gevent's hub, at
    a place where that greenlet waits."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.told = Told()
        self.holds: list[str] = []
        self.last: Ended | None = None
        self.asks = False
        self._say = say
        self._heard = False
        self._due = False
        self._said = False
        self._here = gevent.getcurrent()
        self._loop = gevent.get_hub().loop

    def hear(self, number: int, _: object) -> None:
        if not self._heard:
            # What began the end counts, whoever pushes afterwards.
            self.told.number, self._heard = None if number == signal.SIGINT else number, True
        self._due = True
        self._loop.run_callback_threadsafe(self._act, number)

    def _act(self, number: int) -> None:
        if not self._due:
            return
        if self.asks or (number == signal.SIGINT and sys.stderr.isatty()):
            # The terminal has just written ^C, maybe behind a question.
            self._say("")
        if not self.holds:
            self._due = False
            self._here.throw(KeyboardInterrupt)
        elif not self._said:
            self._said = True
            self._say(f"{_NAMES[signal.Signals(number)]} is held back: {self.holds[-1]}")

    def hold(self, what: str) -> None:
        self.holds.append(what)

    def let_go(self) -> None:
        self.holds.pop()
        self._said = self._said and bool(self.holds)

    def is_due(self) -> bool:
        """Is an interrupt due that nothing holds? It is taken."""
        due = self._due and not self.holds
        self._due = self._due and not due
        return due


_now: _Listener | None = None
listened = False
"""Was it ever listened, in this process?"""


@contextmanager
def listening(say: Callable[[str], None] = say_on_stderr) -> Iterator[None]:
    """All three end what is done here in one way. One that the caller had ignored (nohup) stays ignored. Within another
    ``listening`` it changes nothing."""
    global _now, listened
    if _now is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _now, listened = _Listener(say), True
    before = {number: signal.getsignal(number) for number in _NAMES}
    try:
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, _now.hear)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        _now = None


@contextmanager
def held(what: str, seconds: float) -> Iterator[None]:
    """An interrupt waits for the end of this block, and is raised there; ``what`` says to whoever sends it for what,
    and how long at most. After ``seconds`` the block ends by ActFailed, so that no hang makes it endless."""
    listener = _now
    if listener is None:
        yield
        return
    listener.hold(what)
    try:
        with gevent.Timeout(seconds, ActFailed(f"it did not come to its end within {seconds:g} s")):
            yield
    finally:
        listener.let_go()
    # Not in place of an error, which ends the run as well.
    if listener.is_due():
        raise KeyboardInterrupt


def is_held() -> bool:
    return _now is not None and bool(_now.holds)


@contextmanager
def asking() -> Iterator[None]:
    """A question to the operator, before anything is begun."""
    listener = _now
    if listener is not None:
        listener.asks = True
    try:
        yield
    except KeyboardInterrupt:
        raise Ended(NOTHING) from None
    finally:
        if listener is not None:
            listener.asks = False


def code() -> int:
    """The exit code of a command that was told to end: as a shell has it, 128 and the signal's number."""
    return (Told() if _now is None else _now.told).code


def last() -> Ended | None:
    """The last words that are known: of the interrupt itself, or of one that another came upon on its way out."""
    return None if _now is None else _now.last
