"""The parent of the ranks: starts one process per GPU, hands the id around, holds the deadlines.

At the first deadline that passes, or a second after the first rank that died, all are killed and abandoned.
"""

from __future__ import annotations

import json
import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks import child
from checks.nccl import segments
from checks.nccl.environment import of_child
from checks.nccl.keeper import Keeper
from checks.nccl.measured import STOPPED

LINE_LIMIT = 1 << 20
LOG_LIMIT = 1 << 20
GRACE_S = 1.0
LEAVE_S = 5.0
DIED_S = 0.5
BUDGET = 0.3
"""Which part of a size's deadline the timed rounds may take by their own reckoning."""
_SAMPLE_S = 0.05


@dataclass(frozen=True)
class Deadlines:
    """Seconds for each phase of a rank: ``start`` for interpreter, library and GPU context."""

    start: float = 60.0
    init: float = 60.0
    size: float = 20.0

    @staticmethod
    def scale(size: int) -> float:
        """How many times as long a size may take as the usual greatest one, 1 GiB."""
        return max(1.0, size / (1 << 30))

    def of(self, phase: str) -> float:
        if phase in ("start", "library", "context"):
            return self.start
        word, _, rest = phase.partition(" ")
        if word in ("sum", "pace", "bench"):
            return self.size * self.scale(int(rest.split()[0]))
        if phase == "id":
            return self.start + self.init
        return self.init if phase == "init" else self.size


@dataclass
class Member:
    """One rank as the parent sees it; ``told`` is everything it said, ``ended`` how its process ended."""

    rank: int
    gpu: int
    process: Any
    log: int
    """A file without a name, in memory: nothing is left wherever this program ends, and no folder is needed."""
    phase: str = "start"
    since: float = 0.0
    told: list[dict[str, Any]] = field(default_factory=list)
    buffer: bytes = b""
    stderr: bytes = b""
    done: bool = False
    ended: str | None = None
    code: int | None = None
    state: str | None = None
    """The kernel's letter for its process when a deadline had passed: T, stopped by a signal; t, by a debugger."""

    def as_dict(self, now: float) -> dict[str, Any]:
        whole: dict[str, Any] = {"rank": self.rank, "gpu": self.gpu, "phase": self.phase, "done": self.done}
        whole["in_phase_s"] = round(now - self.since, 3)
        whole |= {"ended": self.ended, "code": self.code, "state": self.state, "told": self.told[:400]}
        whole["stderr"] = self.stderr.decode(errors="replace")[-1000:]
        whole["log"] = _read(self.log)
        return whole


@dataclass(frozen=True)
class Order:
    """What the ranks shall do. ``first`` is the global rank of ``gpus[0]``; ``sizes`` in bytes, ascending."""

    library: str
    gpus: Sequence[int]
    sizes: Sequence[int]
    seed: int
    environment: Mapping[str, str]
    nranks: int
    first: int = 0
    deadlines: Deadlines = field(default_factory=Deadlines)
    shared: bool = False
    """Whether somebody else is on these GPUs: then less of their memory is taken."""
    curve: Sequence[int] = ()
    """Bytes of the messages that are timed before the greatest one, ascending."""


def run(order: Order, exchange: Callable[[str | None], str] | None = None) -> dict[str, Any]:
    """Runs all ranks to their end or to a deadline, whatever they do.

    ``exchange`` carries the id between nodes: it takes rank 0's id (None on other nodes) and gives the shared
    one. Gives ``ranks`` as dicts and ``removed``, the shared memory that had to be cleaned up.
    """
    before = segments.there()
    keeper = Keeper(before)
    crew = _Crew(order, exchange, keeper)
    try:
        crew.start()
        crew.watch()
    finally:
        # Also after an interrupt: nobody else would ever remove it.
        crew.end()
        removed = segments.sweep(before, crew.held)
        now = time.monotonic()
        ranks = [member.as_dict(now) for member in crew.members]
        crew.close()
        keeper.close()
    return {"ranks": ranks, "removed": removed, "nranks": order.nranks}


class _Crew:
    def __init__(self, order: Order, exchange: Callable[[str | None], str] | None, keeper: Keeper) -> None:
        self.order, self.exchange, self.keeper = order, exchange, keeper
        self.members: list[Member] = []
        self.held: set[str] = set()
        self.selector = selectors.DefaultSelector()
        self.killed_at: float | None = None
        self.logs: list[int] = []

    def start(self) -> None:
        for offset, gpu in enumerate(self.order.gpus):
            rank = self.order.first + offset
            log = os.memfd_create(f"provcheck-rank{rank}")
            self.logs.append(log)
            environment = {**of_child(self.order.environment), "NCCL_DEBUG_FILE": f"/proc/self/fd/{log}"}
            process = child.start(child.self_command("_probe", "nccl-rank"), environment, keep=(log,))
            member = Member(rank, gpu, process, log, since=time.monotonic())
            self.members.append(member)
            for stream, name in ((process.stdout, "out"), (process.stderr, "err")):
                assert stream is not None
                os.set_blocking(stream.fileno(), False)
                self.selector.register(stream, selectors.EVENT_READ, (member, name))
            sizes = list(self.order.sizes)
            asked = {"library": self.order.library, "rank": rank, "nranks": self.order.nranks, "gpu": gpu}
            budget = self.order.deadlines.size * BUDGET
            self.tell(
                member,
                {
                    **asked,
                    "sizes": sizes,
                    "seed": self.order.seed,
                    "budget_s": budget,
                    "shared": self.order.shared,
                    "curve": list(self.order.curve),
                },
            )
        if self.exchange is not None and self.order.first > 0:
            self.share(None)

    def tell(self, member: Member, line: dict[str, Any]) -> None:
        assert member.process.stdin is not None
        try:
            os.write(member.process.stdin.fileno(), (json.dumps(line) + "\n").encode())
        except OSError:
            return  # it is dead, which its pipes say better

    def share(self, own: str | None) -> None:
        identity = self.exchange(own) if self.exchange is not None else own
        for member in self.members:
            self.tell(member, {"id": identity})
            member.since = time.monotonic()  # waiting for other nodes is not the rank's time

    def watch(self) -> None:
        sampled = 0.0
        while self.selector.get_map():
            now = time.monotonic()
            if now - sampled >= _SAMPLE_S:
                living = self._living()
                self.held |= segments.held_by(living)
                self.keeper.know(living, self.held)
                sampled = now
            if all(member.done or member.ended for member in self.members) or self._late(now):
                return
            for key, _ in self.selector.select(_SAMPLE_S):
                self._read(key.fileobj, *key.data)

    def _late(self, now: float) -> bool:
        late = [
            m
            for m in self.members
            if not m.done and not m.ended and now - m.since > self.order.deadlines.of(m.phase)
        ]
        for member in late:
            member.ended = "deadline"
        for member in self.members if late else ():
            if not member.done and member.ended in (None, "deadline"):
                member.state = state(member.process.pid)
                # It is the one that the others wait for, though its own time is not over.
                if member.state in STOPPED:
                    member.ended = "deadline"
        failed = any(member.ended not in (None, "deadline") for member in self.members)
        if failed and self.killed_at is None:
            self.killed_at = now + GRACE_S
        return bool(late) or (self.killed_at is not None and now > self.killed_at)

    def _read(self, stream: Any, member: Member, name: str) -> None:
        try:
            data = os.read(stream.fileno(), 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self.selector.unregister(stream)
            if name == "out" and not member.done and member.ended is None:
                member.ended = "died"
            return
        if name == "err":
            member.stderr = (member.stderr + data)[-4000:]
            return
        member.buffer += data
        *lines, member.buffer = member.buffer.split(b"\n")
        member.buffer = member.buffer[-LINE_LIMIT:]
        for line in lines:
            self._heard(member, line)

    def _heard(self, member: Member, raw: bytes) -> None:
        try:
            line = json.loads(raw)
        except ValueError:
            return  # a library that prints on stdout
        if not isinstance(line, dict):
            return
        if "id" in line:
            self.share(str(line["id"]))
        elif "phase" in line:
            phase = str(line["phase"])
            if phase.split()[:2] != member.phase.split()[:2]:  # the repeats of one size share its deadline
                member.since = time.monotonic()
            member.phase = phase
        elif isinstance(line.get("segments"), list):
            self.held |= {str(name) for name in line["segments"]}
        if "error" in line:
            member.ended = "error"
        if "end" in line:
            member.done, member.phase = True, "end"
        member.told.append(line)

    def _living(self) -> list[int]:
        return [member.process.pid for member in self.members if member.process.poll() is None]

    def end(self) -> None:
        """Lets the ranks leave together if all are done; else kills them, whatever they do."""
        self.held |= segments.held_by(self._living())
        if all(member.done for member in self.members):
            for member in self.members:
                self.tell(member, {"leave": True})
            end = time.monotonic() + LEAVE_S
            while self._living() and time.monotonic() < end:
                time.sleep(0.01)
        for member in self.members:
            # The pipes of one that died close a moment before its code is known.
            member.code = child.code(member.process, DIED_S if member.ended == "died" else 0.0)
            child.abandon(member.process)
        self.selector.close()

    def close(self) -> None:
        while self.logs:
            os.close(self.logs.pop())


def state(pid: int) -> str | None:
    """The kernel's letter for what a process does (proc(5), stat), None when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


def _read(log: int) -> str:
    return os.pread(log, LOG_LIMIT, 0).decode(errors="replace")
