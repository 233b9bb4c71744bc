"""Runs provcheck on another machine through the ``ssh`` program, and leaves nothing behind there.

The single file travels on standard input into an anonymous memory file of the target and is run from that.
What your ssh_config says about the name (user, port, jump host, known_hosts) holds, since it is ssh that
reads it.
"""

from __future__ import annotations

import base64
import shlex
import sys
from collections.abc import Sequence

from checks import child, pack
from checks.errors import BadInput, Unreachable
from checks.model import EXIT_FAIL, EXIT_PASS, EXIT_UNKNOWN, EXIT_USAGE, Finding, Report, Status
from checks.record import Record, parse
from checks.report import read

_NO_PYTHON, _OLD_PYTHON, _SSH_FAILED = 127, 76, 255

_LOADER = """
import os, sys
if sys.version_info < (3, 10):
    sys.stderr.write("python %d.%d is too old\\n" % sys.version_info[:2]); sys.exit({old})
left = int(sys.argv[1])
file = os.memfd_create("provcheck", 0)
while left:
    data = os.read(0, min(left, 65536))
    if not data:
        sys.stderr.write("the connection ended early\\n"); sys.exit({old})
    left -= len(data)
    while data:
        data = data[os.write(file, data):]
name = "/proc/%d/fd/%d" % (os.getpid(), file)
os.execv(sys.executable, [sys.executable, name] + sys.argv[2:])
""".replace("{old}", str(_OLD_PYTHON))

SLACK = 120.0
"""Seconds allowed beyond the command's own deadline, for ssh to connect and the file to travel."""


def call(host: str, args: list[str], deadline: float) -> bytes:
    """What ``provcheck ARGS`` prints on ``host``. Raises Unreachable when it could not be run there, BadInput when it
    ran and refused what it was given."""
    ended = _run(host, args, deadline)
    if ended.code != 0:
        raise Unreachable(
            f"provcheck did not run on {host}: {_last_words(ended)}",
            fix=_fix(ended),
        )
    return ended.stdout


def report(host: str, args: Sequence[str], deadline: float) -> Report:
    """The report of ``provcheck ARGS`` run on ``host``. Raises Unreachable when there is none to be had, BadInput when
    provcheck refused ARGS there, as it would here.

    ``args`` are a command and its options, without ``--json`` and ``--host``.
    """
    ended = _run(host, [*args, "--json", "--exit-style", "provcheck"], deadline)
    if ended.code not in (EXIT_PASS, EXIT_FAIL, EXIT_UNKNOWN) or not ended.stdout.strip():
        raise Unreachable(
            f"provcheck {args[0]} did not run on {host}: {_last_words(ended)}",
            fix=_fix(ended),
        )
    try:
        return read.parse(ended.stdout, host)
    except BadInput as error:
        cause = "a login script there may print to the standard output"
        raise Unreachable(f"{host} sent no report: {error}", cause=cause) from None


def asked(host: str, args: Sequence[str], deadline: float) -> Report:
    """As ``report``; a machine that gave none is a report too, with the one finding that says so.

    Says on the standard error what is waited for, since a test under load takes its time.
    """
    print(f"provcheck: {args[0]} runs on {host}, for at most {deadline:g} s", file=sys.stderr)  # noqa: T201
    try:
        return report(host, args, deadline)
    except Unreachable as error:
        finding = Finding(
            "node.reachable", Status.UNKNOWN, "host", str(error), cause=error.cause, fix=error.fix
        )
        return Report(args[0], (finding,), facts={"host": host})


def _run(host: str, args: Sequence[str], deadline: float) -> child.Ended:
    if not host or host.startswith("-"):
        raise BadInput(f"--host {host!r} is no host name")
    program = pack.contents()
    loader = f"import base64;exec(base64.b64decode('{base64.b64encode(_LOADER.encode()).decode()}'))"
    command = shlex.join(["python3", "-c", loader, str(len(program)), *args])
    try:
        ended = child.run(["ssh", "-T", "--", host, command], deadline + SLACK, program, detached=False)
    except FileNotFoundError:
        raise Unreachable(f"{host}: there is no ssh program here", fix="install openssh-client") from None
    if ended.timed_out:
        raise Unreachable(
            f"{host} gave no answer within {deadline + SLACK:g} s", fix=f"try 'ssh {host} true' by hand"
        )
    said = _last_words(ended)
    if ended.code == _SSH_FAILED:
        raise Unreachable(f"ssh could not reach {host}: {said}", fix=f"mend what 'ssh {host} true' says")
    if ended.code == EXIT_USAGE and (refusal := _refusal(ended)):
        raise BadInput(f"{host}: {refusal}")
    if ended.code == _NO_PYTHON:
        raise Unreachable(f"{host} has no python3: {said}", fix="install python3 (3.10 or later) there")
    return ended


def _refusal(ended: child.Ended) -> str | None:
    """Why provcheck itself refused what it was given; None when it was another program that ended so."""
    last = (ended.stderr.splitlines() or [""])[-1]
    return last.removeprefix("provcheck: ") if last.startswith("provcheck: ") else None


def _fix(ended: child.Ended) -> str:
    if ended.code == _OLD_PYTHON:
        return "it needs python3 3.10 or later on Linux"
    return "mend what the message says; it needs Linux and python3 3.10 or later"


def _last_words(ended: child.Ended) -> str:
    return " / ".join(ended.stderr.splitlines()[-3:]) or f"exit code {ended.code}"


def record(host: str, deadline: float) -> Record:
    """The evidence of another machine. Raises Unreachable when it cannot be had."""
    printed = call(host, ["_probe", "record", str(deadline)], deadline)
    try:
        return parse(printed, host)
    except BadInput as error:
        cause = "a login script there may print to the standard output"
        raise Unreachable(f"{host} sent no record: {error}", cause=cause) from None
