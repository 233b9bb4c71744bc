"""Which processors and memory a guest is kept to: those of its GPUs' nodes, and only where that is known."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from provision.guest.locality import Locality, cgroup, list_text, locality, parse_list, requests
from provision.spec import Guest
from tests.unit.plan.seen import Seen

NODES = "/sys/devices/system/node"
A, B = "42:00.0", "61:00.0"


def seen(places: Mapping[str, str | None], nodes: Mapping[int, tuple[str, int]]) -> Seen:
    """``places``: GPU and what its numa_node says; ``nodes``: cpulist and memory in kB."""
    host = Seen()
    for bdf, said in places.items():
        host.put("file", f"/sys/bus/pci/devices/0000:{bdf}/numa_node", None if said is None else f"{said}\n")
    for number, (cpus, kib) in nodes.items():
        host.put("file", f"{NODES}/node{number}/cpulist", f"{cpus}\n")
        host.put(
            "file",
            f"{NODES}/node{number}/meminfo",
            f"Node {number} MemTotal:       {kib} kB\nNode {number} MemFree:        10 kB\n",
        )
    return host


def guest(*gpus: str, numa: str = "local") -> Guest:
    return Guest.model_validate({"name": "llm", "backend": "lxc", "id": "c1", "gpus": gpus, "numa": numa})


TWO = {0: ("0-15,32-47", 1000), 1: ("16-31,48-63", 1000)}
FOUR = {number: (f"{number * 4}-{number * 4 + 3}", 1000) for number in range(4)}


@pytest.mark.parametrize(
    ("places", "nodes", "gpus", "wanted"),
    [
        ({A: "0"}, TWO, (A,), Locality("0-15,32-47", "0")),
        ({A: "1", B: "0"}, TWO, (A,), Locality("16-31,48-63", "1")),
        ({A: "3", B: "1"}, FOUR, (A, B), Locality("4-7,12-15", "1,3")),
        ({A: "2", B: "1"}, FOUR, (A, B), Locality("4-11", "1-2")),
        ({A: "1", B: "1"}, FOUR, (A, B), Locality("4-7", "1")),
    ],
)
def test_a_guest_is_kept_to_the_nodes_of_its_gpus(
    places: dict[str, str], nodes: dict[int, tuple[str, int]], gpus: tuple[str, ...], wanted: Locality
) -> None:
    assert locality(seen(places, nodes).snapshot, guest(*gpus)) == wanted


@pytest.mark.parametrize(
    ("places", "nodes", "gpus"),
    [
        ({A: "0"}, {0: ("0-63", 1000)}, (A,)),
        ({A: "-1"}, {0: ("0-63", 1000)}, (A,)),
        ({A: None}, {}, (A,)),
        ({A: "0", B: "1"}, TWO, (A, B)),
        ({}, TWO, ()),
    ],
    ids=["one node", "one node, firmware silent", "kernel without NUMA", "GPUs on all nodes", "no GPU"],
)
def test_where_there_is_nothing_to_choose_no_line_is_written(
    places: dict[str, str | None], nodes: dict[int, tuple[str, int]], gpus: tuple[str, ...]
) -> None:
    assert locality(seen(places, nodes).snapshot, guest(*gpus)) == Locality()


@pytest.mark.parametrize("said", ["-1", None, "7"])
def test_a_gpu_of_unknown_place_keeps_the_guest_nowhere_and_is_named(said: str | None) -> None:
    found = locality(seen({A: "0", B: said}, TWO).snapshot, guest(A, B))
    assert (found.cpus, found.mems) == ("", "")
    assert B in found.note
    assert A not in found.note


def test_a_guest_that_may_run_anywhere_is_kept_nowhere() -> None:
    assert locality(seen({A: "0"}, TWO).snapshot, guest(A, numa="any")) == Locality()
    assert requests(guest(A, numa="any")) == []
    assert locality(seen({A: "0"}, TWO).snapshot, guest(A)) != Locality()


def test_memory_is_not_asked_of_a_node_that_has_none() -> None:
    found = locality(seen({A: "1"}, {0: ("0-3", 1000), 1: ("4-7", 0)}).snapshot, guest(A))
    assert (found.cpus, found.mems) == ("4-7", "")
    assert "node 1 has none" in found.note


def test_a_node_without_processors_keeps_nobody() -> None:
    found = locality(seen({A: "1"}, {0: ("0-3", 1000), 1: ("", 1000)}).snapshot, guest(A))
    assert (found.cpus, found.mems) == ("", "")
    assert "has no processors" in found.note


def test_an_empty_node_is_no_node() -> None:
    """A board with one of two sockets filled lists the other one without anything."""
    assert locality(seen({A: "0"}, {0: ("0-3", 1000), 1: ("", 0)}).snapshot, guest(A)) == Locality()


@pytest.mark.parametrize("odd", ["0-", "a", "3-1", "0;1"])
def test_what_cannot_be_read_is_said_and_keeps_the_guest_nowhere(odd: str) -> None:
    found = locality(seen({A: "0"}, {**TWO, 1: (odd, 1000)}).snapshot, guest(A))
    assert (found.cpus, found.mems) == ("", "")
    assert "is not kept to the NUMA node" in found.note


def test_a_place_that_was_not_looked_at_is_said() -> None:
    assert "was not asked for" in locality(seen({}, TWO).snapshot, guest(A)).note


def test_everything_it_reads_is_asked_for() -> None:
    wanted = requests(guest(A))
    assert f"file:/sys/bus/pci/devices/0000:{A}/numa_node" in wanted
    assert {f"glob:{NODES}/node*/cpulist", f"glob:{NODES}/node*/meminfo"} <= set(wanted)


@pytest.mark.parametrize("text", ["0-3,8", "5", "0,2,4", ""])
def test_lists_are_written_as_they_are_read(text: str) -> None:
    assert list_text(parse_list(text)) == text


@pytest.mark.parametrize(
    ("controllers", "legacy", "wanted"),
    [
        ("cpuset cpu io memory pids\n", None, "cgroup2"),
        (None, "0-1\n", "cgroup"),
        ("memory\n", "0-1\n", "cgroup"),
        (None, None, None),
        ("memory\n", None, None),
    ],
)
def test_lines_go_to_the_hierarchy_that_has_the_controller(
    controllers: str | None, legacy: str | None, wanted: str | None
) -> None:
    host = Seen().put("file", "/sys/fs/cgroup/cgroup.controllers", controllers)
    host.put("file", "/sys/fs/cgroup/cpuset/cpuset.cpus", legacy)
    assert cgroup(host.snapshot) == wanted
