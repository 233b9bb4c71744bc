"""Act of step 8: the machine, or the guest, gets model files by itself. The controller hands over what is to be fetched
and a token, on standard input, and listens.
"""

from __future__ import annotations

import json
import shlex
from io import BytesIO
from typing import Any

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.host import transport
from provision.hub import controller, pack
from provision.hub.order import Order
from provision.hub.problems import Problem
from provision.run.errors import ActFailed
from provision.stack.fetching import Fetch

FOLDER = "/opt/kpro"
_UNSET = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def fetch(host: Host, wanted: Fetch, say: Voice) -> None:
    """Has the files fetched, verified and put in place. Goes on where an earlier try ended. Raises ActFailed."""
    try:
        order = order_of(wanted)
    except Problem as problem:
        raise ActFailed(f"{wanted.directory}: {problem}") from None
    run(host, order, put_program(host), say)


def order_of(wanted: Fetch) -> Order:
    """Raises Problem when token or endpoint cannot be used."""
    model = wanted.model
    if model.origin == "path":
        return Order(model.repo, model.revision, wanted.directory, wanted.role, path=model.path)
    return Order(
        model.repo,
        model.revision,
        wanted.directory,
        wanted.role,
        files=model.files or None,
        endpoint=controller.endpoint_of(wanted.hub),
        token=controller.token_of(model, wanted.hub),
    )


def put_program(host: Host) -> str:
    """Where the program lies on the host now; others of its kind are removed there."""
    local = pack.packed()
    path = f"{FOLDER}/{local.name}"
    wanted = local.name.removeprefix("kpro-hub-").removesuffix(".pyz")
    there = transport.run(host, f"sha256sum -- {shlex.quote(path)}")
    if there.ok and there.text.startswith(wanted):
        return path
    shell.run(host, f"install -d -m 755 {FOLDER}", f"making {FOLDER}")
    shell.put_file(host, str(local), path, mode="755")
    others = f"find {FOLDER} -maxdepth 1 -name 'kpro-hub-*.pyz' ! -name {shlex.quote(local.name)} -delete"
    shell.run(host, others, f"removing older programs in {FOLDER}")
    return path


def run(host: Host, order: Order, program: str, say: Voice) -> None:
    """Runs the program on the host and repeats what it says. Raises ActFailed."""
    unset = " ".join(f"-u {name}" for name in _UNSET)
    # What the plan saw may be another machine by now: an older Python would fail somewhere inside.
    script = (
        "python3 -c 'import sys, ssl; sys.exit(sys.version_info < (3, 11))' || "
        "{ echo 'python3 is missing, older than 3.11 or has no ssl' >&2; exit 1; }\n"
        f"exec env {unset} python3 -I -B {shlex.quote(program)}"
    )
    if not host.name.startswith("@guest/"):
        script = shell.BUSY_PREFIX + script
    said, errors = Said(say), bytearray()
    try:
        source = BytesIO(order.to_json().encode())
        done = transport.execute(host, script, source, said.feed, errors.extend).finish(b"", errors)
    except OSError as error:
        raise ActFailed(
            f"fetching {order.repo}: {error}\nWhat arrived is kept; the next run waits for what still works there, and "
            "goes on"
        ) from error
    if said.problem is not None:
        raise ActFailed(f"{order.directory}: {said.problem}")
    if not done.ok or not said.done:
        raise ActFailed(f"fetching {order.repo} ended with {done.rc}:\n{shell.tail(done)}")


class Said:
    """Lines of JSON as they come, in pieces."""

    def __init__(self, say: Voice) -> None:
        self._say, self._rest = say, b""
        self.problem: Problem | None = None
        self.done = False

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line.decode(errors="replace"))

    def _line(self, line: str) -> None:
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError:
            return
        if "say" in message:
            self._say(str(message["say"]))
        elif "problem" in message:
            self.problem = Problem(**message["problem"])
        elif "done" in message:
            self.done = True
