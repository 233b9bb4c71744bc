"""The answers of HAProxy's runtime API, as its management guide has them, and answers that are none."""

from __future__ import annotations

import pytest

from provision.migrate.traffic import runtime
from provision.migrate.traffic.runtime import NotRead, Server, backend
from tests.unit.migrate.traffic.proxy import STATES, STATS, Line, Socket


def read(socket: Socket) -> runtime.Backend:
    found = backend("chat", socket._answer("show servers state"), socket._answer("show stat"))
    assert found is not None
    return found


def test_servers_are_read_with_what_is_set_on_them_and_what_their_check_said() -> None:
    socket = Socket(cookie="SRV", mode="tcp")
    socket.line("kpro6").scur, socket.line("kpro6").stot = 3, 41
    be = read(socket)
    assert (be.mode, be.cookie) == ("tcp", "SRV")
    assert be.server("kpro6") == Server(
        "kpro6", "192.0.2.6:8000", 2, 0, True, backup=False, sessions=41, open=3, queued=0
    )
    spare = be.server("kpro5")
    assert spare is not None
    assert (spare.backup, spare.healthy, spare.last_check) == (True, False, "L4CON Connection refused")
    assert be.server("kpro4") is None


def test_a_backend_that_is_not_there_is_none_and_those_that_are_can_be_told() -> None:
    states, stats = Socket()._answer("show servers state"), Socket()._answer("show stat")
    assert backend("nope", states, stats) is None
    assert runtime.backends(states) == ["chat"]


@pytest.mark.parametrize(
    ("op", "admin", "usable", "drained", "words"),
    [
        (2, 0, True, False, "is up"),
        (1, 0, True, False, "is up"),
        (0, 0, False, False, "is down"),
        (3, 0, False, False, "is down"),
        (2, 8, False, True, "is up and drained"),
        (0, 1, False, False, "is down and in maintenance"),
        (0, 5, False, False, "in maintenance"),
        (2, 4, True, False, "is up"),
        (2, 12, False, True, "drained"),
        (2, 16, False, False, "drained"),
        (0, 2, False, False, "in maintenance"),
        (0, 32, False, False, "its name is not resolved"),
        (2, 9, False, False, "in maintenance and drained"),
    ],
)
def test_a_server_is_used_only_when_it_is_up_and_nothing_is_set_on_it(
    op: int, admin: int, usable: bool, drained: bool, words: str
) -> None:
    server = Server("s", "192.0.2.6:8000", op, admin, True)
    assert (server.usable, server.drained) == (usable, drained)
    assert words in server.words()


@pytest.mark.parametrize(
    ("source", "target", "get"),
    [
        ((2, 0), (0, 0), {"kpro6"}),
        ((2, 0), (2, 0), {"kpro6"}),
        ((0, 0), (2, 0), {"kpro5"}),
        ((2, 8), (2, 0), {"kpro5"}),
        ((2, 8), (2, 8), set()),
        ((2, 0), (2, 8), {"kpro6"}),
        ((0, 0), (0, 0), set()),
    ],
)
def test_a_backup_gets_requests_only_while_no_other_server_can(
    source: tuple[int, int], target: tuple[int, int], get: set[str]
) -> None:
    socket = Socket()
    (socket.line("kpro6").op, socket.line("kpro6").admin) = source
    (socket.line("kpro5").op, socket.line("kpro5").admin) = target
    assert read(socket).receivers() == get


def test_two_servers_without_backup_both_get_requests() -> None:
    socket = Socket({"chat": [Line("kpro6"), Line("kpro5")]})
    assert read(socket).receivers() == {"kpro6", "kpro5"}


@pytest.mark.parametrize(
    ("states", "stats"),
    [
        ("", STATS),
        ("Permission denied\n", STATS),
        ("2\n" + STATES[2:], STATS),
        (STATES + "3 chat 1 kpro6 192.0.2.6 2\n", STATS + "chat,BACKEND,0\n"),
        (STATES, "Unknown command\n"),
        (STATES, ""),
    ],
)
def test_what_is_no_such_answer_is_never_taken_for_an_empty_one(states: str, stats: str) -> None:
    with pytest.raises(NotRead):
        backend("chat", states, stats)


def test_answers_that_do_not_tell_of_the_same_servers_are_not_used() -> None:
    with pytest.raises(NotRead, match="show stat has none"):
        backend("chat", Socket()._answer("show servers state"), STATS + "chat,BACKEND,0\n")


def test_a_number_that_is_none_is_not_used() -> None:
    states = Socket()._answer("show servers state").replace("192.0.2.6 2 0", "192.0.2.6 2 x")
    with pytest.raises(NotRead, match="another way than expected"):
        backend("chat", states, Socket()._answer("show stat"))


def test_a_column_is_found_by_its_name_wherever_a_release_puts_it() -> None:
    stats = Socket()._answer("show stat")
    rows = [line.split(",") for line in stats[2:].splitlines()]
    turned = "# pxname,svname," + "\n".join(
        ",".join([*row[:2], *reversed(row[2:])]) if index else ",".join(reversed(row[2:]))
        for index, row in enumerate(rows)
    )
    found = backend("chat", Socket()._answer("show servers state"), turned)
    assert found == read(Socket())


def test_numbers_of_show_info() -> None:
    assert runtime.number_of("Name: HAProxy\nNbproc: 4\n", "Nbproc") == 4
    assert runtime.number_of("Name: HAProxy\n", "Nbproc") is None
    assert runtime.number_of("Nbproc: many\n", "Nbproc") is None
