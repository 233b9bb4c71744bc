"""Ends processes when the one who started them is gone. Run as a plain file: `_watch.py FOLDER...`.

Standard input brings a process id per line. When it closes, every one of them gets SIGKILL and the folders are
removed; after a line `keep` they live on and nothing is removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import suppress


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    handles: list[int] = []
    for line in sys.stdin:
        if line.strip() == "keep":
            return
        with suppress(ProcessLookupError, ValueError):
            # A handle stays with its process, also when the id is used again.
            handles.append(os.pidfd_open(int(line)))
    for handle in handles:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    for folder in sys.argv[1:]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
