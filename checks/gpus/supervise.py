"""The parent of the children that read NVML. A section that gives no answer in time is cut off as one, its child
is abandoned, and another child reads what remains: one GPU's failure never hides another's.

    reading = Reading(30.0)      starts the first child
    nvml, library = reading.result()
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from checks import child
from checks.child import Process
from checks.gpus import assemble
from checks.gpus.assemble import Work, why
from checks.gpus.parts import DIED, NOT_ASKED, TIMEOUT

CHILDREN = 16
"""Children at most per reading: each hang and each crash costs one."""
HANGS_PER_GPU = 2
"""After so many sections of a GPU were cut off, the rest of it is not asked any more."""
SECTION_SHARE = 1 / 5
"""Of the whole deadline, for one section: what is left is enough for the other GPUs and two more hangs."""
_LINE_LIMIT = 4 << 20


class Reading:
    """NVML being read by children. ``deadline`` in seconds is for all of it, ``section`` for one section."""

    def __init__(
        self, deadline: float, command: Sequence[str] | None = None, section: float | None = None
    ) -> None:
        self.begun = time.monotonic()
        self.limit(deadline, section)
        self.command = list(command or child.self_command("_probe", "nvml"))
        self.work = Work()
        self.head: dict[str, Any] | None = None
        self.library: str | None = None
        self.process: Process | None = None
        self.reason = why(NOT_ASKED, "not asked")
        self.children = 0
        self.suspects: dict[tuple[int, str], None] = {}
        self._start(None)

    def result(self) -> tuple[dict[str, Any], str | None]:
        """The NVML dump and the file of the library. What is missing in the dump says why."""
        try:
            while self.process is not None:
                lost = self._watch(self.process)
                if lost is None or not self._next(lost):
                    break
        finally:
            self.stop()
        if self.head is None:
            return {"binding": None, "nvmlInit": self.reason}, self.library
        return assemble.dump(self.head, self.work, self.reason), self.library

    def limit(self, deadline: float, section: float | None = None) -> None:
        """Sets the deadlines, counted from when the reading began."""
        self.deadline = deadline
        self.section = section or deadline * SECTION_SHARE
        self.end = self.begun + deadline

    def stop(self) -> None:
        """Abandons the child, whether it ends or not."""
        if self.process is not None:
            child.abandon(self.process)

    def _start(self, plan: dict[str, Any] | None) -> bool:
        """Starts a child; False, with the reason, when the machine has no room for one."""
        self.started = False
        self.said = bytearray()
        self.running: dict[tuple[int, str], float] = {}
        self.children += 1
        try:
            self.process = child.start(self.command + ([] if plan is None else [json.dumps(plan)]))
        except OSError as error:
            self.process = None
            self.reason = why(DIED, f"no child could be started: {error.strerror}")
            return False
        assert self.process.stdout is not None
        with suppress(OSError):  # what eight GPUs say does not wait for a reader that is still being imported
            fcntl.fcntl(self.process.stdout, fcntl.F_SETPIPE_SZ, 1 << 20)
        return True

    def _next(self, lost: str) -> bool:
        """After a lost child: writes down what it was lost at, and starts another one if that can help.

        Of several sections that were being read, one is to blame and the others may have waited for a lock it
        holds: the next child reads them alone, one by one.
        """
        suspects = sorted(self.running, key=self.running.__getitem__)
        late = time.monotonic() >= self.end
        if not self.started or late:
            for suspect in suspects if late else ():
                self.work.cut(suspect, self.reason)
            return False
        if not suspects:
            return False
        if lost == TIMEOUT:
            oldest = self.running[suspects[0]]
            suspects = [one for one in suspects if self.running[one] - oldest < self.section / 4]
        if len(suspects) == 1:
            self.work.cut(suspects[0], self.reason)
        else:
            self.suspects.update(dict.fromkeys(suspects))
        self.work.give_up(HANGS_PER_GPU)
        plan = self.work.plan(list(self.suspects))
        self.stop()
        if self.children >= CHILDREN or plan is None:
            return False
        return self._start(plan)

    def _watch(self, process: Process) -> str | None:
        """Reads what the child says. None: it said everything; else TIMEOUT or DIED, with ``reason`` set."""
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = process.stdout.fileno(), process.stderr.fileno()
        buffer, open_fds = bytearray(), {out, err}
        while out in open_fds:
            left = self._until() - time.monotonic()
            ready = select.select(open_fds, [], [], max(0.0, left))[0]
            if not ready and left <= 0:
                return self._late()
            for fd in ready:
                data = os.read(fd, 1 << 16)
                if not data:
                    open_fds.discard(fd)
                elif fd == err:
                    self.said = (self.said + data)[-4096:]
                else:
                    buffer += data
            *lines, rest = buffer.split(b"\n")
            buffer = bytearray(rest[-_LINE_LIMIT:])
            if any(self._heard(line) for line in lines):
                return None
        return self._died(process)

    def _until(self) -> float:
        if not self.running:
            return self.end
        return min(self.end, min(self.running.values()) + self.section)

    def _late(self) -> str:
        limit = self.deadline if time.monotonic() >= self.end else self.section
        self.reason = why(TIMEOUT, f"no answer within {limit:g} s")
        return TIMEOUT

    def _died(self, process: Process) -> str:
        end = time.monotonic() + 0.5
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        last = self.said.decode(errors="replace").strip().splitlines()[-1:] or [""]
        code = process.returncode
        how = f"signal {-code}" if code is not None and code < 0 else f"{code}"
        self.reason = why(DIED, f"the child ended with {how}: {last[0][:200]}".rstrip(": "))
        return DIED

    def _heard(self, raw: bytes | bytearray) -> bool:
        """Takes one line in; True for the last one."""
        try:
            line = json.loads(raw)
        except ValueError:
            return False  # a driver may print there too
        if not isinstance(line, dict):
            return False
        if "head" in line:
            self.started = line["head"].get("nvmlInit") is None
            if self.head is None:
                self.head = line["head"]
                self.work.enumerate(self.head.get("nvmlDeviceGetCount"))
        elif "library" in line:
            self.library = self.library or line["library"]
        elif "begin" in line:
            self.running[tuple(line["begin"])] = time.monotonic()
        elif "done" in line:
            gpu, section = line["done"]
            self.running.pop((gpu, section), None)
            self.work.done(gpu, section, line["data"])
        return "end" in line
