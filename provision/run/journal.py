"""The journal: one JSON line an event, on disk before the event's effect is relied on."""

from __future__ import annotations

import getpass
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from provision import __version__
from provision.run.errors import RunError


def runs_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(base) / "kpro" / "runs"


def new_run_id() -> str:
    """``20261129T152000Z-a1b2c3``: sorts by time, unique without asking anybody."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def is_run_id(text: str) -> bool:
    return re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", text) is not None


opened: list[str] = []
"""The runs of this very process, in the order in which their journals were opened."""


class Journal:
    """The controller's journal of one run. Its methods raise RunError when it cannot be written."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.folder = runs_folder() / run
        with _told(self.folder):
            self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            self._file = (self.folder / "journal.jsonl").open("a", encoding="utf-8")
        opened.append(run)

    def begin(self, reason: str, **facts: Any) -> str:
        """The first event of a run: what was asked for, and by whom."""
        by = f"{getpass.getuser()}@{os.uname().nodename}"
        return self.write("run", reason=reason, by=by, version=__version__, **facts)

    def write(self, event: str, **facts: Any) -> str:
        """Appends an event and returns its line. It is on the disk when this returns."""
        line = json.dumps({"at": now(), "run": self.run, "event": event, **facts}, ensure_ascii=False)
        # Half of a surrogate pair is no UTF-8; its escape is JSON as well.
        line = line.encode("utf-8", "backslashreplace").decode()
        with _told(self.folder):
            self._file.write(line + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        return line

    def close(self) -> None:
        # What a full disk did not take was told when it was written.
        with suppress(OSError):
            self._file.close()


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"the journal of this run cannot be written in {folder}: {error.strerror or error}; nothing is changed "
            "without one. Make the folder writable, or set XDG_STATE_HOME to one that is"
        ) from error


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read(run: str) -> Iterator[dict[str, Any]]:
    """The events of a run; a line that a crash cut off, or that is none, is left out."""
    path = runs_folder() / run / "journal.jsonl"
    # By bytes: a text of a machine may hold what str.splitlines() takes for the end of a line.
    for line in path.read_bytes().split(b"\n"):
        try:
            event = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield event
