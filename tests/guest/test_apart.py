"""Workers side by side: none sees another's machine, and nothing is left of one, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.guest.apart import OWN
from tests.guest.rig import LXC, eventually

WORKER = """
import os, socket, subprocess, sys
from pathlib import Path
from tests.guest import apart

place = apart.go()
one = socket.create_server(("127.0.0.1", 18599))
for path in apart.OWN:
    Path(path, "kprotest-apart").write_text("mine")
outside = subprocess.run([*apart.outside, "readlink", "/proc/self/ns/net"], capture_output=True, text=True)
left = subprocess.Popen(["setsid", "sleep", "600"])
print(place, left.pid, outside.stdout.strip(), os.listdir("/var/lib/lxc"), sep="\\n", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def workers() -> Iterator[list[subprocess.Popen[str]]]:
    """Two, each with the same port and the same files."""
    both = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    yield both
    for one in both:
        one.kill()
        one.wait()
        for pipe in (one.stdin, one.stdout):
            if pipe is not None:
                pipe.close()


def said(worker: subprocess.Popen[str]) -> tuple[Path, int, str, str]:
    assert worker.stdout is not None
    place, pid, outside, containers = (worker.stdout.readline().strip() for _ in range(4))
    return Path(place), int(pid), outside, containers


def test_two_workers_have_the_same_ports_and_files_and_meet_nowhere(
    workers: list[subprocess.Popen[str]],
) -> None:
    places = [said(worker) for worker in workers]
    assert places[0][0] != places[1][0]
    assert not [path for path in OWN if Path(path, "kprotest-apart").exists()]
    assert {outside for _, _, outside, _ in places} == {str(Path("/proc/self/ns/net").readlink())}
    assert {containers for *_, containers in places} == {"['kprotest-apart']"}


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, None])
def test_a_worker_that_ends_takes_its_processes_and_files_along(
    workers: list[subprocess.Popen[str]], end: signal.Signals | None
) -> None:
    (place, pid, _, _), (other, alive, _, _) = said(workers[0]), said(workers[1])
    assert place.is_dir()
    if end is None:
        workers[0].stdin.close()  # type: ignore[union-attr]
    else:
        workers[0].send_signal(end)
    workers[0].wait(20)
    eventually(lambda: not place.exists(), "its folder is gone")
    assert not lives(pid)
    assert other.is_dir()
    assert lives(alive)


def lives(pid: int) -> bool:
    """Whether it runs: one that has ended and that nobody asked for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_container_of_a_killed_worker_ends_with_it(guest_root: Path) -> None:
    code = WORKER.replace("print(", "from tests.guest.rig import make_container\n"
        f"made = make_container('kprotest-apart-box', Path({str(guest_root)!r}), network='empty')\n"
        "made.start()\nprint(")  # fmt: skip
    worker = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    place = said(worker)[0]
    assert "kprotest-apart-box" in monitors()
    worker.kill()
    worker.communicate()
    eventually(lambda: not place.exists(), "its folder is gone", 60)
    assert "kprotest-apart-box" not in monitors()
    assert not (LXC / "kprotest-apart-box").exists()


def monitors() -> str:
    """The monitors of all containers of this machine."""
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return "\n".join(line for line in done.stdout.splitlines() if line.startswith("[lxc monitor]"))
