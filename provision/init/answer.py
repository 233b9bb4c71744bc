"""``provision init``: its arguments read, its outcome told."""

from __future__ import annotations

import socket
from pathlib import Path

from pydantic import ValidationError

from checks.snapshot import CouldNotLook
from provision.init import describe
from provision.init.run import Asked, init
from provision.printable import say_on_stderr
from provision.run.commands import Answer
from provision.run.errors import EXIT_DONE, RunError
from provision.spec import Ssh
from provision.spec_ssh import ssh_of


def answer(
    host: str,
    name: str | None,
    output: Path | None,
    port: int | None,
    key: str | None,
    known_hosts: str | None,
    baseline: bool,
) -> Answer:
    """Raises ValueError for arguments that are none, RunError for everything that keeps it from looking."""
    ask = asked(host, name, output, port, key, known_hosts, baseline)
    try:
        found = init(ask, say_on_stderr)
    except FileExistsError as error:
        raise ValueError(str(error)) from error
    except CouldNotLook as error:
        raise RunError(f"{host} could not be described: {error}") from error
    machine = found.machine
    for remark in found.general:
        say_on_stderr(f"note: {remark}")
    for guest in machine.guests:
        say_on_stderr(f"{guest.backend} {guest.id} ({guest.name}): {len(guest.gpus)} GPU(s)")
        for remark in found.at.get(id(guest), []):
            say_on_stderr(f"    note: {remark}")
        for service in guest.services:
            rate = f", {service.baseline.decode_tok_s:g} tok/s" if service.baseline else ""
            engine = f"{service.engine.kind} {service.engine.version}"
            say_on_stderr(f"    {service.unit}: {engine}, {service.model.repo}, port {service.port}{rate}")
            for remark in found.at.get(id(service), []):
                say_on_stderr(f"        note: {remark}")
    say_on_stderr(f"written: {ask.output}; look at it, then: provision plan {ask.output}")
    return Answer(EXIT_DONE, {"file": str(ask.output), "machine": machine.model_dump(mode="json")})


def asked(
    host: str,
    name: str | None,
    output: Path | None,
    port: int | None,
    key: str | None,
    known_hosts: str | None,
    baseline: bool,
) -> Asked:
    """Raises ValueError with all that is wrong."""
    local = host == "@local"
    ssh = None if local else ssh_of(host)
    wrong = []
    if not local and ssh is None:
        wrong.append(f"{host!r} is no host: give [user@]host[:port] for ssh, or @local for this machine")
    if local and (port or key or known_hosts):
        wrong.append("@local is this machine: --port, --key and --known-hosts do not go with it")
    if ssh is not None and ssh.port and port and ssh.port != port:
        wrong.append(f"{host} and --port {port} are two ports of its sshd: give one")
    chosen = name or describe.name_of(ssh.host if ssh is not None else socket.gethostname())
    if chosen != describe.name_of(chosen):
        wrong.append(f"--name {chosen!r}: lower-case letters, digits and dashes")
    if output is not None and output.suffix != ".py":
        wrong.append(f"--output {output}: an inventory is a Python file, so its name ends in .py")
    if output is not None and not output.absolute().parent.is_dir():
        wrong.append(f"--output {output}: the folder {output.parent} is not there: make it first")
    if ssh is not None:
        try:
            ssh = Ssh(host=ssh.host, user=ssh.user, port=port or ssh.port, key=key, known_hosts=known_hosts)
        except ValidationError as error:
            wrong += [f"--{'-'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    if wrong:
        raise ValueError("\n".join(wrong))
    return Asked(ssh, chosen, output or Path("inventories") / f"{chosen}.py", baseline)
