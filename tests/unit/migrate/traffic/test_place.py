"""The addresses of HAProxy's servers beside those of the two ends, and a drain that an earlier move has left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provision.migrate.traffic.port import Known
from tests.unit.migrate.traffic.proxy import SPEC, Line, Socket

KNOWN = Known(
    {"source": "kpro6", "target": "kpro5"},
    {"source": frozenset({"192.0.2.6", "172.17.0.1"}), "target": frozenset({"192.0.2.5", "172.17.0.1"})},
    {"source": 8000, "target": 8000},
)
LEFT = "migration 20261130T120000Z-a1b2c3 of kpro moved chat from kpro5 to kpro6"


def at(source: str, target: str, *, up: bool = True) -> Socket:
    lines = [Line("kpro6", source, op=2 if up else 0), Line("kpro5", target, op=0, backup=1)]
    return Socket({"chat": lines})


def test_servers_that_fit_both_ends_are_neither_refused_nor_told() -> None:
    proxy = at("192.0.2.6:8000", "192.0.2.5:8000").proxy()
    assert proxy.check(known=KNOWN) == []
    assert proxy.notes(KNOWN) == []


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (
            "192.0.2.6:8000",
            "192.0.2.5:8001",
            ("kpro5 (192.0.2.5:8001)", "the service's own port on kpro5 is 8000"),
        ),
        (
            "192.0.2.6:9000",
            "192.0.2.5:8000",
            ("kpro6 (192.0.2.6:9000)", "own port on kpro6 is 8000", "proven now"),
        ),
        ("192.0.2.6:8000", "192.0.2.6:9000", ("192.0.2.6 is none of the addresses that are known of kpro5",)),
        (
            "192.0.2.6:8000",
            "198.51.100.1:8000",
            ("198.51.100.1 is none of the addresses that are known of kpro5",),
        ),
        ("192.0.2.6:8000", "198.51.100.1:80", ("own port on kpro5 is 8000, and 198.51.100.1 is none",)),
    ],
)
def test_a_port_or_an_address_that_is_not_known_may_be_a_forward_and_is_told(
    source: str, target: str, words: tuple[str, ...]
) -> None:
    proxy = at(source, target).proxy()
    assert proxy.check(known=KNOWN) == []
    (note,) = proxy.notes(KNOWN)
    assert [word for word in words if word not in note] == [], note


def test_an_end_whose_addresses_nobody_knows_is_not_said_to_be_elsewhere() -> None:
    known = replace(KNOWN, addresses={"source": frozenset(), "target": frozenset()})
    assert at("192.0.2.6:8000", "192.0.2.5:8000").proxy().notes(known) == []


@pytest.mark.parametrize("up", [True, False])
def test_servers_that_are_swapped_are_said_to_be_and_nobody_is_asked_to_bring_one_up(up: bool) -> None:
    proxy = at("192.0.2.5:8000", "192.0.2.6:8000", up=up).proxy()
    (found,) = proxy.check(known=KNOWN)
    assert (
        "the two servers look swapped: kpro6 (192.0.2.5:8000) is the service on kpro5, the target"
        in found.seen
    )
    assert found.next_step == "write source='kpro5', target='kpro6' into the target's inventory"


def test_one_server_alone_at_the_other_end_is_refused_with_both_ways_out() -> None:
    found = at("192.0.2.5:8000", "198.51.100.1:8000", up=False).proxy().check(known=KNOWN)
    assert [one.where for one in found] == ["migration.traffic.source"]
    assert "is the service on kpro5, the target" in found[0].seen
    assert "swapped? else write the address of kpro6" in found[0].next_step
    found = at("192.0.2.6:8000", "192.0.2.6:8000").proxy().check(known=KNOWN)
    assert found[0].where == "migration.traffic.target"


def test_an_address_that_both_machines_have_tells_nothing() -> None:
    assert at("172.17.0.1:8000", "192.0.2.5:8000").proxy().check(known=KNOWN) == []


@pytest.mark.parametrize("address", ["-:0", "192.0.2.5:0", "kpro5.example:8000"])
def test_a_server_without_an_address_that_can_be_asked_is_refused(address: str) -> None:
    found = at("192.0.2.6:8000", address).proxy().check(known=KNOWN)
    assert any("none with a port" in one.seen and one.where.endswith(".target") for one in found)


def drained(role: str, *, up: bool) -> Socket:
    socket = at("192.0.2.6:8000", "192.0.2.5:8000")
    line = socket.line("kpro6" if role == "source" else "kpro5")
    line.admin, line.op = 8, 2 if up else 0
    return socket


@pytest.mark.parametrize("role", ["source", "target"])
@pytest.mark.parametrize("up", [True, False])
def test_a_drain_that_kpro_itself_has_left_is_its_own_and_told_once(role: str, up: bool) -> None:
    socket = drained(role, up=up)
    (found,) = socket.proxy().check(known=replace(KNOWN, left={role: LEFT}))  # type: ignore[dict-item]
    assert found.why.startswith(f"{LEFT}, and drained it for that")
    assert "somebody" not in str(found)
    server = SPEC.source if role == "source" else SPEC.target
    assert f"set server chat/{server} state ready" in found.next_step


@pytest.mark.parametrize("up", [True, False])
def test_a_drain_that_nobody_knows_of_is_somebody_s_and_told_once(up: bool) -> None:
    for known in (KNOWN, replace(KNOWN, left={"target": LEFT}), None):
        (found,) = drained("source", up=up).proxy().check(known=known)
        assert "somebody set that" in found.why
        assert "set server chat/kpro6 state ready" in found.next_step


def test_a_drain_is_of_the_machine_that_the_server_leads_to_and_not_of_its_name() -> None:
    socket = at("192.0.2.5:8000", "192.0.2.6:8000", up=False)
    socket.line("kpro6").admin = 8
    found = socket.proxy().check(known=replace(KNOWN, left={"target": LEFT}))
    assert ["swapped" in one.seen for one in found] == [True, False]
    assert found[1].why.startswith(LEFT)


def test_maintenance_is_never_what_kpro_has_left() -> None:
    socket = drained("source", up=False)
    socket.line("kpro6").admin = 1
    (found,) = socket.proxy().check(known=replace(KNOWN, left={"source": LEFT}))
    assert "somebody set that" in found.why


def test_the_end_tells_of_the_drain_that_is_left_and_only_where_one_is() -> None:
    assert any(
        "chat/kpro6 is still drained" in one for one in drained("source", up=False).proxy().afterwards()
    )
    socket = at("192.0.2.6:8000", "192.0.2.5:8000")
    assert len(socket.proxy().afterwards()) == 1
    socket.servers = {"other": []}
    assert len(socket.proxy().afterwards()) == 1, "a proxy that cannot be asked is no reason to tell nothing"


def test_a_door_is_the_server_as_haproxy_itself_has_it() -> None:
    proxy = at("192.0.2.6:8000", "192.0.2.5:8000").proxy()
    door = proxy.door("source", led=False)
    assert (door.at.host, door.at.port, door.at.tls, door.up, door.host) == (
        "192.0.2.6",
        8000,
        "",
        True,
        "proxy1",
    )
    assert not proxy.door("target", led=True).up
