"""What an strace log shows of changes to a machine. As a program: ``strace_log.py calls`` prints what to trace,
``strace_log.py changes LOG`` the calls that changed something, and ends with 1 when there are any."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

CALLS = (
    "open,openat,openat2,creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink"
)
CALLS += (
    ",symlinkat,truncate,ftruncate,chmod,fchmod,fchmodat,chown,fchown,fchownat,mknod,mknodat,mount,utimensat"
)
CALLS += ",setxattr,init_module,finit_module,delete_module,reboot,bpf"
CHANGING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
HARMLESS = re.compile(
    r'"/dev/(null|tty|nvidia\d+|nvidiactl|nvidia-uvm|nvidia-caps/[a-z0-9-]+)"|"/proc/self/task/\d+/comm"'
)
"""Opened for writing and not written to: NVIDIA's library asks its driver through its nodes."""


def _whole(log: str) -> Iterator[str]:
    """Each call in one piece: another thread's lines may come before its result."""
    begun: dict[str, str] = {}
    for line in log.splitlines():
        thread, _, call = line.partition(" ") if line[:1].isdigit() else ("", "", line)
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[thread] = call.removesuffix("<unfinished ...>")
        elif resumed := re.match(r"<\.\.\. \w+ resumed>(.*)", call):
            yield begun.pop(thread, "") + resumed[1]
        else:
            yield call


def changes(log: str) -> list[str]:
    """Calls of an strace log that change something in the file system, and that succeeded."""
    found = []
    for call in _whole(log):
        if not re.match(r"[a-z0-9_]+\(", call) or " = -1 " in call:
            continue
        opened = call.startswith(("open", "creat"))
        if opened and not CHANGING.search(call) and not call.startswith("creat"):
            continue
        if opened and HARMLESS.search(call):
            continue
        found.append(call)
    return found


def main(args: list[str]) -> int:
    if args == ["calls"]:
        print(CALLS)  # noqa: T201
        return 0
    found = changes(Path(args[1]).read_text())
    print("\n".join(found) or "no change")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
