"""The whole chain at its moments, from locked to served: the plan of each moment is a part of the plan shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from provision.guest.decide import Container, container_plan
from provision.host.decide import pending
from provision.plan import Item, Plan
from provision.planner import Observed, Wanted, plan_machine
from provision.spec import Guest, Machine
from provision.stack.decide import Shipped
from provision.stack.desired import DesiredService, desired_service
from tests.unit.plan import pile
from tests.unit.plan.pile import FIRST, SECOND
from tests.unit.plan.seen import Seen


@pytest.fixture
def whole(machine: Machine) -> Machine:
    """Two GPUs, of which the guest has both."""
    guest = machine.guests[0].model_copy(update={"gpus": (FIRST, SECOND)})
    return pile.machine().model_copy(update={"guests": (guest,)})


@pytest.fixture
def host(piled: Seen, desired: DesiredService) -> Seen:
    for model in desired.models:
        piled.model(model.directory, None)
    for bdf in (FIRST, SECOND):
        piled.put("file", f"/sys/bus/pci/devices/{bdf}/numa_node", "-1\n")
    piled.cmd("lxc-path", "/var/lib/lxc\n").cmd("lxc-ls", "\n").cmd("userspace", "absent\n")
    for path in (
        "/proc/net/tcp",
        "/proc/net/tcp6",
        "/sys/module/apparmor/parameters/enabled",
        "/run/kpro/guests/c1",
    ):
        piled.put("file", path, None)
    return piled.put("file", "/etc/kpro/test-host", None).put("stat", "/etc/kpro/test-host", None)


Planner = Callable[[Machine, Seen, Seen | None], Plan]


@pytest.fixture
def planned(shipped: tuple[Shipped, Shipped]) -> Planner:
    def plan(machine: Machine, host: Seen, inside: Seen | None) -> Plan:
        (guest,) = machine.guests
        wanted = Wanted(
            {guest.name: [desired_service(guest, service) for service in guest.services]}, *shipped
        )
        guests = {guest.name: inside.snapshot if inside else None}
        return plan_machine(machine, wanted, Observed(host.snapshot, guests))

    return plan


def config(found: Plan, kind: str = "container.create") -> Container:
    (item,) = (item for item in found.items if item.kind == kind)
    assert isinstance(item.payload, Container)
    return item.payload


def runs(host: Seen, container: Container) -> Seen:
    return host.cmd("lxc-ls", "c1\n").cmd("lxc-info-c1", "RUNNING\n").cmd("lxc-config-c1", container.config)


def kinds(items: Sequence[Item]) -> list[str]:
    return [item.kind for item in items]


def test_a_container_is_planned_before_its_gpus_are_there_and_decided_when_they_are(
    whole: Machine, host: Seen, planned: Planner
) -> None:
    early = planned(whole, host, None)
    assert early.refusals == ()
    assert config(early).early
    pile.noded(pile.loaded(pile.installed(host)), of=whole)
    for bdf in (FIRST, SECOND):
        host.audio(f"{bdf[:-1]}1", "snd_hda_intel", bdf[6])
    pile.regenerated(pile.written(host, early.items))
    late = planned(whole, host, None)
    assert pending(late) == ()
    assert not config(late).early
    assert "/dev/nvidia1 dev/nvidia1" in config(late).config


def test_minors_that_are_still_unknown_when_nothing_is_pending_are_refused(
    whole: Machine, host: Seen, planned: Planner
) -> None:
    pile.installed(pile.loaded(pile.regenerated(pile.written(host, planned(whole, host, None).items))))
    host.served(whole)
    for bdf in (FIRST, SECOND):
        host.audio(f"{bdf[:-1]}1", "snd_hda_intel", bdf[6])
    found = planned(whole, host, None)
    assert {item.kind for item in pending(found)} == {"nodes.make"}
    assert found.refusals == ()
    without_nodes = container_plan(whole, whole.guests[0], host.snapshot)
    assert "has no entry in /proc/driver/nvidia/gpus" in str(without_nodes.refusals)


def test_each_plan_of_the_run_is_a_part_of_the_plan_shown(
    whole: Machine, host: Seen, inside: Seen, planned: Planner, desired: DesiredService
) -> None:
    shown = planned(whole, host, None)
    assert kinds(shown.items)[:9] == [
        "release.files",
        "release.regenerate",
        "release.online",
        "release.online",
        "driver.install",
        "driver.load",
        "nodes.unit",
        "nodes.make",
        "container.create",
    ]
    guest: Seen | None = None
    moments: list[Callable[[], object]] = [
        lambda: pile.written(host, shown.items),
        lambda: pile.regenerated(host),
        lambda: pile.switched(host, FIRST),
        lambda: pile.switched(host, SECOND),
        lambda: pile.installed(host),
        lambda: pile.loaded(host),
        lambda: pile.noded(host, of=whole),
        lambda: runs(host, config(planned(whole, host, None))),
        lambda: host.cmd("userspace", "whole\n"),
        lambda: [host.model(model.directory, model.manifest) for model in desired.models],
    ]
    for moment in moments:
        moment()
        found = planned(whole, host, guest)
        assert found.refusals == ()
        assert found.ids <= shown.ids, found.ids - shown.ids
    last = planned(whole, host, inside)
    assert last.ids <= shown.ids
    assert not [item for item in last.items if item.host == whole.host_name]


def test_a_container_that_runs_is_configured_again_when_its_gpus_come_late(
    whole: Machine, host: Seen, inside: Seen, planned: Planner
) -> None:
    runs(host, config(planned(whole, host, None)))
    shown = planned(whole, host, inside)
    assert {"container.configure", "container.restart"} <= set(kinds(shown.items))
    assert "container.start" not in kinds(shown.items)


def test_a_container_is_started_again_after_a_reboot(
    whole: Machine, host: Seen, inside: Seen, planned: Planner
) -> None:
    runs(host, config(planned(whole, host, None))).gpu(FIRST, "nouveau", "1", boot_vga="1")
    shown = planned(whole, host, inside)
    assert "reboot" in kinds(shown.items)
    assert "container.start" in kinds(shown.items)


def test_a_guest_without_gpus_does_not_wait_for_any(whole: Machine, host: Seen, planned: Planner) -> None:
    guest: Guest = whole.guests[0].model_copy(update={"gpus": ()})
    found = planned(whole.model_copy(update={"guests": (guest,)}), host, None)
    assert not config(found).early
