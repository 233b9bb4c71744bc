"""Controllers that die, files that are large, connections that break: each in a process of its own, or over SSH."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyinfra.api.command import StringCommand
from pyinfra.api.state import StateStage

from provision.host import transport
from provision.host.transport import TransportError
from provision.spec import Machine
from tests.guest.rig import Container, Sshd, connected, controller, eventually, host, said, sh

LARGE = 200 * 1024 * 1024
ALLOWED = 30 * 1024 * 1024


def free(file: str = "/run/kpro/busy") -> bool:
    return sh("flock", "-x", "-n", file, "true", check=False).returncode == 0


@pytest.fixture
def old_file(container: Container) -> Iterator[Path]:
    """A file inside, seen from outside."""
    path = container.rootfs / "root/kpro-put/f"
    path.parent.mkdir()
    path.write_text("old")
    yield path
    container.attach("rm", "-rf", "/root/kpro-put")


def test_a_controller_killed_in_the_middle_of_a_put_leaves_the_old_file(
    machine: Machine, old_file: Path
) -> None:
    code = """
    class Slow(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 5_000_000:
                print("half")
                time.sleep(600)
            return super().read(size)
    inside.put_file(Slow(bytes(50_000_000)), "/root/kpro-put/f")
    """
    running = controller(machine, code)
    said(running, "half")
    assert len(list(old_file.parent.iterdir())) == 2
    running.kill()
    running.wait()
    eventually(lambda: len(list(old_file.parent.iterdir())) == 1, "the half-written file is removed")
    assert old_file.read_text() == "old"


@pytest.mark.parametrize("where", ["metal", "inside"])
def test_a_held_command_sees_the_end_when_its_controller_is_killed(
    machine: Machine, tmp_path: Path, container: Container, where: str
) -> None:
    lock = tmp_path / "lock" if where == "metal" else container.rootfs / "root/kpro-lock"
    seen = lock if where == "metal" else Path("/root/kpro-lock")
    code = f"""
    held = transport.hold({where}, "exec flock -x {seen} sh -c 'echo got; cat >/dev/null; echo end > {seen}'")
    print("line", held.first_line)
    time.sleep(600)
    """
    running = controller(machine, code)
    assert said(running, "line") == "b'got'"
    assert not free(str(lock))
    running.kill()
    running.wait()
    eventually(lambda: free(str(lock)), "the lock is free")
    assert lock.read_text() == "end\n"


def test_a_second_holder_is_told_at_once(machine: Machine, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with connected(machine) as state:
        metal = host(state, machine.host_name)
        command = f"flock -n -x {lock} sh -c 'echo got; cat' || {{ echo taken >&2; exit 4; }}"
        first = transport.hold(metal, command)
        second = transport.hold(metal, command)
        assert (first.first_line, second.exited and second.exited.rc) == (b"got", 4)
        first.release()
        assert transport.hold(metal, command).first_line == b"got"


def test_a_command_that_outlives_its_controller_keeps_the_machine_busy(
    machine: Machine, container: Container
) -> None:
    code = """
    from pyinfra.api.command import StringCommand
    print("go")
    inside.run_shell_command(StringCommand("touch /root/kpro-on; sleep 4; touch /root/kpro-done"))
    """
    running = controller(machine, code)
    said(running, "go")
    eventually(lambda: (container.rootfs / "root/kpro-on").exists(), "the command runs")
    running.kill()
    running.wait()
    assert not free()
    eventually(free, "the machine is free")
    assert (container.rootfs / "root/kpro-done").exists()
    container.attach("rm", "/root/kpro-on", "/root/kpro-done")


@pytest.mark.parametrize("where", ["metal", "inside"])
def test_a_large_file_needs_no_more_memory_than_a_small_one(
    machine: Machine, container: Container, tmp_path: Path, where: str
) -> None:
    large, target = (
        tmp_path / "large",
        "/var/tmp/kpro-large" if where == "inside" else str(tmp_path / "there"),
    )
    with large.open("wb") as file:
        for _ in range(LARGE // (1024 * 1024)):
            file.write(os.urandom(1024 * 1024))
    code = f"""
    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    small = io.BytesIO(b"x")
    transport.put({where}, small, arguments[1])
    before = peak()
    with open(arguments[0], "rb") as file:
        if {where} is inside:
            inside.put_file(arguments[0], arguments[1])
        else:
            transport.put(metal, file, arguments[1])
    print("put", peak() - before)
    with open(arguments[0] + ".back", "wb") as file:
        assert transport.fetch({where}, "cat " + arguments[1], file).ok
    print("fetch", peak() - before)
    transport.run({where}, "rm " + arguments[1])
    """
    running = controller(machine, code, str(large), target)
    assert int(said(running, "put", 180)) < ALLOWED
    assert int(said(running, "fetch", 180)) < ALLOWED
    assert running.wait(30) == 0
    sh("cmp", str(large), f"{large}.back")
    large.unlink()
    Path(f"{large}.back").unlink()


# --- the connection of the machine ---


@pytest.fixture
def far(container: Container, sshd: Sshd) -> Machine:
    """This machine over SSH."""
    return Machine(name="far", ssh=sshd.ssh(), guests=(container.spec(),))


def test_a_guest_goes_on_after_its_machine_was_connected_anew(far: Machine, sshd: Sshd) -> None:
    with connected(far) as state:
        metal, inside = host(state, "far"), host(state, "@guest/far/inside")
        state.set_stage(StateStage.Execute)
        old = metal.connector.client
        sshd.stop()
        done, output = inside.run_shell_command(StringCommand("echo gone"))
        assert not done
        assert "far: the SSH connection is gone; nothing was run" in output.stderr
        metal.disconnect()
        done, output = inside.run_shell_command(StringCommand("echo still down"))
        assert not done
        assert "its machine far cannot be reached: Could not connect" in output.stderr
        sshd.start()
        assert inside.run_shell_command(StringCommand("echo back"))[1].stdout == "back"
        assert metal.connector.client is not old


def test_a_connection_that_breaks_under_a_command_is_no_success(far: Machine, sshd: Sshd) -> None:
    with connected(far) as state:
        metal, inside = host(state, "far"), host(state, "@guest/far/inside")
        state.set_stage(StateStage.Execute)
        held = transport.hold(metal, "echo ready; cat")
        breaks = f"sleep 1; s=$(cat {sshd.folder}/pid); kill $s $(ps -o pid= --ppid $s); sleep 5"
        with pytest.raises(TransportError, match="may still run there"):
            transport.run(metal, breaks)
        assert not held.alive
        with pytest.raises(TransportError):
            held.release()
        eventually(lambda: not (sshd.folder / "pid").exists(), "the listener is gone")
        sshd.start()
        metal.disconnect()
        assert inside.run_shell_command(StringCommand("echo back"))[1].stdout == "back"
