"""Step 5: the unit that every boot runs for the GPUs, and the device nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from provision.guest.decide import container_plan
from provision.host.nodes import LINK, SCRIPT, UNIT, kept, nodes_plan
from provision.plan import Plan
from provision.spec import Machine
from tests.unit.plan.seen import Seen

NODES = (
    "/dev/nvidia3 c3 3 character special file",
    "/dev/nvidiactl c3 ff character special file",
    "/dev/nvidia-uvm 1fc 0 character special file",
    "/dev/nvidia-uvm-tools 1fc 1 character special file",
)


def lines(nodes: Sequence[str]) -> str:
    return "".join(f"{node}\n" for node in nodes)


@pytest.fixture
def seen(machine: Machine, host: Seen) -> Seen:
    """The host after this step: unit and script as they must be, enabled, all nodes there."""
    for path in (SCRIPT, UNIT):
        host.put("file", path, None)
    host.put("link", LINK, f"{UNIT}\n").cmd("device-nodes", lines(NODES))
    for edit in nodes_plan(machine, host.snapshot).items[0].payload.files:
        host.put("file", edit.path, edit.data)
    return host


def kinds(plan: Plan) -> list[str]:
    return [item.kind for item in plan.items]


def test_a_host_with_all_in_place_is_left_alone(machine: Machine, seen: Seen) -> None:
    assert nodes_plan(machine, seen.snapshot) == Plan("box")


@pytest.mark.parametrize("path", [SCRIPT, UNIT])
@pytest.mark.parametrize("text", [None, "something else\n"])
def test_a_file_that_is_gone_or_changed_is_written_again(
    machine: Machine, seen: Seen, path: str, text: str | None
) -> None:
    seen.put("file", path, text)
    (item,) = nodes_plan(machine, seen.snapshot).items
    assert item.kind == "nodes.unit"
    assert [edit.path for edit in item.payload.files] == [path]


def test_a_unit_that_is_not_enabled_is_enabled(machine: Machine, seen: Seen) -> None:
    assert kinds(nodes_plan(machine, seen.put("link", LINK, None).snapshot)) == ["nodes.unit"]


@pytest.mark.parametrize("missing", range(4))
def test_a_missing_node_is_made(machine: Machine, seen: Seen, missing: int) -> None:
    seen.cmd("device-nodes", lines([node for at, node in enumerate(NODES) if at != missing]))
    assert kinds(nodes_plan(machine, seen.snapshot)) == ["nodes.make"]


@pytest.mark.parametrize(
    ("good", "bad"),
    [("/dev/nvidia-uvm 1fc 0", "/dev/nvidia-uvm 1fb 0"), ("/dev/nvidia3 c3 3", "/dev/nvidia3 c3 1")],
)
def test_a_node_with_the_numbers_of_another_boot_is_made_anew(
    machine: Machine, seen: Seen, good: str, bad: str
) -> None:
    seen.cmd("device-nodes", lines(NODES).replace(good, bad))
    assert kinds(nodes_plan(machine, seen.snapshot)) == ["nodes.make"]


def test_nodes_that_could_not_be_looked_at_are_not_taken_for_there(machine: Machine, seen: Seen) -> None:
    seen.put("cmd", "device-nodes", None, "not recorded")
    assert kinds(nodes_plan(machine, seen.snapshot)) == ["nodes.make"]


def test_a_regular_file_in_the_place_of_a_node_is_named_and_left(machine: Machine, seen: Seen) -> None:
    seen.cmd("device-nodes", lines(["/dev/nvidia0 0 0 regular empty file", *NODES]))
    (refusal,) = nodes_plan(machine, seen.snapshot).refusals
    assert refusal.where == "/dev/nvidia0"
    assert "rm /dev/nvidia0" in refusal.next_step


def test_only_gpus_that_neither_the_inventory_nor_the_driver_has_are_kept_from_the_driver(
    machine: Machine, seen: Seen
) -> None:
    seen.gpu("0000:61:00.0", driver="vfio-pci").gpu("0000:62:00.0", driver="").gpu(
        "0000:63:00.0", driver="nvidia"
    )
    seen.audio("0000:61:00.1", driver="")
    assert [str(bdf) for bdf in kept(machine, seen.snapshot)] == ["0000:61:00.0", "0000:62:00.0"]
    (item,) = nodes_plan(machine, seen.snapshot).items
    script = item.payload.files[0].data.decode()
    assert 'kept="0000:61:00.0 0000:62:00.0"' in script
    assert 'wanted="0000:42:00.0"' in script


def test_a_machine_without_gpus_or_of_somebody_else_gets_no_unit(machine: Machine, seen: Seen) -> None:
    for path in (SCRIPT, UNIT):
        seen.put("file", path, None)
    for change in ({"managed": False}, {"gpus": (), "guests": ()}):
        assert nodes_plan(machine.model_copy(update=change), seen.snapshot) == Plan("box")


def test_a_minor_that_moved_at_a_boot_plans_the_container_anew(machine: Machine, seen: Seen) -> None:
    (guest,) = machine.guests
    seen.cmd("lxc-ls", "c1\n").cmd("lxc-info-c1", "RUNNING\n")
    seen.cmd("lxc-config-c1", "# Written by kpro for box/llm.")
    config = container_plan(machine, guest, seen.snapshot).items[0].payload.config
    assert "/dev/nvidia3 " in config
    seen.cmd("lxc-config-c1", config)
    assert container_plan(machine, guest, seen.snapshot).items == ()
    seen.put(
        "file",
        "/proc/driver/nvidia/gpus/0000:42:00.0/information",
        "Model: \t\t NVIDIA RTX A6000\nDevice Minor: \t 1\n",
    )
    plan = container_plan(machine, guest, seen.snapshot)
    assert kinds(plan) == ["container.configure", "container.restart"]
    assert "/dev/nvidia1 " in plan.items[0].payload.config
    assert "nodes.make" in kinds(nodes_plan(machine, seen.snapshot))
