"""A machine that is not reached is told once, with its cause and the next step; its guests are not told again."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provision.run.errors import RunError, Unreachable
from provision.run.reaching import away, called, ssh_command
from provision.run.told import quiet, silent
from provision.spec import Guest, Machine, Ssh

REFUSED = "Could not connect ([Errno None] Unable to connect to port 22 on 10.0.0.7)"


def machine(name: str = "u1", **ssh: Any) -> Machine:
    guest = Guest(name="llm", backend="lxc", id="llm", managed=False)
    return Machine(name=name, ssh=Ssh(**{"host": name, **ssh}), guests=(guest,))


def test_a_machine_is_told_once_whatever_its_guests_say() -> None:
    one, two = machine("u1"), machine("u2")
    errors = {
        "@guest/u1/llm": f"its machine u1 cannot be reached: {REFUSED}",
        "u1": REFUSED,
        "@guest/u2/llm": "its machine u2 cannot be reached: the attempt was given up",
        "u2": "Could not connect (timed out)",
    }
    found = away(errors, (one, two))
    assert [line.why for line in found] == [
        "u1 cannot be reached: nothing takes a connection at 10.0.0.7 port 22",
        "u2 cannot be reached: no answer from u2 (timed out)",
    ]


def test_of_a_guest_alone_the_machines_own_reason_is_told() -> None:
    (found,) = away({"@guest/u1/llm": f"its machine u1 cannot be reached: {REFUSED}"}, [machine()])
    assert found.why == "u1 cannot be reached: nothing takes a connection at 10.0.0.7 port 22"


def test_a_machine_that_is_reached_is_not_told() -> None:
    assert away({}, [machine()]) == []


@pytest.mark.parametrize(
    ("said", "cause", "look"),
    [
        (REFUSED, "nothing takes a connection", "firewall"),
        ("Could not connect (timed out)", "no answer", "is the machine up"),
        ("Could not resolve hostname ([Errno -2] Name or service not known)", "not known here", "ssh.host"),
        (
            "Authentication error (username=root) (Authentication failed.)",
            "does not let root in",
            "authorized",
        ),
        ("SSH host key error (Host key for u1 does not match.)", "installed anew", "ssh-keygen -R u1"),
        ("SSH error (StrictPolicy: No host key for u1 found in known_hosts)", "is not in", "shows the key"),
        ("SSH error (Error reading SSH protocol banner)", "no SSH server", "ssh.port"),
        ("No such private key file: /k", "/k", "ssh.key"),
        ("something new", "something new", "must log in"),
    ],
)
def test_every_cause_has_its_next_step_and_no_number_of_an_error(said: str, cause: str, look: str) -> None:
    (found,) = away({"u1": said}, [machine(user="root")])
    assert cause in found.cause
    assert found.next_step.startswith("ssh root@u1 ")
    assert look in found.next_step
    assert "Errno" not in str(found)
    assert "\n" not in str(found)


def test_the_next_step_is_the_whole_way_by_hand() -> None:
    ssh = Ssh(host="a.b", port=2222, user="me", key="/my key", known_hosts="/known")
    assert ssh_command(ssh) == "ssh -p 2222 -i '/my key' -o UserKnownHostsFile=/known me@a.b"
    assert ssh_command(Ssh(host="a.b")) == "ssh a.b"


def test_a_host_without_an_inventory_is_called_as_it_was_written() -> None:
    assert called(machine("nohost-invalid", host="nohost.invalid")) == "nohost.invalid"
    assert called(machine("kpro5", host="10.0.0.7")) == "kpro5"
    assert called(Machine(name="local")) == "local"


def test_each_machine_is_an_error_of_its_own_and_other_errors_keep_their_form() -> None:
    error = Unreachable(away({"u1": REFUSED, "u2": REFUSED}, [machine("u1"), machine("u2")]), "and this")
    assert [line[:9] for line in error.told.splitlines()] == ["error: u1", "error: u2", "and this"]
    assert RunError("a\n  - b").told == "error: a\n  - b"


@pytest.mark.parametrize(
    ("command", "ssh", "cause"),
    [
        ("status", 'host="127.0.0.1", port=1', "nothing takes a connection at 127.0.0.1 port 1"),
        ("inspect", 'host="127.0.0.1", key="/nowhere/key"', "No such private key file: /nowhere/key"),
    ],
)
def test_a_look_that_reaches_nothing_says_so_in_one_line_a_machine(
    tmp_path: Path, command: str, ssh: str, cause: str
) -> None:
    path = tmp_path / "bad.py"
    path.write_text(
        "from provision.spec import Guest, Machine, Ssh\n"
        f'metal, guests = Machine(name="u1", ssh=Ssh({ssh}),'
        ' guests=(Guest(name="llm", backend="lxc", id="llm", managed=False),)).pyinfra_groups()\n'
    )
    # A process of its own: pyinfra's command line patches the whole of one.
    done = subprocess.run(
        [sys.executable, "-c", "from provision.cli import main; main()", command, str(path)],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert said.count("127.0.0.1 port 1" if command == "status" else "No such private key") == 1, said
    assert f"u1 cannot be reached: {cause}. Next: ssh " in said
    assert "Traceback" not in said
    assert "known_hosts" not in said


def test_what_pyinfra_says_of_a_failed_attempt_is_left_to_the_run(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("pyinfra")
    quiet()
    with caplog.at_level(logging.DEBUG, "pyinfra"):
        with silent():
            log.error("[u1] Could not connect")
            log.warning("No host key for u1 found in known_hosts, accepting & adding to host keys file")
        log.warning("Failed to load host keys from /r/known_hosts: [Errno 2] No such file or directory: '/r'")
        log.warning("Failed to load host keys from /r/known_hosts: [Errno 13] Permission denied: '/r'")
        log.error("after it")
    said = [record.getMessage() for record in caplog.records]
    assert [line.split()[0] for line in said] == ["No", "Failed", "after"]
    assert "Permission denied" in said[1]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"u1": "Could not resolve hostname ([Errno -2] Name or service not known)"}, 2),
        ({"u1": REFUSED}, 1),
        ({"u1": "Could not resolve hostname ([Errno -2] Name or service not known)", "u2": REFUSED}, 1),
    ],
)
def test_a_name_that_is_not_known_is_wrong_usage_as_it_is_where_names_are_judged_first(
    said: dict[str, str], code: int
) -> None:
    assert Unreachable(away(said, (machine("u1"), machine("u2")))).exit_code == code


def test_a_machine_without_any_key_here_is_told_as_one_that_lets_nobody_in() -> None:
    (found,) = away({"u1": "SSH error (No authentication methods available)"}, [machine()])
    assert "does not let this user in" in found.why
    assert "authorized_keys" in found.next_step


def test_a_key_that_cannot_be_kept_names_the_file() -> None:
    said = "SSH error (its host key cannot be kept in /x/known_hosts: Not a directory)"
    (found,) = away({"u1": said}, [machine()])
    assert found.cause == "its host key cannot be kept in /x/known_hosts: Not a directory"
