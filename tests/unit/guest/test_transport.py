"""The transport on this machine: real processes, real files, no container."""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Iterator
from io import BytesIO, RawIOBase
from pathlib import Path
from typing import Any

import pytest
from gevent import sleep, subprocess
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyinfra.api.host import Host
from pyinfra.facts.server import Hostname

from provision.host import transport
from provision.host.transport import CommandTimeout, TransportError

GRACE = 0.5
ALL_BYTES = bytes(range(256)) * 5


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for what comes after a command's end, shorter than in earnest."""
    monkeypatch.setattr("provision.host.transport.AFTER_EXIT_SECONDS", GRACE)
    monkeypatch.setattr("provision.host._held.AFTER_EXIT_SECONDS", GRACE)


class Failing(RawIOBase):
    """Gives some bytes, then the disk fails."""

    def __init__(self, before: int) -> None:
        self._left = before

    def read(self, size: int = -1) -> bytes:
        if not self._left:
            raise OSError("the disk of the controller fails")
        take = min(self._left, size)
        self._left -= take
        return b"x" * take


def ended(pid: str, seconds: float = 5) -> bool:
    """Does the process end in time? (One that nobody collects yet counts as ended.)"""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid.strip()}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        sleep(0.05)
    return False


def test_output_and_input_are_bytes_and_stay_what_they_are(local: Host) -> None:
    done = transport.run(local, "cat; printf 'no\\377utf8' >&2; exit 3", stdin=ALL_BYTES)
    assert (done.rc, done.stdout, done.stderr) == (3, ALL_BYTES, b"no\xffutf8")
    assert done.error_text == "no\\xffutf8"
    assert not done.ok


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_a_command_is_the_text_that_was_given(local: Host, text: str) -> None:
    assert transport.run(local, f"printf %s {shlex.quote(text)}").stdout == text.encode()


def test_without_input_a_command_sees_the_end_at_once(local: Host) -> None:
    assert transport.run(local, "cat; echo end", timeout=10).stdout == b"end\n"


def test_a_command_ended_by_a_signal_has_a_status_of_its_own(local: Host) -> None:
    assert transport.run(local, "kill -9 $$").rc == 128 + 9


def test_both_outputs_can_be_large_while_input_is_sent(local: Host) -> None:
    command = "head -c 3000000 /dev/zero >&2; cat; head -c 3000000 /dev/zero"
    done = transport.run(local, command, stdin=b"y" * 3_000_000, timeout=60)
    assert (len(done.stdout), len(done.stderr)) == (6_000_000, 3_000_000)


def test_a_command_that_does_not_read_its_input_is_no_error(local: Host) -> None:
    assert transport.run(local, "exec <&-; exit 4", stdin=b"z" * 1_000_000, timeout=20).rc == 4


def test_progress_tells_the_bytes_sent(local: Host) -> None:
    seen: list[int] = []
    transport.stream(local, "cat >/dev/null", BytesIO(b"p" * 600_000), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 600_000


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(local: Host, tmp_path: Path) -> None:
    with pytest.raises(CommandTimeout, match="did not end within 1 s"):
        transport.run(local, f"sleep 60 & echo $! > {tmp_path}/pid; wait", timeout=1)
    assert ended((tmp_path / "pid").read_text())


def test_what_a_command_leaves_running_is_not_waited_for_and_is_told(local: Host) -> None:
    done = transport.run(local, "echo mine; sleep 30 & echo $! >&2", timeout=20)
    os.kill(int(done.stderr), 9)
    assert (done.ok, done.stdout, done.whole) == (True, b"mine\n", False)


def test_output_that_still_comes_after_the_end_is_whole(local: Host) -> None:
    late = "(for i in 1 2 3; do sleep 0.3; echo $i; done) & exit 0"
    done = transport.run(local, late, timeout=30)
    assert (done.stdout, done.whole) == (b"1\n2\n3\n", True)


def test_a_sink_that_is_slow_loses_nothing(local: Host) -> None:
    class Slow(BytesIO):
        def write(self, data: Any) -> int:
            if not self.getvalue():
                sleep(4 * GRACE)
            return super().write(data)

    sink = Slow()
    transport.fetch(local, "head -c 100000 /dev/zero", sink)
    assert len(sink.getvalue()) == 100_000


def test_a_fetch_without_the_end_of_the_output_is_an_error(local: Host, tmp_path: Path) -> None:
    sink = BytesIO()
    with pytest.raises(TransportError, match="the end of its output did not come"):
        transport.fetch(local, f"echo part; sleep 30 & echo $! > {tmp_path}/pid", sink)
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_a_sink_that_fails_stops_the_command_and_its_error_comes_through(local: Host) -> None:
    class Full(BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    started = time.monotonic()
    with pytest.raises(OSError, match="No space left"):
        transport.fetch(local, "cat /dev/zero", Full())
    assert time.monotonic() - started < 10


def test_a_source_that_fails_stops_the_command_and_its_error_comes_through(
    local: Host, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="the disk of the controller fails"):
        transport.stream(local, f"cat > {tmp_path}/x; echo done > {tmp_path}/y", Failing(300_000))  # type: ignore[arg-type]
    assert not (tmp_path / "y").exists()


def test_a_command_too_long_for_the_kernel_is_refused_with_the_way_out(local: Host) -> None:
    with pytest.raises(TransportError, match="standard input of `sh -s`"):
        transport.run(local, "true " + "x" * 200_000)


def test_a_command_with_a_nul_byte_is_refused(local: Host) -> None:
    with pytest.raises(TransportError, match="NUL"):
        transport.run(local, "echo a\0b")


def test_every_command_is_counted_and_pyinfra_s_own_once_watched(local: Host) -> None:
    before = transport.remote_commands(local)
    transport.run(local, "true")
    local.get_fact(Hostname)
    assert transport.remote_commands(local) == before + 1
    transport.watch(local.state)
    transport.watch(local.state)
    local.get_fact(Hostname)
    assert transport.remote_commands(local) == before + 2


# --- a held command ---


def test_a_held_command_runs_until_it_is_released(local: Host, tmp_path: Path) -> None:
    held = transport.hold(local, f"echo ready; cat >/dev/null; echo out; touch {tmp_path}/released")
    assert (held.first_line, held.alive, held.exited) == (b"ready", True, None)
    sleep(0.3)
    assert not (tmp_path / "released").exists()
    assert held.release().stdout == b"ready\nout\n"
    assert (tmp_path / "released").exists()
    assert not held.alive
    assert held.release().rc == 0


def test_a_held_command_that_ends_at_once_gives_status_and_output(local: Host) -> None:
    held = transport.hold(local, "echo 'held by pid 7' >&2; exit 4")
    assert held.exited is not None
    assert (held.first_line, held.alive, held.exited.rc) == (None, False, 4)
    assert held.exited.error_text == "held by pid 7"


def test_a_held_command_that_dies_is_seen(local: Host) -> None:
    held = transport.hold(local, "echo $$; exec sleep 60")
    os.kill(int(held.first_line or b""), 9)
    sleep(0.3)
    assert not held.alive
    assert held.release().rc == 128 + 9


def test_a_held_command_that_says_nothing_is_given_up(local: Host, tmp_path: Path) -> None:
    with pytest.raises(CommandTimeout, match=r"said nothing for 0\.5 s"):
        transport.hold(local, f"echo $$ > {tmp_path}/pid; exec sleep 60", timeout=0.5)
    assert ended((tmp_path / "pid").read_text())


def test_a_held_command_that_ignores_its_release_is_an_error(local: Host) -> None:
    held = transport.hold(local, "echo ready; exec sleep 60")
    with pytest.raises(CommandTimeout, match=r"did not end within 0\.5 s"):
        held.release(timeout=0.5)


# --- a file in one step ---


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """An old file with a mode of its own; afterwards nothing else may be in its folder."""
    folder = tmp_path / "a b$'é"
    folder.mkdir()
    path = folder / "t\\x"
    path.write_text("old")
    path.chmod(0o640)
    yield path
    # A command that was stopped tidies up after itself, which takes a moment that nobody waits for.
    until = time.monotonic() + 5
    while (left := [name.name for name in folder.iterdir() if name.name.startswith(".kpro-put")]) and (
        time.monotonic() < until
    ):
        time.sleep(0.05)
    assert left == []


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_put_replaces_the_file_and_keeps_its_mode(local: Host, target: Path) -> None:
    old = target.stat().st_ino
    transport.put(local, BytesIO(ALL_BYTES), str(target))
    assert target.read_bytes() == ALL_BYTES
    assert (mode_of(target), target.stat().st_ino == old) == (0o640, False)


def test_a_new_file_has_the_usual_mode_or_the_one_asked_for(local: Host, target: Path) -> None:
    umask = os.umask(0o022)
    try:
        transport.put(local, BytesIO(b"1"), str(target.with_name("usual")))
        transport.put(local, BytesIO(b"2"), str(target.with_name("secret")), mode="0600")
    finally:
        os.umask(umask)
    assert mode_of(target.with_name("usual")) == 0o644
    assert mode_of(target.with_name("secret")) == 0o600


def test_while_it_comes_a_file_can_be_read_by_its_owner_only(local: Host, target: Path) -> None:
    modes = []

    def look(_: int) -> None:
        sleep(0.2)
        modes.extend(mode_of(p) for p in target.parent.iterdir() if p.name.startswith(".kpro-put"))

    transport.put(local, BytesIO(b"s" * 300_000), str(target), mode="0644", progress=look)
    assert set(modes) == {0o600}


def test_a_put_from_the_middle_of_a_source_takes_the_rest(local: Host, target: Path) -> None:
    source = BytesIO(b"head:tail")
    source.seek(5)
    transport.put(local, source, str(target))
    assert target.read_bytes() == b"tail"


def test_an_empty_file_can_be_put(local: Host, target: Path) -> None:
    transport.put(local, BytesIO(), str(target))
    assert target.read_bytes() == b""


def test_a_symbolic_link_is_replaced_and_not_followed(local: Host, target: Path) -> None:
    link = target.with_name("link")
    link.symlink_to(target)
    transport.put(local, BytesIO(b"new"), str(link))
    assert (link.is_symlink(), link.read_text(), target.read_text()) == (False, "new", "old")


def test_a_link_to_a_directory_is_replaced_too(local: Host, target: Path) -> None:
    link = target.with_name("link")
    link.symlink_to("/")
    transport.put(local, BytesIO(b"new"), str(link))
    assert link.read_text() == "new"


def test_a_directory_is_never_replaced(local: Host, target: Path) -> None:
    with pytest.raises(TransportError, match="is a directory"):
        transport.put(local, BytesIO(b"new"), str(target.parent))


def test_a_folder_that_does_not_exist_is_named(local: Host, target: Path) -> None:
    with pytest.raises(TransportError, match=r"the folder .*/none does not exist"):
        transport.put(local, BytesIO(b"new"), str(target.parent / "none/x"))


@pytest.mark.parametrize(("mode", "owner"), [("0o644", None), (None, "no-such-user:no-such-group")])
def test_a_mode_or_owner_that_cannot_be_set_leaves_the_old_file(
    local: Host, target: Path, mode: str | None, owner: str | None
) -> None:
    with pytest.raises(TransportError, match="was not written"):
        transport.put(local, BytesIO(b"new"), str(target), mode=mode, owner=owner)
    assert target.read_text() == "old"


def test_fewer_bytes_than_announced_leave_the_old_file(local: Host, target: Path) -> None:
    script = transport.put_atomic_script(str(target), size=10)
    done = transport.run(local, script, stdin=b"123456789")
    assert (done.rc, done.error_text, target.read_text()) == (1, "9 of 10 bytes arrived", "old")


def test_a_source_that_fails_in_the_middle_leaves_the_old_file(local: Host, target: Path) -> None:
    script = transport.put_atomic_script(str(target), size=300_000)
    with pytest.raises(OSError, match="the disk of the controller fails"):
        transport.stream(local, script, Failing(300_000))  # type: ignore[arg-type]
    assert target.read_text() == "old"


@pytest.mark.parametrize("number", [1, 2, 13, 15])
def test_a_put_that_is_signalled_in_the_middle_leaves_the_old_file_and_no_other(
    target: Path, number: int
) -> None:
    script = transport.put_atomic_script(str(target), size=10)
    # Whoever runs the tests may ignore a signal (nohup does), and what it starts would inherit that.
    heard = ["env", "--default-signal", "sh", "-c", script]
    running = subprocess.Popen(heard, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    running.stdin.write(b"12345")
    running.stdin.flush()
    until = time.monotonic() + 10
    while len(list(target.parent.iterdir())) < 2 and time.monotonic() < until:
        sleep(0.02)
    os.kill(running.pid, number)
    running.stdin.close()
    # The end of the input may be seen before the signal: half a file is an error of its own.
    assert running.wait(10) in (128 + number, 1)
    assert target.read_text() == "old"


def test_the_new_content_is_on_disk_before_it_gets_its_name(target: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    (tmp_path / "bin").mkdir()
    for name in ("sync", "mv", "chmod"):
        double = tmp_path / "bin" / name
        double.write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\nexec /usr/bin/{name} "$@"\n')
        double.chmod(0o755)
    script = transport.put_atomic_script(str(target), "0600", size=1)
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", script], input=b"x", env=env, check=True)
    said = [line.split()[0] for line in log.read_text().splitlines()]
    assert said == ["chmod", "sync", "mv", "sync"]
