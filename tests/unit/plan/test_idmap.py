"""Whose ids an unprivileged container has: its own, nobody else's, and the same as long as it lives."""

from __future__ import annotations

import pytest

from checks.snapshot import CouldNotLook
from provision.guest.idmap import COUNT, Ids, Mapped, mapped
from provision.plan import Refusal
from provision.spec import Guest, Machine
from tests.unit.plan.seen import Seen

PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
BOTH = ("/etc/subuid", "/etc/subgid")


def seen(
    subuid: str | None = "", subgid: str | None = None, maps: str = "\n", passwd: str = PASSWD, code: int = 0
) -> Seen:
    """``subgid`` is like ``subuid`` unless it is given; ``maps``: what the containers' configurations say."""
    host = Seen().put("file", "/etc/subuid", subuid)
    host.put("file", "/etc/subgid", subuid if subgid is None else subgid)
    return host.put("file", "/etc/passwd", passwd).put("file", "/etc/group", "").cmd("lxc-idmaps", maps, code)


def machine(*ids: str) -> Machine:
    guests = [
        Guest(name=f"g{number}", backend="lxc", id=name, unprivileged=True) for number, name in enumerate(ids)
    ]
    return Machine(name="box", guests=guests)


def found(host: Seen, of: Machine | None = None, at: int = 0) -> Mapped:
    of = of or machine("c1")
    refusals: list[Refusal] = []
    result = mapped(of, of.guests[at], host.snapshot, refusals, "machine.guests[0]")
    assert refusals == []
    return result


@pytest.mark.parametrize(
    ("subuid", "first", "missing"),
    [
        ("", 100000, BOTH),
        (None, 100000, BOTH),
        ("root:100000:65536\n", 100000, ()),
        ("0:100000:65536\n", 100000, ()),
        ("root:231072:65536\n", 231072, ()),
        ("bob:100000:65536\n", 165536, BOTH),
        ("bob:100000:65536\nroot:165536:65536\n", 165536, ()),
        ("bob:165536:65536\nroot:100000:200000\n", 100000, ()),
        ("bob:100000:65536\nroot:100000:131072\n", 165536, ()),
        ("root:100000:1000\n", 165536, BOTH),
        ("bob:99999:2\n", 165536, BOTH),
        ("# a comment\n\nbob:one:two\nbob:100000\nroot:100000:65536\n", 100000, ()),
        ("bob:100000:0\n", 100000, BOTH),
    ],
)
def test_a_new_container_gets_ids_that_root_has_and_nobody_else_or_that_nobody_has(
    subuid: str | None, first: int, missing: tuple[str, ...]
) -> None:
    assert found(seen(subuid)) == Mapped(Ids(first), missing)


def test_ids_are_given_to_root_only_in_the_file_that_lacks_them() -> None:
    host = seen("root:100000:65536\n", "bob:100000:1\nroot:165536:65536\n")
    assert found(host) == Mapped(Ids(231072), BOTH)
    host = seen("root:100000:65536\n", "", maps="c1 u 0 100000 65536\nc1 g 0 100000 65536\n")
    assert found(host) == Mapped(Ids(100000), ("/etc/subgid",))


def test_a_user_of_the_machine_in_a_range_keeps_it_from_being_taken() -> None:
    ldap = PASSWD + "eve:x:120000:5000::/home/eve:/bin/sh\n"
    assert found(seen("", passwd=ldap)).ids == Ids(165536)
    assert found(seen("", passwd=PASSWD + "eve:x:99999:5000::/:/bin/sh\n")).ids == Ids(100000)


def test_containers_never_share_ids() -> None:
    host = seen("root:100000:65536\n", maps="other u 0 100000 65536\nother g 0 100000 65536\n")
    assert found(host) == Mapped(Ids(165536), BOTH)
    two = machine("c1", "c2")
    assert [found(seen(""), two, at).ids for at in (0, 1)] == [Ids(100000), Ids(165536)]


def test_a_container_keeps_its_ids_whatever_comes_and_goes_around_it() -> None:
    maps = "c2 u 0 165536 65536\nc2 g 0 165536 65536\n"
    two = machine("c1", "c2")
    assert found(seen("root:165536:65536\n", maps=maps), two, 1) == Mapped(Ids(165536))
    assert found(seen("", maps=maps), two, 1) == Mapped(Ids(165536), BOTH)
    assert found(seen("root:165536:65536\n", maps=maps), two, 0) == Mapped(Ids(100000), BOTH)


def test_ids_of_an_existing_container_that_somebody_else_has_too_are_refused() -> None:
    host = seen("bob:100000:65536\n", maps="c1 u 0 100000 65536\nc1 g 0 100000 65536\n")
    refusals: list[Refusal] = []
    of = machine("c1")
    mapped(of, of.guests[0], host.snapshot, refusals, "machine.guests[0]")
    assert [refusal.where for refusal in refusals] == ["machine.guests[0].unprivileged"]
    assert "bob" in refusals[0].seen


@pytest.mark.parametrize("maps", ["c1 u 0 x 65536\n", "c1 u 0 100000\n"])
def test_a_map_that_cannot_be_read_is_never_taken_for_none(maps: str) -> None:
    with pytest.raises(CouldNotLook):
        found(seen("", maps=maps))


@pytest.mark.parametrize("said", ["Permission denied\n", "", "c2 u 0 100000 65536\n"])
def test_containers_that_cannot_be_listed_are_never_taken_for_none(said: str) -> None:
    with pytest.raises(CouldNotLook, match="cannot be read"):
        found(seen("", maps=said, code=1))


def test_a_map_that_was_taken_back_counts_for_nothing() -> None:
    assert found(seen("", maps="other\n")).ids == Ids(100000)


def test_a_machine_without_free_ids_is_told_so() -> None:
    with pytest.raises(CouldNotLook, match="leave no 65536 ids"):
        found(seen("bob:100000:4294867295\n"))


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (Ids(0, 10), Ids(10, 10), False),
        (Ids(0, 11), Ids(10, 10), True),
        (Ids(10, 1), Ids(0, 100), True),
        (Ids(100, 1), Ids(0, 100), False),
    ],
)
def test_ranges_that_only_touch_do_not_overlap(one: Ids, other: Ids, overlap: bool) -> None:
    assert one.overlaps(other) is other.overlaps(one) is overlap
    assert COUNT == 65536
