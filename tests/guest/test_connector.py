"""The guest connector against a real container with systemd, over @local and over SSH."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gevent import sleep, subprocess
from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.exceptions import InventoryError
from pyinfra.api.host import Host
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import State, StateStage
from pyinfra.facts.files import File
from pyinfra.facts.server import Hostname, LinuxName

from provision.guest.connector import GuestConnector, GuestUnavailable
from provision.guest.states import GuestState
from provision.host import transport
from provision.host.transport import TransportError
from provision.spec import Guest, Machine
from tests.guest.rig import Container, connected, host, sh

NASTY = [
    "it's",
    'a "quote"',
    "$HOME `id` $(id)",
    "back\\slash",
    "two\nlines",
    "é ü 日本",
    "",
    "*",
    "-n",
    "a;b&c|d",
]


@pytest.fixture
def state(machine: Machine) -> Iterator[State]:
    """Connected, planning."""
    with connected(machine) as state:
        state.set_stage(StateStage.Prepare)
        yield state


@pytest.fixture
def inside(state: State, machine: Machine) -> Host:
    return host(state, machine.guest_host_name(machine.guests[0]))


@pytest.fixture
def nowhere(state: State, machine: Machine) -> Host:
    return host(state, machine.guest_host_name(machine.guests[1]))


def say(host: Host, *words: str | QuoteString, **arguments: Any) -> tuple[bool, str, str]:
    done, output = host.run_shell_command(StringCommand(*words), **arguments)
    return done, output.stdout, output.stderr


def test_facts_of_a_guest_are_the_guest_s(inside: Host, container: Container) -> None:
    assert inside.get_fact(Hostname) == container.name
    assert inside.get_fact(LinuxName) == "Debian"


@pytest.mark.parametrize("word", NASTY)
def test_every_argument_arrives_as_it_is(inside: Host, word: str) -> None:
    done, out, _ = say(inside, "printf", "'<%s>'", QuoteString(word))
    assert (done, out) == (True, f"<{word}>")
    assert transport.run(inside, f"printf '<%s>' {shlex.quote(word)}").stdout == f"<{word}>".encode()


def test_the_environment_is_clean_and_the_folder_the_top(
    inside: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPRO_LEAK", "secret")
    done, out, _ = say(inside, "env; pwd")
    lines = out.splitlines()
    assert done
    assert not [line for line in lines if "KPRO_LEAK" in line or line.startswith("SSH_")]
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in lines
    assert {"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "HOME=/root"} <= set(lines)
    assert lines[-1] == "/"


def test_arguments_of_pyinfra_work(inside: Host, container: Container) -> None:
    assert say(inside, "echo", "$A", _env={"A": "x y"})[1] == "x y"
    assert say(inside, "pwd", _chdir="/etc")[1] == "/etc"
    assert say(inside, "id -un", _su_user="nobody", _su_shell="sh")[1] == "nobody"
    assert say(inside, "id -un", _sudo=True)[1] == "root"
    assert say(inside, "cat", _stdin=["one", "two"])[1] == "one\ntwo"
    assert say(inside, "exit 3", _success_exit_codes=[0, 3])[0]
    assert not say(inside, "exit 3")[0]


def test_a_sudo_user_that_cannot_be_had_is_an_error_and_not_root(inside: Host) -> None:
    done, out, _ = say(inside, "id -un", _sudo=True, _sudo_user="nobody")
    assert (done, out) == (False, "")


def test_output_that_is_no_text_does_not_end_the_run(inside: Host) -> None:
    done, out, _ = say(inside, "printf 'a\\377b\\nc'")
    assert (done, out) == (True, "a\\xffb\nc")
    assert transport.run(inside, "printf 'a\\377b\\nc'").stdout == b"a\xffb\nc"


def test_what_pyinfra_is_asked_to_print_is_printed_with_the_host_s_name(
    inside: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("pyinfra.api.output._echo", lambda message, **_: shown.append(message))
    say(inside, "echo out; printf 'last \\377' >&2", print_output=True, print_input=True)
    first, *rest = shown
    assert ">>> sh -c 'echo out;" in first
    assert sorted(line.split("] ")[-1].strip() for line in rest) == ["last \\xff", "out"]
    assert all(inside.name in line for line in shown)


def test_a_command_that_takes_too_long_fails_as_pyinfra_expects(inside: Host) -> None:
    with pytest.raises(TimeoutError):
        say(inside, "sleep 30", _timeout=1)


def test_a_failing_command_gives_its_status_and_its_words(inside: Host) -> None:
    assert say(inside, "echo no >&2; exit 7") == (False, "", "no")
    assert transport.run(inside, "exit 7").rc == 7


def test_one_command_in_a_guest_is_one_command_on_its_machine(inside: Host) -> None:
    parent = inside.connector.parent
    transport.watch(inside.state)
    before = transport.remote_commands(inside), transport.remote_commands(parent)
    inside.get_fact(Hostname)
    transport.run(inside, "true")
    assert transport.remote_commands(inside) == before[0] + 2
    assert transport.remote_commands(parent) == before[1]


# --- states ---


def test_while_planning_an_absent_guest_gives_facts_their_defaults(nowhere: Host) -> None:
    assert say(nowhere, "echo hi") == (True, "", "")
    assert nowhere.get_fact(File, path="/etc/hostname") is None
    assert nowhere not in nowhere.state.failed_hosts


def test_while_planning_a_stopped_guest_gives_facts_their_defaults(stopped_container: Container) -> None:
    machine = Machine(name="box", guests=(stopped_container.spec(),))
    with connected(machine) as state:
        inside = host(state, "@guest/@local/inside")
        assert say(inside, "echo hi") == (True, "", "")
        assert inside.connector.look().state is GuestState.STOPPED
        state.is_executing = True
        done, _, error = say(inside, "echo hi")
        assert not done
        assert "is stopped" in error
        assert "start it first" in error


def test_while_changing_an_absent_guest_fails_and_says_the_next_step(nowhere: Host) -> None:
    nowhere.state.set_stage(StateStage.Execute)
    done, _, error = say(nowhere, "echo hi")
    assert not done
    assert "is absent" in error
    assert "create it first" in error


def test_the_transport_tells_an_absent_guest_from_an_empty_answer(nowhere: Host) -> None:
    for move in (
        lambda: transport.run(nowhere, "true"),
        lambda: transport.fetch(nowhere, "true", io.BytesIO()),
        lambda: transport.hold(nowhere, "true"),
        lambda: transport.put(nowhere, io.BytesIO(b"x"), "/x"),
    ):
        with pytest.raises(GuestUnavailable) as caught:
            move()
        assert caught.value.seen.state is GuestState.ABSENT


def test_a_state_that_cannot_be_told_is_an_error_also_while_planning(
    new_container: Callable[..., Container],
) -> None:
    frozen = new_container()
    machine = Machine(name="box", guests=(frozen.spec(),))
    with connected(machine) as state:
        inside = host(state, "@guest/@local/inside")
        sh("lxc-freeze", "-n", frozen.name)
        try:
            assert inside.connector.look().state is GuestState.UNKNOWN
            done, _, error = say(inside, "echo hi", _timeout=20)
        finally:
            sh("lxc-unfreeze", "-n", frozen.name)
        assert not done
        assert "cannot be told (lxc-info says FROZEN)" in error
        assert say(inside, "echo hi")[1] == "hi"


# --- files ---


@pytest.fixture
def folder(container: Container) -> Iterator[Path]:
    """A folder inside, seen from outside; no half-written file may be left in it."""
    path = container.rootfs / "root/kpro-files"
    path.mkdir()
    yield path
    left = [name.name for name in path.iterdir() if name.name.startswith(".kpro-put")]
    container.attach("rm", "-rf", "/root/kpro-files")
    assert left == []


@pytest.mark.parametrize("name", ["plain", "a b'c\"d$e\\f", "-n", "ünï\ncode"])
@pytest.mark.parametrize("content", [b"", bytes(range(256)) * 3000, b"no newline"])
def test_a_file_goes_in_and_comes_back_byte_for_byte(
    inside: Host, folder: Path, name: str, content: bytes, tmp_path: Path
) -> None:
    path = f"/root/kpro-files/{name}"
    assert inside.put_file(io.BytesIO(content), path)
    assert (folder / name).read_bytes() == content
    back = io.BytesIO()
    assert inside.get_file(path, back)
    assert back.getvalue() == content
    assert inside.get_file(path, str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content


def test_text_and_files_of_the_controller_can_be_put(inside: Host, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"from a file\xff")
    assert inside.put_file(str(tmp_path / "file"), "/root/kpro-files/a")
    assert inside.put_file(io.StringIO("tëxt"), "/root/kpro-files/b")
    assert ((folder / "a").read_bytes(), (folder / "b").read_text()) == (b"from a file\xff", "tëxt")


def test_mode_and_owner_are_set_with_the_content_and_kept_by_a_later_put(inside: Host, folder: Path) -> None:
    transport.put(inside, io.BytesIO(b"1"), "/root/kpro-files/s", mode="0600", owner="nobody:nogroup")
    found = (folder / "s").stat()
    assert (found.st_mode & 0o7777, found.st_uid, found.st_gid) == (0o600, 65534, 65534)
    assert inside.put_file(io.BytesIO(b"2"), "/root/kpro-files/s")
    found = (folder / "s").stat()
    assert (found.st_mode & 0o7777, found.st_uid, (folder / "s").read_bytes()) == (0o600, 65534, b"2")


def test_a_file_put_as_another_user_belongs_to_that_user(inside: Host, container: Container) -> None:
    container.attach("install", "-d", "-o", "nobody", "/tmp/kpro-nobody")
    assert inside.put_file(io.BytesIO(b"x"), "/tmp/kpro-nobody/f", _su_user="nobody", _su_shell="sh")
    assert container.attach("stat", "-c", "%U", "/tmp/kpro-nobody/f") == "nobody\n"
    with pytest.raises(TransportError, match="was not written"):
        inside.put_file(io.BytesIO(b"x"), "/root/f", _su_user="nobody", _su_shell="sh")


def test_a_file_that_does_not_exist_is_an_error_and_leaves_nothing(inside: Host, tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="No such file"):
        inside.get_file("/root/none", str(tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []
    kept = io.BytesIO(b"kept")
    with pytest.raises(TransportError, match="No such file"):
        inside.get_file("/root/none", kept)
    assert kept.getvalue() == b"kept"


def test_a_file_for_an_absent_guest_is_an_error(nowhere: Host, tmp_path: Path) -> None:
    with pytest.raises(GuestUnavailable):
        nowhere.put_file(io.BytesIO(b"x"), "/x")
    with pytest.raises(GuestUnavailable):
        nowhere.get_file("/x", str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []


# --- the busy lock ---


def free() -> bool:
    return sh("flock", "-x", "-n", "/run/kpro/busy", "true", check=False).returncode == 0


def test_a_command_that_changes_holds_the_machine_busy_until_it_ended(inside: Host) -> None:
    inside.state.set_stage(StateStage.Execute)
    held = transport.hold(inside, "echo in; cat")
    assert not free()
    held.release()
    assert free()


def test_a_service_started_inside_does_not_keep_the_machine_busy(inside: Host, container: Container) -> None:
    inside.state.set_stage(StateStage.Execute)
    assert say(inside, "systemd-run --unit kpro-test-sleep sleep 60")[0]
    pid = say(inside, "setsid sleep 60 </dev/null >/dev/null 2>&1 & echo $!")[1]
    try:
        assert free()
    finally:
        container.attach("systemctl", "stop", "kpro-test-sleep")
        container.attach("kill", pid)


def test_a_command_waits_while_another_run_holds_the_machine_for_itself(inside: Host) -> None:
    inside.state.set_stage(StateStage.Execute)
    Path("/run/kpro").mkdir(exist_ok=True)
    other = subprocess.Popen(["flock", "-x", "/run/kpro/busy", "sleep", "1.5"])
    while free():
        sleep(0.02)
    assert say(inside, "echo after")[1] == "after"
    assert other.poll() == 0


def test_planning_does_not_wait_for_the_busy_lock(inside: Host) -> None:
    Path("/run/kpro").mkdir(exist_ok=True)
    other = subprocess.Popen(["flock", "-x", "/run/kpro/busy", "cat"], stdin=subprocess.PIPE)
    while free():
        sleep(0.02)
    assert say(inside, "echo planned", _timeout=10)[1] == "planned"
    other.stdin.close()
    other.wait()


# --- names and data ---


@pytest.mark.parametrize(
    "name", ["@guest", "@guest/", "@guest/t1", "@guest/a/", "@guest/@ssh/x/t1", "@guest/a/B c"]
)
def test_a_malformed_name_is_refused_with_the_form(name: str) -> None:
    with pytest.raises(InventoryError, match="@guest/<host>/<name>"):
        Inventory(([name], {}))


def test_a_guest_whose_machine_is_not_in_the_inventory_fails_to_connect_and_says_so() -> None:
    state = State(
        Inventory((["@local", ("@guest/kpro9/t1", {"guest": Guest(name="t1", backend="lxc", id="t1")})], {}))
    )
    guest = host(state, "@guest/kpro9/t1")
    errors: list[str] = []
    guest.log = lambda *a, **k: None  # type: ignore[method-assign]
    with pytest.raises(Exception, match="no host 'kpro9'"):
        guest.connect(raise_exceptions=True, show_errors=False)
    assert errors == []


def test_a_guest_without_its_spec_fails_to_connect_and_says_what_to_do() -> None:
    state = State(Inventory((["@local", "@guest/@local/t1"], {})))
    with pytest.raises(Exception, match="pyinfra_groups"):
        host(state, "@guest/@local/t1").connect(raise_exceptions=True, show_errors=False)


def test_the_connector_is_found_by_pyinfra_under_its_name() -> None:
    inventory = Inventory((["@guest/@local/t1"], {}))
    assert inventory.get_host("@guest/@local/t1").connector_cls is GuestConnector
