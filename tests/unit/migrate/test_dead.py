"""A source is taken for dead only when all that can be asked is silent; what answers is overridden by nobody's word."""

from __future__ import annotations

from typing import Any

import pytest

from provision.migrate.dead import OFF, Heard, Places, State, judge, places, served_by_target, told, without
from provision.migrate.ends import End
from provision.migrate.traffic.port import Seen
from provision.spec import Guest, Proxmox
from tests.unit.migrate import preflight_pair as pairs

SOURCE = pairs.end("source", pairs.machine("kpro6", 6, pairs.service()))
TARGET = pairs.end("target", pairs.machine("kpro5", 5, pairs.service()))


def heard(*states: State) -> list[Heard]:
    return [Heard(f"port {at},", "this controller", state, f"said {at}") for at, state in enumerate(states)]


def test_a_source_of_which_nothing_answers_is_not_refused() -> None:
    assert judge(heard("silent", "silent"), SOURCE, TARGET, off=False, way="begin") == []


@pytest.mark.parametrize("off", [False, True])
def test_a_source_that_answers_anywhere_is_refused_whatever_the_operator_says(off: bool) -> None:
    (found,) = judge(heard("silent", "answers", "silent"), SOURCE, TARGET, off=off, way="begin")
    assert "port 1, answers this controller: said 1" in found.seen
    assert OFF not in found.next_step


def test_what_could_not_be_asked_is_refused_and_stands_back_for_the_operators_word_alone() -> None:
    unknown = heard("unknown", "silent")
    (found,) = judge(unknown, SOURCE, TARGET, off=False, way="begin")
    assert "could not be asked by this controller: said 0" in found.seen
    assert OFF in found.next_step
    assert judge(unknown, SOURCE, TARGET, off=True, way="begin") == []


def test_every_reason_is_told_at_once() -> None:
    assert (
        len(judge(heard("answers", "unknown", "silent", "answers"), SOURCE, TARGET, off=False, way="begin"))
        == 3
    )


def test_the_plan_says_what_was_asked_and_that_silence_proves_little() -> None:
    asked, last = told(heard("silent"), SOURCE, TARGET, off=False)
    assert "port 0, by this controller (said 0)" in asked
    for word in ("only cut off", "answers again later", "beside kpro5", "Keep it off"):
        assert word in last
    notes = told(heard("unknown", "silent"), SOURCE, TARGET, off=True)
    assert any("could not be asked: port 0," in one and "your word that kpro6 is off" in one for one in notes)
    assert not any("your word" in one for one in told(heard("silent"), SOURCE, TARGET, off=True))


def end(*, listen: str = "127.0.0.1", **guest: Any) -> End:
    given = pairs.machine("kpro6", 6, pairs.service(listen=listen, api_key_file="/keys/chat"))
    changed = given.guests[0].model_copy(update=guest)
    one = Guest(**{**changed.model_dump(exclude_unset=True), "services": changed.services})
    return pairs.end("source", given.model_copy(update={"guests": (one,)}))


PROXMOX = {"template": "local:vztmpl/debian-12-standard_12.7-1_amd64.tar.zst", "storage": "local"}


def _proxmox(**more: Any) -> dict[str, Any]:
    return {
        "backend": "pct",
        "id": "101",
        "network": "bridge:vmbr0",
        "proxmox": Proxmox(**PROXMOX, size_gib=8, memory_mib=1024, **more),
    }


def test_clients_are_looked_for_at_the_services_own_address_and_at_its_machine() -> None:
    assert places(end(), "192.0.2.6") == Places((("192.0.2.6", 8000),))
    assert places(end(listen="0.0.0.0"), "192.0.2.6") == Places((("192.0.2.6", 8000),))
    assert places(end(listen="10.0.0.6"), "192.0.2.6").at == (("10.0.0.6", 8000), ("192.0.2.6", 8000))
    given = end(listen="0.0.0.0", **_proxmox(ip="10.0.0.7/24"))
    assert places(given, "192.0.2.6") == Places((("10.0.0.7", 8000), ("192.0.2.6", 8000)))


def test_a_guest_whose_address_nobody_wrote_down_may_answer_where_nobody_asked() -> None:
    assert (
        "its inventory does not say them" in places(end(listen="0.0.0.0", **_proxmox()), "192.0.2.6").unknown
    )
    assert places(end(**_proxmox()), "192.0.2.6").unknown == "", "it listens on loopback alone"


def test_an_address_that_moves_with_the_service_is_no_sign_of_the_source() -> None:
    one, two = Places((("10.0.0.9", 8000), ("192.0.2.6", 8000))), Places((("10.0.0.9", 8000),))
    assert without(one, two) == Places((("192.0.2.6", 8000),))
    assert without(one, Places(())) == one


def test_a_target_that_clients_are_led_to_is_not_taken_away_while_nobody_else_answers() -> None:
    (found,) = served_by_target(Seen("target", "kpro5 is up"), SOURCE, TARGET)
    assert "go to it already" in found.seen
    assert "--cold --resume" in found.next_step
    (found,) = served_by_target(Seen("unknown", "no socket"), SOURCE, TARGET)
    assert "is not known: no socket" in found.seen
    assert served_by_target(Seen("nobody", ""), SOURCE, TARGET) == []
    assert served_by_target(Seen("source", ""), SOURCE, TARGET) == []


@pytest.mark.parametrize(
    ("way", "step"),
    [
        ("begin", "provision migrate kpro6 kpro5;"),
        ("dry-run", "provision migrate kpro6 kpro5;"),
        ("resume", "kpro6 kpro5 --rollback;"),
        ("rollback", "kpro6 kpro5 --rollback, without --cold"),
        ("finalize", "kpro6 kpro5 --finalize, without --cold"),
    ],
)
def test_what_to_do_with_a_source_that_answers_depends_on_what_was_asked_for(way: str, step: str) -> None:
    (found,) = judge(heard("answers"), SOURCE, TARGET, off=False, way=way)
    assert step in found.next_step
    assert "switch kpro6 off" in found.next_step
