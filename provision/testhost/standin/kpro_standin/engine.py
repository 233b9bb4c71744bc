"""Plays an answer out at the pace of an engine, one step at a time, and counts what was played."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from .faults import SLOW_FACTOR, faulty
from .generation import Plan, Step, plan
from .metrics import Metrics
from .model import Model
from .protocol import Request
from .speculation import Speculation


class Aborted(Exception):
    """The request ended before its answer did: the client left, or the server stops."""


class Engine:
    """``tok_s``: tokens per second of a request without speculation. ``slots``: requests that run at once."""

    def __init__(
        self,
        model: Model,
        name: str,
        speculation: Speculation | None = None,
        tok_s: float = 200.0,
        slots: int = 64,
        fault: str | None = None,
    ) -> None:
        self.model = faulty(model, fault)
        self.name = name
        self.speculation = speculation
        self.fault = fault
        self.metrics = Metrics(name, speculation.k if speculation else 0)
        self.ready = threading.Event()
        self.abort = threading.Event()
        self._slots = threading.Semaphore(slots)
        factor = SLOW_FACTOR if fault == "slow" else 1.0
        self._plain_step = factor / tok_s
        self._draft_step = self._plain_step * (speculation.step_cost if speculation else 1.0)

    def plan(self, request: Request) -> Plan:
        return plan(self.model, self.speculation, request.wish, self.fault)

    def seconds(self, step: Step) -> float:
        """How long ``step`` takes: a draft costs time whether or not it is accepted."""
        return self._plain_step if step.accepted is None else self._draft_step

    def play(self, request: Request, answer: Plan, gone: Callable[[], bool]) -> Generator[Step, None, None]:
        """The steps of ``answer``, each when due. ``gone`` is asked before each; raises ``Aborted``."""
        arrived = time.monotonic()
        with self._slot(gone):
            began = time.monotonic()
            self.metrics.started(began - arrived)
            first = due = last = began
            made, reason = 0, "abort"
            try:
                for step in answer.steps:
                    due += self.seconds(step)
                    self._wait(due, gone)
                    now = time.monotonic()
                    if made == 0:
                        first = now
                        self.metrics.prefilled(request.prompt_tokens, now - arrived, now - began)
                    else:
                        self.metrics.stepped(len(step.tokens), step.accepted, now - last)
                    made, last = made + len(step.tokens), now
                    yield step
                reason = answer.finish
            finally:
                now = time.monotonic()
                self.metrics.ended(reason, now - arrived, last - first, made)

    def hang(self, gone: Callable[[], bool]) -> None:
        """Takes the request and never answers; ends when the client or the server does."""
        arrived = time.monotonic()
        with self._slot(gone):
            self.metrics.started(0.0)
            try:
                self._wait(float("inf"), gone)
            finally:
                self.metrics.ended("abort", time.monotonic() - arrived, 0.0, 0)

    @contextmanager
    def _slot(self, gone: Callable[[], bool]) -> Iterator[None]:
        self.metrics.waiting(+1)
        while not self._slots.acquire(timeout=0.1):
            if self.abort.is_set() or gone():
                self.metrics.waiting(-1)
                raise Aborted
        try:
            yield
        finally:
            self._slots.release()

    def _wait(self, due: float, gone: Callable[[], bool]) -> None:
        """Until ``due`` (monotonic seconds), looking up at least every half second."""
        while True:
            if self.abort.is_set() or gone():
                raise Aborted
            left = due - time.monotonic()
            if left <= 0:
                return
            self.abort.wait(min(left, 0.5))
