"""Which changes of the metal may move the device nodes of a guest: after all others it is left as it runs."""

from __future__ import annotations

import pytest

from provision.plan import Item, Step
from provision.planner import moves_nodes
from provision.spec import Machine
from tests.unit.plan.seen import Seen

PINNED = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
INFORMATION = "/proc/driver/nvidia/gpus/0000:42:00.0/information"


def item(kind: str) -> Item:
    return Item(Step.DRIVER, kind, "@local", "x", kind)


@pytest.fixture
def served(host: Seen) -> Seen:
    host.put("file", "/proc/driver/nvidia/version", PINNED)
    return host.put("file", INFORMATION, "Device Minor: \t 0\n")


@pytest.mark.parametrize(
    "kinds",
    [
        ("kernel.hold",),
        ("kernel.release", "driver.install"),
        ("release.files", "release.regenerate"),
        ("driver.hold",),
        ("driver.install",),
        ("release.online", "driver.load"),
    ],
)
def test_what_is_for_the_next_boot_or_for_others_moves_none(
    machine: Machine, served: Seen, kinds: tuple[str, ...]
) -> None:
    assert moves_nodes(machine, machine.guests[0], served.snapshot, [item(kind) for kind in kinds]) == ()


@pytest.mark.parametrize("kinds", [("reboot",), ("guests.stop", "driver.load"), ("kernel.hold", "reboot")])
def test_a_boot_and_an_exchange_may_move_them(machine: Machine, served: Seen, kinds: tuple[str, ...]) -> None:
    assert moves_nodes(machine, machine.guests[0], served.snapshot, [item(kind) for kind in kinds])


def test_while_another_driver_is_loaded_an_install_may_move_them(machine: Machine, served: Seen) -> None:
    served.put("file", "/proc/driver/nvidia/version", PINNED.replace("580.159.04", "550.163.01"))
    assert moves_nodes(machine, machine.guests[0], served.snapshot, [item("driver.install")])
