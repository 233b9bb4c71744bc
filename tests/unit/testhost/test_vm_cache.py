from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from provision.testhost.vm import cache
from provision.testhost.vm.errors import TestHostError
from provision.testhost.vm.leash import Leash
from provision.testhost.vm.lock import Lock


def silent(_: str) -> None:
    pass


def test_what_is_built_once_is_not_built_again(tmp_path: Path) -> None:
    def build(made: Path) -> None:
        (made / "file").write_text("x")

    def never(_: Path) -> None:
        raise AssertionError("built again")

    first = cache.kept(tmp_path, "d1", build, silent, "it")
    assert cache.kept(tmp_path, "d1", never, silent, "it") == first
    assert (first / "file").read_text() == "x"


@pytest.mark.parametrize("error", [KeyboardInterrupt, TestHostError])
def test_a_build_that_is_cut_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def cut(made: Path) -> None:
        (made / "half").write_text("x")
        raise error

    with pytest.raises(error):
        cache.kept(tmp_path, "d1", cut, silent, "it")
    assert [path.name for path in tmp_path.iterdir()] == [".build.lock"]


def test_what_a_killed_build_left_is_not_taken_for_whole_and_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / ".partial-old").mkdir()
    (tmp_path / ".partial-old/half").write_text("x")
    made = cache.kept(tmp_path, "d1", lambda folder: (folder / "f").touch(), silent, "it")
    assert {path.name for path in tmp_path.iterdir()} == {".build.lock", "d1"}
    assert made.name == "d1"


def test_the_cache_is_where_its_specification_says() -> None:
    assert cache.folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/kpro/vm")
    assert cache.folder({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == Path("/h/.cache/kpro/vm")


def test_a_second_test_host_is_refused_with_the_holder_and_gets_its_turn(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    first.take("provision demo", 0, silent)
    with pytest.raises(TestHostError, match=rf"provision demo, pid {os.getpid()}, since \d\d:"):
        second.take("tests", 0, silent)
    first.release()
    second.take("tests", 0, silent)
    second.release()


def test_a_process_that_inherited_the_lock_goes_on_holding_it(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    first.take("demo", 0, silent)
    leash = Leash()
    leash.start(["sleep", "60"], out=subprocess.DEVNULL, pass_fds=(first.fd,))
    first.release()
    with pytest.raises(TestHostError):
        second.take("tests", 0, silent)
    leash.cut()
    second.take("tests", 0, silent)
    second.release()


def _gone(pid: int, seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_children_on_a_leash_end_with_it_and_so_do_their_folders(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    leash = Leash((folder,))
    children = [leash.start(["sleep", "60"], out=subprocess.DEVNULL) for _ in range(2)]
    leash.cut()
    leash.cut()
    assert [child.returncode for child in children] == [-signal.SIGKILL] * 2
    assert not folder.exists()


OWNER = """
import subprocess, sys, time
from pathlib import Path
from provision.testhost.vm.leash import Leash
leash = Leash([Path(sys.argv[1])])
print(leash.start(["sleep", "60"], out=subprocess.DEVNULL).pid, flush=True)
if sys.argv[2:] == ["keep"]:
    leash.let_go()
else:
    time.sleep(60)
"""


def owner(*arguments: str) -> subprocess.Popen[str]:
    code = textwrap.dedent(OWNER)
    root = str(Path(cache.__file__).parents[3])
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, cwd=root
    )


def test_children_end_when_their_owner_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    with owner(str(folder)) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert not _gone(child, 0.2)
        process.kill()
    assert _gone(child)
    until = time.monotonic() + 10
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not folder.exists()


def test_children_that_were_let_go_live_on(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    with owner(str(folder), "keep") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
    assert process.returncode == 0
    try:
        assert not _gone(child, 0.3)
        assert folder.exists()
    finally:
        os.kill(child, signal.SIGKILL)
