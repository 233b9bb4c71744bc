"""Why machines are not reached, and what to try next: one line a machine, whatever was said of its guests. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from provision.run.errors import Away
from provision.spec import Machine, Ssh
from provision.spec_ssh import machine_name

_ERRNO = re.compile(r"\[Errno [^\]]*\] ")
_AROUND = re.compile(r"(?P<kind>[^(]+?) ?\((?P<rest>.*)\)", re.DOTALL)


def away(errors: Mapping[str, str], machines: Iterable[Machine]) -> list[Away]:
    """``errors``: what pyinfra's hosts said, by their names; the machine's own word counts before its guests'."""
    found = []
    for machine in machines:
        names = [machine.host_name, *(machine.guest_host_name(guest) for guest in machine.guests)]
        said = [errors[name] for name in names if name in errors]
        if said:
            found.append(_away(machine, said[0].removeprefix(f"its machine {names[0]} cannot be reached: ")))
    return found


def ssh_command(ssh: Ssh) -> str:
    """The same way by hand."""
    words = ["ssh"]
    words += ["-p", str(ssh.port)] if ssh.port else []
    words += ["-i", ssh.key] if ssh.key else []
    words += ["-o", f"UserKnownHostsFile={ssh.known_hosts}"] if ssh.known_hosts else []
    return shlex.join([*words, f"{ssh.user}@{ssh.host}" if ssh.user else ssh.host])


def called(machine: Machine) -> str:
    """As the operator wrote it: a machine that no inventory describes has its name from its host's."""
    host = machine.ssh.host if machine.ssh else machine.name
    return host if machine_name(host) == machine.name else machine.name


def _away(machine: Machine, said: str) -> Away:
    said = _ERRNO.sub("", " ".join(said.split()))
    if machine.ssh is None:
        return Away(machine.name, machine.name, said, "see whether a shell can be started here")
    cause, look = _read(said, machine.ssh)
    unresolved = said.startswith("Could not resolve hostname")
    return Away(machine.name, called(machine), cause, f"{ssh_command(machine.ssh)}{look}", unresolved)


def _read(said: str, ssh: Ssh) -> tuple[str, str]:
    """The texts are those of pyinfra's ssh connector (3.10) and of paramiko beneath it."""
    match = _AROUND.fullmatch(said)
    kind, rest = (match["kind"], match["rest"]) if match else ("", said)
    known = ssh.known_hosts or "known_hosts"
    if kind == "Could not resolve hostname":
        return (
            f"the name {ssh.host} is not known here ({rest})",
            " says the same: correct ssh.host, or give it a Host entry in ~/.ssh/config",
        )
    if place := re.search(r"Unable to connect to port (\d+) on (.+)", rest):
        return (
            f"nothing takes a connection at {place[2]} port {place[1]}",
            " must log in: is the machine up, does its sshd listen on that port, is a firewall between?",
        )
    if "timed out" in rest or "No existing session" in rest:
        return (
            f"no answer from {ssh.host} ({rest})",
            " must log in: is the machine up, and is a firewall between?",
        )
    if kind == "Authentication error" or "No authentication methods" in rest:
        return (
            f"its sshd does not let {ssh.user or 'this user'} in ({rest})",
            " must log in without a password: put your public key into its authorized_keys, or name the key"
            " (ssh.key; one with a passphrase belongs into the agent: ssh-add)",
        )
    if "does not match" in rest:
        where = f"[{ssh.host}]:{ssh.port}" if ssh.port not in (None, 22) else ssh.host
        file = f" -f {shlex.quote(ssh.known_hosts)}" if ssh.known_hosts else ""
        return (
            f"its host key is not the one in {known}: it was installed anew, or another machine answers",
            f" says the same; where it was installed anew: ssh-keygen{file} -R {shlex.quote(where)}",
        )
    if "No host key for" in rest:
        return (
            f"its host key is not in {known}, and no other is taken",
            " shows the key: compare it with the machine's, and accept it",
        )
    if "host key cannot be kept in" in rest:
        return (
            rest,
            " keeps it where that file can be written: correct its folder, or name another file (known_hosts)",
        )
    if "banner" in rest:
        return (
            f"what answers there is no SSH server ({rest})",
            " must log in: is ssh.port the one of its sshd?",
        )
    if "rivate key" in said:
        return said, " must log in: correct ssh.key (one with a passphrase belongs into the agent: ssh-add)"
    return said, " must log in"
