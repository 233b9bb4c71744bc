"""The source of a cold migration is asked whether it lives: by this controller, and by the target's machine."""

from __future__ import annotations

import errno
import shlex
import socket
import threading
from typing import Any

from provision.host import reachable
from provision.host.reachable import Door
from provision.migrate.dead import Heard, Places, State, places, without
from provision.migrate.ends import End
from provision.migrate.sides import Side, TransportError

SECONDS = 4.0
"""For one connection, and for one name: a machine in another country answers in less than one."""

HERE = "this controller"

_SILENT = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EHOSTDOWN)
_ON = (errno.ECONNREFUSED, errno.ECONNRESET)
_REFUSED = "it refuses the connection, so a machine is on at that address"

_ASK = (
    'exec 3<>"/dev/tcp/$1/$2" || exit 7; echo open; '
    'printf "GET /health HTTP/1.0\\r\\nHost: $1\\r\\n\\r\\n" >&3; IFS= read -r -t 2 line <&3; printf "%s\\n" "$line"'
)
"""For bash, which opens a connection by itself: nothing is installed on the target for this."""


def ask(source: End, target: End, there: Side, *, begun: bool) -> list[Heard]:
    """All that can be asked of the source. ``begun``: the target may serve already. Raises nothing."""
    ssh = source.machine.ssh
    if ssh is None:
        return [Heard("this very machine", HERE, "answers", "the inventory has no ssh for it")]
    try:
        door = reachable.door(ssh)
    except (OSError, ValueError) as error:
        return [Heard(f"SSH at {ssh.host}", HERE, "unknown", f"~/.ssh/config cannot be read: {error}")]
    found = [_ssh_here(source, door)]
    if not door.through:
        found.append(_there(there, "SSH", door.host, door.port))
    service = places(source, door.host)
    if begun:
        service = without(service, _of_target(target))
    for host, port in service.at:
        found += [_here(source.service.name, host, port), _there(there, source.service.name, host, port)]
    if service.unknown:
        found.append(Heard(f"{source.service.name} in its guest", HERE, "unknown", service.unknown))
    return found


def _of_target(target: End) -> Places:
    try:
        return places(target, reachable.door(target.machine.ssh).host if target.machine.ssh else "127.0.0.1")
    except (OSError, ValueError):
        return Places(())


def _ssh_here(source: End, door: Door) -> Heard:
    ssh = source.machine.ssh
    if ssh is None or not door.through:
        return _here("SSH", door.host, door.port)
    why = reachable.heard(ssh, SECONDS)
    what = f"SSH at {door.host}, port {door.port}, through {door.through},"
    return Heard(what, HERE, "unknown" if why else "answers", why or "an SSH server is there")


def _here(name: str, host: str, port: int) -> Heard:
    return Heard(_what(name, host, port), HERE, *knock(host, port))


def _what(name: str, host: str, port: int) -> str:
    return f"{name} at {host}, port {port},"


def knock(host: str, port: int, seconds: float = SECONDS) -> tuple[State, str]:
    """What one port says, at every address of the name; an address that cannot be gone to from here tells nothing."""
    addresses = _addresses(host, port, seconds)
    if isinstance(addresses, str):
        return "unknown", addresses
    heard = [_one(family, address, seconds) for family, address in addresses]
    for state in ("answers", "silent", "unknown"):
        if said := [text for one, text in heard if one == state]:
            return state, said[0]
    return "unknown", f"{host!r} has no address"


def _addresses(host: str, port: int, seconds: float) -> list[tuple[int, Any]] | str:
    """Or why there is none. A resolver that is silent is not waited for."""
    answer: list[list[tuple[int, Any]] | str] = []

    def resolve() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer.append(list(dict.fromkeys((int(row[0]), row[4]) for row in rows)))
        except OSError as error:
            answer.append(f"{host!r} is a name that is not resolved here ({error.strerror or error})")
        except UnicodeError:
            answer.append(f"{host!r} is no host name")

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(seconds)
    return answer[0] if answer else f"{host!r} was not resolved within {seconds:g} s"


def _one(family: int, address: Any, seconds: float) -> tuple[State, str]:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(seconds)
            sock.connect(address)
            return "answers", _greeting(sock)
    except TimeoutError:
        return "silent", f"no answer within {seconds:g} s"
    except OSError as error:
        if error.errno in _ON:
            return "answers", _REFUSED
        return "silent" if error.errno in _SILENT else "unknown", error.strerror or str(error)


def _greeting(sock: socket.socket) -> str:
    """The first line that is said, by a server of HTTP or SSH; for people."""
    try:
        sock.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        return _line(sock.recv(200).decode("latin-1"))
    except OSError:
        return _line("")


def _line(said: str) -> str:
    first = "".join(char for char in said.partition("\n")[0] if char.isprintable()).strip()
    return f"it says {first[:60]!r}" if first else "it takes the connection"


def _there(side: Side, name: str, host: str, port: int) -> Heard:
    words = ["timeout", f"{SECONDS + 1:g}", "bash", "-c", _ASK, "kpro", host, str(port)]
    what = _what(name, host, port)
    try:
        done = side.host(f"LC_ALL=C {shlex.join(words)}", timeout=SECONDS + 30)
    except TransportError as error:
        return Heard(what, side.name, "unknown", str(error))
    return Heard(what, side.name, *read(done.rc, done.text, done.error_text))


def read(rc: int, out: str, err: str) -> tuple[State, str]:
    """What the target's machine heard, by the words of its bash in the C locale. Pure."""
    opened, _, said = out.partition("\n")
    if opened.strip() == "open":
        return "answers", _line(said)
    if "Connection refused" in err or "Connection reset" in err:
        return "answers", _REFUSED
    if rc == 124 or "timed out" in err:
        return "silent", f"no answer within {SECONDS + 1:g} s"
    if "No route to host" in err:
        return "silent", "No route to host"
    lines = [line.rpartition(": ")[2] for line in err.splitlines() if line.strip()]
    return "unknown", lines[0] if lines else f"bash ended with {rc}"
