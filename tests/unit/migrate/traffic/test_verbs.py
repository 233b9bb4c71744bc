"""The verbs of an HAProxy: what they set, what they look at, that twice is once, and what of others they leave."""

from __future__ import annotations

import pytest

from provision.migrate.traffic.port import TrafficError
from tests.unit.migrate.traffic.proxy import Socket


def warm() -> Socket:
    socket = Socket()
    socket.line("kpro5").op = 2
    return socket


def admins(socket: Socket) -> tuple[int, int]:
    return socket.line("kpro6").admin, socket.line("kpro5").admin


def test_requests_are_led_over_and_back_and_nobody_is_served_by_both() -> None:
    socket, drain, ready = warm(), "set server chat/{} state drain", "set server chat/{} state ready"
    proxy = socket.proxy()
    assert proxy.hold().who == "source"
    assert proxy.drain().who == "nobody"
    assert proxy.switch().who == "target"
    assert proxy.back().who == "source"
    assert proxy.release().who == "source"
    assert socket.said == [
        drain.format("kpro5"),
        drain.format("kpro6"),
        ready.format("kpro5"),
        ready.format("kpro6"),
        drain.format("kpro5"),
        ready.format("kpro5"),
    ]
    assert admins(socket) == (0, 0)


@pytest.mark.parametrize("verb", ["hold", "drain", "switch", "back", "release"])
def test_a_verb_that_is_called_again_sets_nothing(verb: str) -> None:
    socket = warm()
    first = getattr(socket.proxy(), verb)()
    before = list(socket.said)
    assert getattr(socket.proxy(), verb)() == first
    assert socket.said == before


@pytest.mark.parametrize("verb", ["drain", "switch"])
def test_nobody_is_led_off_before_the_target_passes_its_health_check(verb: str) -> None:
    socket = warm()
    socket.line("kpro5").op = 0
    with pytest.raises(TrafficError, match="after 10 s it is not so that kpro5 passes its health check"):
        getattr(socket.proxy(), verb)()
    assert socket.line("kpro6").admin == 0


@pytest.mark.parametrize(
    ("verb", "server"),
    [
        ("hold", "kpro5"),
        ("drain", "kpro6"),
        ("drain", "kpro5"),
        ("switch", "kpro5"),
        ("back", "kpro6"),
        ("release", "kpro5"),
    ],
)
def test_a_server_that_somebody_else_took_off_is_not_touched(verb: str, server: str) -> None:
    socket = warm()
    socket.line(server).admin = 1
    with pytest.raises(TrafficError, match="somebody else did that, and it is left as it is"):
        getattr(socket.proxy(), verb)()
    assert socket.line(server).admin == 1
    assert socket.said == []


def test_a_target_that_somebody_else_took_off_keeps_nobody_from_going_back() -> None:
    socket = warm()
    socket.proxy().switch()
    socket.line("kpro5").admin = 1
    assert socket.proxy().back().who == "source"
    assert admins(socket) == (0, 1)


def test_clients_that_something_keeps_at_the_source_are_noticed() -> None:
    socket = warm()
    socket.line("kpro6").grows = 1
    with pytest.raises(TrafficError, match=r"request\(s\) came to kpro6 .* after it was drained"):
        socket.proxy().drain()


def test_requests_that_are_still_under_way_are_told() -> None:
    socket = warm()
    socket.line("kpro6").scur = 2
    assert "2 request(s) are still under way at kpro6" in socket.proxy().drain().said


def test_a_command_that_is_refused_is_told_with_the_answer() -> None:
    socket = warm()
    socket.refuses = "Permission denied\n"
    with pytest.raises(TrafficError, match="Permission denied"):
        socket.proxy().hold()


def test_going_back_does_not_wait_for_a_source_that_has_yet_to_start() -> None:
    socket = warm()
    socket.line("kpro6").op, socket.line("kpro6").admin = 0, 8
    assert socket.proxy().back().who == "nobody"
    with pytest.raises(TrafficError, match="source gets the requests"):
        socket.proxy().settled("source", 3)
    socket.line("kpro6").op = 2
    assert socket.proxy().settled("source", 3).who == "source"


def test_the_target_is_not_let_go_while_it_would_get_the_requests() -> None:
    socket = warm()
    socket.line("kpro6").op, socket.line("kpro5").admin = 0, 8
    with pytest.raises(TrafficError, match="without its drain kpro5 would get requests"):
        socket.proxy().release()
    assert socket.line("kpro5").admin == 8


def test_a_restart_of_the_proxy_before_the_drain_is_made_good_by_the_drain() -> None:
    socket = warm()
    socket.proxy().hold()
    socket.line("kpro5").admin = 0
    assert socket.proxy().drain().who == "nobody"
    assert admins(socket) == (8, 8)


def test_after_the_source_is_down_a_restart_of_the_proxy_changes_nothing() -> None:
    socket = warm()
    socket.proxy().switch()
    socket.line("kpro6").op = socket.line("kpro6").admin = 0
    assert socket.proxy().state().who == "target"
    assert socket.proxy().switch().who == "target"
    assert socket.line("kpro6").admin == 0


def test_what_cannot_be_looked_at_is_unknown() -> None:
    socket = warm()
    socket.servers = {"other": []}
    seen = socket.proxy().state()
    assert seen.who == "unknown"
    assert "no backend chat" in seen.said


def test_both_getting_requests_proves_nothing() -> None:
    socket = warm()
    socket.line("kpro5").backup = 0
    assert socket.proxy().state().who == "unknown"


def test_what_to_take_out_of_the_configuration_is_told_for_the_end() -> None:
    (line,) = warm().proxy().afterwards()
    assert "remove the line of server kpro6" in line
    assert "'backup' from the line of server kpro5" in line
