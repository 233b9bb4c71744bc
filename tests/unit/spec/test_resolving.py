"""Names are resolved as OpenSSH would, within a bounded time, and only for what is going to be connected."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from provision.inventory import InventoryRefused, load, resolving
from provision.spec import Machine, Ssh


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts an ``ssh`` on the path that answers ``-G`` with the given lines."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def write(body: str) -> None:
        file = folder / "ssh"
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return write


@pytest.fixture
def no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def test_a_name_that_resolves_is_accepted_without_an_ssh_program(no_program: None) -> None:
    assert resolving.why_not(Ssh(host="127.0.0.1"), 5) is None


def test_a_name_that_leads_nowhere_is_told(no_program: None) -> None:
    why = resolving.why_not(Ssh(host="no-such-host.invalid"), 5)
    assert why is not None
    assert "'no-such-host.invalid' cannot be resolved from here" in why
    assert "~/.ssh/config" in why


def test_an_alias_of_ssh_config_is_followed(program: Any) -> None:
    program('[ "$1 $2 $3" = "-G -- node1" ] && printf "hostname 127.0.0.1\\nproxyjump none\\n"')
    assert resolving.why_not(Ssh(host="node1"), 5) is None
    program('printf "hostname no-such-host.invalid\\n"')
    why = resolving.why_not(Ssh(host="node1"), 5)
    assert why is not None
    assert "'node1' (which ssh_config makes 'no-such-host.invalid')" in why


@pytest.mark.parametrize("line", ["proxyjump bastion", "proxycommand nc -X 5 proxy:1080 %h %p"])
def test_a_host_behind_a_jump_needs_no_name_here(program: Any, line: str) -> None:
    program(f"cat <<'END'\nhostname no-such-host.invalid\n{line}\nEND")
    assert resolving.why_not(Ssh(host="node1"), 5) is None
    program(f"cat <<'END'\nhostname no-such-host.invalid\n{line.split()[0]} none\nEND")
    assert resolving.why_not(Ssh(host="node1"), 5) is not None


@pytest.mark.parametrize("body", ["exit 255", "echo garbage; exit 1", "sleep 30"])
def test_an_ssh_program_that_fails_leaves_the_plain_name(program: Any, body: str) -> None:
    program(body)
    assert resolving.why_not(Ssh(host="127.0.0.1"), 0.3) is None
    assert resolving.why_not(Ssh(host="no-such-host.invalid"), 0.3) is not None


def test_a_silent_resolver_is_not_waited_for(no_program: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(5))
    machines = [Machine(name=f"n{number}", ssh=Ssh(host=f"n{number}")) for number in range(5)]
    began = time.monotonic()
    told = list(resolving.unresolvable(machines, 0.3))
    assert time.monotonic() - began < 3
    assert [machine.name for machine, _ in told] == [machine.name for machine in machines]
    assert "was not resolved within 0.3 s" in told[0][1]


def test_this_machine_itself_needs_no_name() -> None:
    assert list(resolving.unresolvable([Machine(name="here")])) == []


def test_an_unresolvable_machine_is_refused_unless_the_limit_leaves_it_out(
    desk: Any, no_program: None
) -> None:
    text = """
from provision.spec import *
fleet = Fleet(machines=[
    Machine(name="a", ssh=Ssh(host="127.0.0.1")),
    Machine(name="b", ssh=Ssh(host="no-such-host.invalid")),
])
metal, guests = fleet.pyinfra_groups()
"""
    path = str(desk.write(text))
    with pytest.raises(InventoryRefused) as refused:
        load(path)
    (reason,) = refused.value.reasons
    assert reason.startswith("fleet.machines[1].ssh.host: 'no-such-host.invalid' cannot be resolved")
    assert reason.endswith("(inventories/node1.py:5)")
    assert load(path, ["a"])
    assert load(path, names=False)
    with pytest.raises(InventoryRefused):
        load(path, ["b"])
