"""What of an HAProxy is refused before a migration: each reason alone, all at once, and none where it is well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provision.host.transport import Completed, TransportError
from provision.migrate.traffic.haproxy import Proxy
from provision.spec import HAProxy
from tests.unit.migrate.traffic.proxy import SPEC, Line, Socket


def test_an_haproxy_as_it_should_be_is_not_refused() -> None:
    assert Socket().proxy().check() == []


def _is(**values: object) -> Callable[[Socket], None]:
    def change(socket: Socket) -> None:
        for name, value in values.items():
            setattr(socket, name, value)

    return change


def _server(name: str, **values: object) -> Callable[[Socket], None]:
    def change(socket: Socket) -> None:
        for field, value in values.items():
            setattr(socket.line(name), field, value)

    return change


def _more(backend: str, line: Line) -> Callable[[Socket], None]:
    return lambda socket: socket.servers.setdefault(backend, []).append(line)


CASES: dict[str, tuple[Callable[[Socket], None], str, str]] = {
    "no admin": (_is(level="operator"), "has the level operator", "level admin"),
    "processes": (_is(info="Nbproc: 2\n"), "several processes", "nbthread"),
    "tcp": (_is(mode="tcp"), "has mode tcp", "mode http"),
    "cookie": (_is(cookie="SRV"), "by the cookie SRV", "take 'cookie SRV …' out"),
    "source unchecked": (
        _server("kpro6", check=0),
        "server kpro6 of backend chat has no health check",
        "'server kpro6 192.0.2.6:8000 check'",
    ),
    "target unchecked": (
        _server("kpro5", check=0),
        "server kpro5 of backend chat has no health check",
        "'server kpro5 192.0.2.5:8000 check backup'",
    ),
    "target no backup": (
        _server("kpro5", backup=0),
        "kpro5 is not written as 'backup'",
        "'server kpro5 192.0.2.5:8000 check backup'",
    ),
    "source backup": (_server("kpro6", backup=1), "kpro6 is written as 'backup'", "take 'backup' out"),
    "maintenance": (_server("kpro6", admin=1), "in maintenance", "ask who did it"),
    "disabled": (_server("kpro5", admin=5), "the word 'disabled'", "take 'disabled' out"),
    "drained": (_server("kpro5", admin=8), "drained", "or which migration left it"),
    "tracked": (_server("kpro5", admin=2), "follows another server", "a 'check' of its own"),
    "unresolved": (_server("kpro5", admin=32), "its name is not resolved", "write an address"),
    "source down": (_server("kpro6", op=0), "kpro6 (192.0.2.6:8000) is down", "--cold"),
    "third": (_more("chat", Line("kpro4", "192.0.2.4:8000")), "other servers too: kpro4", "of its own"),
    "elsewhere": (_more("old", Line("x")), "192.0.2.6:8000 is served through old/x too", "take the other"),
    "same address": (_server("kpro5", address="192.0.2.6:8000"), "have one address", "of the target's"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_reason_is_told_with_what_was_seen_and_what_to_write(case: str) -> None:
    change, seen, step = CASES[case]
    socket = Socket()
    change(socket)
    found = socket.proxy().check()
    assert any(seen in one.seen and step in one.next_step for one in found), [str(one) for one in found]
    assert socket.said == [], "a look changes nothing"


def test_all_reasons_are_told_at_once() -> None:
    socket = Socket(mode="tcp", cookie="SRV", level="operator")
    socket.line("kpro6").check = socket.line("kpro5").check = 0
    socket.line("kpro5").admin = 1
    assert len(socket.proxy().check()) == 6


@pytest.mark.parametrize(
    ("spec", "seen"),
    [
        ({"backend": "caht"}, "no backend 'caht'; it has chat"),
        ({"source": "kpro7"}, "no server 'kpro7'; it has kpro6, kpro5"),
        ({"target": "kpro7"}, "no server 'kpro7'; it has kpro6, kpro5"),
    ],
)
def test_a_wrong_name_is_told_with_those_that_are_there(spec: dict[str, str], seen: str) -> None:
    found = Socket().proxy(SPEC.model_copy(update=spec)).check()
    assert any(seen in one.seen for one in found)


def test_what_a_migration_has_set_itself_is_no_reason_once_it_has_begun() -> None:
    socket = Socket()
    socket.line("kpro6").admin, socket.line("kpro5").admin = 8, 8
    assert socket.proxy().check(begun=True) == []
    socket.line("kpro5").admin = 1
    assert len(socket.proxy().check(begun=True)) == 1, "maintenance is never what kpro sets"


def test_a_dead_source_is_no_reason_for_a_cold_move() -> None:
    socket = Socket()
    socket.line("kpro6").op = 0
    assert socket.proxy().check(cold=True) == []


SIGNS: dict[str, tuple[Callable[[Socket], None], str]] = {
    "up": (_server("kpro6", op=2), "kpro6 (192.0.2.6:8000) is up in backend chat"),
    "coming up": (_server("kpro6", op=1), "is up in backend chat"),
    "stopping": (_server("kpro6", op=3), "HAProxy does not see it dead"),
    "drained and up": (_server("kpro6", op=2, admin=8), "is up and drained"),
    "sessions": (_server("kpro6", op=0, scur=3), "3 request(s) are under way at kpro6"),
}


@pytest.mark.parametrize("sign", SIGNS)
def test_a_source_that_haproxy_does_not_see_dead_is_never_taken_for_dead(sign: str) -> None:
    change, seen = SIGNS[sign]
    socket = Socket()
    change(socket)
    for found in (socket.proxy().check(cold=True), socket.proxy().lives()):
        assert any(seen in one.seen for one in found), [str(one) for one in found]
    assert socket.said == []


def test_a_source_that_is_down_without_requests_gives_no_sign_of_life() -> None:
    socket = Socket()
    socket.line("kpro6").op = 0
    socket.line("kpro6").admin = 8
    socket.line("kpro5").op = 2
    assert socket.proxy().lives() == []


def test_a_server_that_haproxy_does_not_know_tells_nothing_and_is_refused() -> None:
    for spec in ({"source": "kpro7"}, {"backend": "caht"}):
        (found,) = Socket().proxy(SPEC.model_copy(update=spec)).lives()
        assert "cannot say whether that serves" in found.seen


def test_a_haproxy_that_cannot_be_asked_is_no_proof_that_the_source_is_dead() -> None:
    (found,) = _fails(7, "Connection refused").lives()
    assert "Connection refused" in found.seen
    (found,) = _fails(255, "No route to host").lives()
    assert "could not be asked" in found.seen


def _fails(rc: int, said: str) -> Proxy:
    return Proxy(SPEC, lambda script, stdin, seconds: Completed(rc, b"", said.encode()), "proxy1")


@pytest.mark.parametrize(
    ("rc", "said", "seen"),
    [
        (6, "there is no such socket", "there is no such socket"),
        (7, "Connection refused", "Connection refused"),
        (7, "Permission denied", "Permission denied"),
        (5, "the host has neither perl nor python3 to speak to it with", "neither perl nor python3"),
        (255, "ssh: connect to host proxy1 port 22: No route to host", "could not be asked"),
    ],
)
def test_a_socket_that_does_not_answer_is_refused_with_what_was_seen(rc: int, said: str, seen: str) -> None:
    (found,) = _fails(rc, said).check()
    assert seen in found.seen
    assert found.next_step


def test_a_lost_connection_is_refused() -> None:
    def lost(script: str, stdin: bytes, seconds: float) -> Completed:
        raise TransportError("the connection broke")

    (found,) = Proxy(SPEC, lost, "proxy1").check()
    assert "the connection broke" in found.seen


def test_another_program_behind_the_socket_is_refused() -> None:
    socket = Proxy(SPEC, lambda script, stdin, seconds: Completed(0, b"2\nhi" * 4, b""), "proxy1")
    assert "no answer to show servers state" in " ".join(one.seen for one in socket.check())


def test_an_answer_that_is_cut_off_is_refused() -> None:
    (found,) = Proxy(SPEC, lambda script, stdin, seconds: Completed(0, b"900\nhi", b""), "proxy1").check()
    assert "cut off" in found.seen


def test_a_spec_that_contradicts_itself_is_refused_whole() -> None:
    with pytest.raises(ValueError, match="is the source too") as error:
        HAProxy(backend="b", source="a", target="a", on="ssh")
    assert "ssh=Ssh(host=…)" in str(error.value)
