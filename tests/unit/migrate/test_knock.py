"""What is heard of a source, by real connections on loopback: from the controller, and by the bash of the target."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from pyinfra.connectors.sshuserclient import client as pyinfra_client
from pyinfra.connectors.sshuserclient.config import SSHConfig

from provision.host import reachable
from provision.host.reachable import Door
from provision.migrate import knock
from provision.migrate.sides import Completed, TransportError
from provision.migrate.traffic import program
from provision.spec import Ssh
from tests.unit.migrate import preflight_pair as pairs

LOOPBACK = "127.0.0.1"


class Error500(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(500)

    def log_message(self, *words: Any) -> None:
        pass


@contextmanager
def http() -> Iterator[int]:
    with HTTPServer((LOOPBACK, 0), Error500) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join(5)


@contextmanager
def mute() -> Iterator[int]:
    """Takes connections, and says nothing: an engine that hangs."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield int(server.getsockname()[1])


@contextmanager
def silent() -> Iterator[int]:
    """Its queue is full, so nothing more is answered: what a machine without power is like."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server((LOOPBACK, 0), backlog=0))
        for _ in range(3):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        yield int(server.getsockname()[1])


@contextmanager
def closed() -> Iterator[int]:
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        yield int(one.getsockname()[1])


class There:
    """The target's machine: a shell of this one."""

    name = "kpro5"

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        return program.run(["/bin/sh", "-c", script], stdin=stdin, timeout=timeout or 60)


class Gone:
    name = "kpro5"

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        raise TransportError("the connection broke")


CASES = {
    "http": (http, "answers", "it says 'HTTP/1."),
    "mute": (mute, "answers", "it takes the connection"),
    "closed": (closed, "answers", "refuses the connection, so a machine is on"),
    "silent": (silent, "silent", "no answer within"),
}


@pytest.mark.parametrize("case", CASES)
def test_whatever_comes_back_is_an_answer_and_nothing_at_all_is_silence(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knock, "SECONDS", 1.0)
    made, state, said = CASES[case]
    with made() as port:
        here = knock.knock(LOOPBACK, port, 1.0)
        there = knock._there(There(), "chat", LOOPBACK, port)  # type: ignore[arg-type]
    assert (here[0], said in here[1]) == (state, True), here
    assert (there.state, said in there.said) == (state, True), there
    assert there.by == "kpro5"


def test_a_name_that_nobody_resolves_is_unknown_and_never_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def unresolved(*words: object, **more: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unresolved)
    state, said = knock.knock("krpo6", 22, 1.0)
    assert (state, "'krpo6' is a name that is not resolved here" in said) == ("unknown", True)


@pytest.mark.parametrize("number", ["ENETUNREACH", "EPERM", "EACCES", "EADDRNOTAVAIL"])
def test_a_controller_that_cannot_send_there_at_all_has_not_asked(
    number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    def fails(self: object, address: object) -> None:
        raise OSError(getattr(errno, number), number)

    monkeypatch.setattr(socket.socket, "connect", fails)
    assert knock.knock(LOOPBACK, 22, 1.0) == ("unknown", number)


def test_one_address_of_a_name_that_answers_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent() as dead, closed() as alive:
        rows = [(socket.AF_INET, 1, 6, "", (LOOPBACK, port)) for port in (dead, alive)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *words, **more: rows)
        assert knock.knock("kpro6", 22, 0.5)[0] == "answers"


@pytest.mark.parametrize(
    ("rc", "out", "err", "state"),
    [
        (0, "open\nHTTP/1.1 401 Unauthorized\r\n", "", "answers"),
        (124, "open\n", "", "answers"),
        (
            7,
            "",
            "kpro: connect: Connection refused\nkpro: line 1: /dev/tcp/a/1: Connection refused",
            "answers",
        ),
        (124, "", "", "silent"),
        (7, "", "kpro: connect: No route to host", "silent"),
        (7, "", "kpro: connect: Connection timed out", "silent"),
        (7, "", "kpro: connect: Network is unreachable", "unknown"),
        (7, "", "kpro: kpro6: Name or service not known", "unknown"),
        (7, "", "kpro: kpro6: Temporary failure in name resolution", "unknown"),
        (127, "", "sh: 1: timeout: not found", "unknown"),
        (1, "", "", "unknown"),
    ],
)
def test_what_the_targets_bash_says_is_read(rc: int, out: str, err: str, state: str) -> None:
    assert knock.read(rc, out, err)[0] == state


def test_a_target_that_cannot_be_asked_has_heard_nothing() -> None:
    found = knock._there(Gone(), "chat", LOOPBACK, 1)  # type: ignore[arg-type]
    assert (found.state, found.said) == ("unknown", "the connection broke")


def configured(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    config: Any = SSHConfig()
    config.parse(io.StringIO(text))
    for module in (reachable, pyinfra_client):
        monkeypatch.setattr(module, "get_ssh_config", lambda path=None: config)


def test_the_ssh_server_is_asked_where_ssh_config_says_that_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    configured(monkeypatch, "Host kpro6\n HostName 192.0.2.66\n Port 2222\nHost far\n ProxyJump gate\n")
    assert reachable.door(Ssh(host="kpro6")) == Door("192.0.2.66", 2222)
    assert reachable.door(Ssh(host="kpro6", port=22)) == Door("192.0.2.66", 22)
    assert reachable.door(Ssh(host="far")) == Door("far", 22, "gate")
    assert reachable.door(Ssh(host="other")) == Door("other", 22)


@pytest.mark.parametrize(
    ("program", "why"),
    [("echo SSH-2.0-x; read x", ""), ("exit 1", "ended"), ("read x", "was heard within")],
)
def test_through_a_proxy_only_an_ssh_server_that_is_heard_is_an_answer(
    program: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(monkeypatch, f"Host kpro6\n ProxyCommand sh -c '{program}'\n")
    said = reachable.heard(Ssh(host="kpro6"), 1.0)
    assert (why in said) if why else said == ""


def test_a_jump_host_that_does_not_answer_says_nothing_of_the_machine_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closed() as port:
        configured(
            monkeypatch, f"Host kpro6\n ProxyJump gate\nHost gate\n HostName {LOOPBACK}\n Port {port}\n"
        )
        assert "Unable to connect" in reachable.heard(Ssh(host="kpro6"), 1.0)


def asked(monkeypatch: pytest.MonkeyPatch, config: str = "", **more: Any) -> list[tuple[str, str, str]]:
    """Everything that is asked of kpro6, with nobody there: what, by whom, what came of it."""
    configured(monkeypatch, config)
    monkeypatch.setattr(knock, "knock", lambda host, port: ("silent", "nothing"))
    monkeypatch.setattr(There, "host", lambda self, script, **more: Completed(124, b"", b""), raising=True)
    source = pairs.end("source", pairs.machine("kpro6", 6, pairs.service(api_key_file="/keys/chat", **more)))
    target = pairs.end("target", pairs.machine("kpro5", 5, pairs.service(api_key_file="/keys/chat", **more)))
    return [
        (one.what, one.by, one.state)
        for one in knock.ask(source, target, There(), begun=bool(more))  # type: ignore[arg-type]
    ]


def test_ssh_and_the_service_are_asked_by_the_controller_and_by_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = pairs.machine("kpro6", 6, pairs.service()).ssh
    assert host is not None
    found = asked(monkeypatch, f"Host {host.host}\n HostName 192.0.2.66\n Port 2222\n")
    assert found == [
        ("SSH at 192.0.2.66, port 2222,", "this controller", "silent"),
        ("SSH at 192.0.2.66, port 2222,", "kpro5", "silent"),
        ("chat at 192.0.2.66, port 8000,", "this controller", "silent"),
        ("chat at 192.0.2.66, port 8000,", "kpro5", "silent"),
    ]


def test_once_the_target_may_serve_an_address_of_both_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(monkeypatch, listen="10.0.0.9")
    assert not any("10.0.0.9" in what for what, _, _ in found)
    assert any(what.startswith("chat at") for what, _, _ in found)


def test_this_very_machine_is_never_a_dead_source() -> None:
    given = pairs.machine("kpro6", 6, pairs.service()).model_copy(update={"ssh": None})
    target = pairs.end("target", pairs.machine("kpro5", 5, pairs.service()))
    (found,) = knock.ask(pairs.end("source", given), target, There(), begun=False)  # type: ignore[arg-type]
    assert found.state == "answers"
