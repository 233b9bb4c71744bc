"""What ``--limit`` names, and that one which names nothing is refused instead of doing nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.inventory import Inventory, InventoryRefused
from provision.spec import Guest, Machine, Ssh


def _machine(name: str, *guests: str, ssh: bool = True) -> Machine:
    return Machine(
        name=name,
        ssh=Ssh(host=name) if ssh else None,
        guests=tuple(Guest(name=guest, backend="lxc", id=f"{name}-{guest}") for guest in guests),
    )


INVENTORY = Inventory(
    Path("inventories/house.py"),
    (_machine("node1", "llm", "tools"), _machine("node2", "llm"), _machine("here", "demo", ssh=False)),
    {"canary": frozenset({"node2", "@guest/node2/llm"})},
)
ALL = [
    "node1",
    "node2",
    "@local",
    "@guest/node1/llm",
    "@guest/node1/tools",
    "@guest/node2/llm",
    "@guest/@local/demo",
]


@pytest.mark.parametrize(
    ("limit", "hosts"),
    [
        ([], ALL),
        (["all"], ALL),
        (["house"], ALL),
        (["metal"], ["node1", "node2", "@local"]),
        (["guests"], ALL[3:]),
        (["canary"], ["node2", "@guest/node2/llm"]),
        (["node2"], ["node2", "@guest/node2/llm"]),
        (["here"], ["@local", "@guest/@local/demo"]),
        (["@local"], ["@local", "@guest/@local/demo"]),
        (["tools"], ["@guest/node1/tools"]),
        (["llm"], ["@guest/node1/llm", "@guest/node2/llm"]),
        (["@guest/node1/*"], ["@guest/node1/llm", "@guest/node1/tools"]),
        (["node?"], ["node1", "node2", "@guest/node1/llm", "@guest/node1/tools", "@guest/node2/llm"]),
        (["tools", "node2"], ["node2", "@guest/node1/tools", "@guest/node2/llm"]),
    ],
)
def test_a_limit_names_machines_guests_and_groups(limit: list[str], hosts: list[str]) -> None:
    assert list(INVENTORY.selected(limit).host_names) == hosts


def test_the_machine_of_a_guest_alone_is_connected_and_not_worked_on() -> None:
    selection = INVENTORY.selected(["tools"])
    assert selection.metal == ()
    assert [machine.name for machine in selection.machines] == ["node1"]


@pytest.mark.parametrize("limit", [["node3"], ["NODE1"], ["node1", "lm"], [""], ["guest"]])
def test_a_limit_that_matches_nothing_is_refused_with_what_would(limit: list[str]) -> None:
    with pytest.raises(InventoryRefused) as refused:
        INVENTORY.selected(limit)
    (reason,) = refused.value.reasons
    assert f"--limit {limit[-1]} matches nothing" in reason
    for word in ("node1, node2, here", "llm, tools, demo", "metal, guests, canary"):
        assert word in reason


def test_names_joined_by_commas_are_led_to_an_option_for_each() -> None:
    with pytest.raises(InventoryRefused) as refused:
        INVENTORY.selected(["node1, node9"])
    assert refused.value.reasons[0].endswith("give --limit once for each name: --limit node1 --limit node9")
    assert list(INVENTORY.selected(["node1", "here"]).machines) == [
        INVENTORY.machines[0],
        INVENTORY.machines[2],
    ]
    with pytest.raises(InventoryRefused) as alone:
        INVENTORY.selected(["node9"])
    assert "once for each name" not in alone.value.reasons[0]


def test_every_pattern_that_matches_nothing_is_named() -> None:
    with pytest.raises(InventoryRefused) as refused:
        INVENTORY.selected(["one", "node1", "two"])
    assert [reason.split(" matches")[0] for reason in refused.value.reasons] == ["--limit one", "--limit two"]
