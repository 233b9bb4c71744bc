"""Model files lie on the machine: which folder a guest reads them from, and what is put there, once for all guests."""

from __future__ import annotations

import pytest

from provision.guest.decide import Container, container_plan
from provision.guest.mounts import mounts, on_machine
from provision.plan import Item, Plan, Step, join
from provision.planner import Observed, Wanted, plan_machine, requests
from provision.spec import Guest, Machine, Mount
from provision.stack.decide import Shipped, stack_plan
from provision.stack.desired import DesiredService, desired_service
from tests.unit.plan.seen import Seen

TANK = Mount(source="/tank/models", target="/srv/models")


def changed(machine: Machine, **fields: object) -> Machine:
    guest = machine.guests[0].model_copy(update=fields)
    return machine.model_copy(update={"guests": (guest,)})


def directory(machine: Machine) -> str:
    return machine.guests[0].services[0].model.directory


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ((), "/srv/models"),
        ((Mount(source="/data", target="/data"),), "/srv/models"),
        ((TANK,), "/tank/models"),
        ((Mount(source="/tank", target="/srv"),), "/tank/models"),
        ((Mount(source="/tank", target="/srv"), TANK), "/tank/models"),
        ((Mount(source="/other", target="/srv/mode"),), "/srv/models"),
    ],
)
def test_a_guests_models_are_read_from_the_innermost_mount_or_from_the_machines_folder(
    machine: Machine, given: tuple[Mount, ...], source: str
) -> None:
    machine = changed(machine, mounts=given)
    guest, path = machine.guests[0], directory(machine)
    assert on_machine(machine, guest, path) == f"{source}/{path.rsplit('/', 1)[1]}"
    assert on_machine(machine, guest, "/etc/passwd") is None


def test_the_machines_folder_is_read_only_and_only_where_it_is_needed(machine: Machine) -> None:
    machine = machine.model_copy(update={"models": "/mnt/nvme"})
    assert mounts(machine, machine.guests[0]) == (
        Mount(source="/mnt/nvme", target="/srv/models", read_only=True),
    )
    for fields in (
        {"services": ()},
        {"mounts": (TANK,)},
        {"managed": False, "services": ()},
        {"backend": "pct", "id": "101"},
    ):
        other = changed(machine, **fields)
        assert mounts(other, other.guests[0]) == other.guests[0].mounts, fields


def test_the_container_is_given_the_folder_and_the_folder_is_made(machine: Machine, host: Seen) -> None:
    payload = container_plan(machine, machine.guests[0], host.snapshot).items[0].payload
    assert isinstance(payload, Container)
    assert "lxc.mount.entry = /srv/models srv/models none bind,create=dir,ro 0 0" in payload.config
    assert payload.models == "/srv/models"
    machine = changed(machine, mounts=(TANK,))
    payload = container_plan(machine, machine.guests[0], host.snapshot).items[0].payload
    assert isinstance(payload, Container)
    assert payload.models is None


def test_a_model_goes_to_the_machines_folder_and_is_looked_for_there(
    machine: Machine, host: Seen, inside: Seen, desired: DesiredService, shipped: tuple[Shipped, Shipped]
) -> None:
    machine = changed(machine, mounts=(TANK,))
    place = directory(machine).replace("/srv", "/tank", 1)
    host.model(directory(machine), None).model(place, None)

    def found() -> Plan:
        guest = machine.guests[0]
        return stack_plan(machine, guest, [desired], host.snapshot, inside.snapshot, *shipped)

    (item,) = found().items
    assert (item.kind, item.host, item.subject) == ("stack.model", "@local", place)
    assert item.payload.directory == place
    host.model(place, desired.models[0].manifest)
    assert found() == Plan("box")
    assert f"file:{place}/kpro-manifest.json" in requests(machine)


def test_two_guests_that_read_one_model_have_it_put_once(
    machine: Machine, host: Seen, shipped: tuple[Shipped, Shipped]
) -> None:
    first = machine.guests[0].model_copy(update={"gpus": ()})
    service = first.services[0].model_copy(update={"port": 19001})
    second = first.model_copy(update={"name": "two", "id": "c2", "services": (service,)})
    both = machine.model_copy(update={"guests": (first, second)})
    host.model(directory(machine), None).put("file", "/run/kpro/guests/c2", None)
    services = {guest.name: [desired_service(guest, one) for one in guest.services] for guest in both.guests}
    observed = Observed(host.snapshot, {"llm": None, "two": None})
    found = plan_machine(both, Wanted(services, *shipped), observed)
    assert [item.host for item in found.items if item.kind == "stack.model"] == ["@local"]
    assert len([item for item in found.items if item.kind == "container.create"]) == 2


def test_joined_plans_keep_the_order_of_what_is_left() -> None:
    def item(step: Step, subject: str) -> Item:
        return Item(step, "k", "h", subject, subject)

    plans = [
        Plan("m", (item(Step.STACK, "a"), item(Step.STACK, "b"))),
        Plan("m", (item(Step.CONTAINER, "c"), item(Step.STACK, "a"), item(Step.STACK, "d"))),
    ]
    assert [one.subject for one in join("m", plans).items] == ["c", "a", "b", "d"]


def test_a_model_without_a_folder_to_copy_from_must_be_on_the_machine(
    machine: Machine, host: Seen, shipped: tuple[Shipped, Shipped]
) -> None:
    guest = machine.guests[0]
    model = guest.services[0].model.model_copy(update={"folder": None})
    service = guest.services[0].model_copy(update={"model": model})
    machine = changed(machine, services=(service,))
    guest = machine.guests[0]
    services = [desired_service(guest, service)]
    host.model(model.directory, None)
    found = stack_plan(machine, guest, services, host.snapshot, None, *shipped)
    assert "is not on the machine" in found.refusals[0].seen
    host.model(model.directory, "{}\n")
    assert stack_plan(machine, guest, services, host.snapshot, None, *shipped).refusals == ()


def test_a_mount_that_the_read_only_folder_of_models_would_hide_is_refused(
    machine: Machine, host: Seen, desired: DesiredService, shipped: tuple[Shipped, Shipped]
) -> None:
    mount = Mount(source="/tank/one", target="/srv/models/other--one@0")
    machine = changed(machine, mounts=(mount,))
    found = stack_plan(machine, machine.guests[0], [desired], host.snapshot, None, *shipped)
    assert [refusal.where for refusal in found.refusals] == ["machine.guests[0].mounts[0]"]


@pytest.mark.parametrize(
    ("devices", "refused"), [("2049\n2049\n", True), ("2049\n51\n", False), ("2049\n", True)]
)
def test_weights_never_go_into_the_root_of_a_proxmox_container(
    machine: Machine,
    host: Seen,
    inside: Seen,
    desired: DesiredService,
    shipped: tuple[Shipped, Shipped],
    devices: str,
    refused: bool,
) -> None:
    machine = changed(machine, backend="pct", id="101")
    inside.model(directory(machine), None).cmd("models-device", devices, 0 if devices.count("\n") > 1 else 1)
    found = stack_plan(machine, machine.guests[0], [desired], host.snapshot, inside.snapshot, *shipped)
    assert bool(found.refusals) is refused
    if refused:
        assert "backup=0" in found.refusals[0].next_step
    assert [item.host for item in found.items] == ["@guest/@local/llm"]


NODES = "/sys/devices/system/node"


def with_nodes(host: Seen, controllers: str | None, legacy: str | None) -> Seen:
    for number, cpus in enumerate(("0-3", "4-7")):
        host.put("file", f"{NODES}/node{number}/cpulist", f"{cpus}\n")
        host.put("file", f"{NODES}/node{number}/meminfo", f"Node {number} MemTotal: 1000 kB\n")
    host.put("file", "/sys/bus/pci/devices/0000:42:00.0/numa_node", "1\n")
    host.put("file", "/sys/fs/cgroup/cgroup.controllers", controllers)
    return host.put("file", "/sys/fs/cgroup/cpuset/cpuset.cpus", legacy)


@pytest.mark.parametrize(
    ("controllers", "legacy", "key"),
    [
        ("cpuset cpu memory\n", None, "cgroup2"),
        (None, "0-7\n", "cgroup"),
        ("memory\n", "0-7\n", "cgroup"),
        (None, None, None),
    ],
)
def test_the_cpuset_is_written_for_the_hierarchy_that_the_machine_has(
    machine: Machine, host: Seen, controllers: str | None, legacy: str | None, key: str | None
) -> None:
    with_nodes(host, controllers, legacy)
    payload = container_plan(machine, machine.guests[0], host.snapshot).items[0].payload
    lines = [line for line in payload.config.splitlines() if "cpuset" in line]
    assert lines == ([f"lxc.{key}.cpuset.cpus = 4-7", f"lxc.{key}.cpuset.mems = 1"] if key else [])


def test_a_place_that_is_not_known_is_a_note_and_no_line(machine: Machine, host: Seen) -> None:
    with_nodes(host, "cpuset\n", None)
    host.put("file", "/sys/bus/pci/devices/0000:42:00.0/numa_node", "-1\n")
    found = container_plan(machine, machine.guests[0], host.snapshot)
    assert "the firmware does not say" in found.notes[0]
    assert "cpuset" not in found.items[0].payload.config


def test_shared_memory_is_as_large_as_the_inventory_says_and_else_left_to_the_guest(
    machine: Machine, host: Seen
) -> None:
    def config(shm_mib: int | None) -> str:
        of = changed(machine, shm_mib=shm_mib)
        text = container_plan(of, of.guests[0], host.snapshot).items[0].payload.config
        assert isinstance(text, str)
        return text

    assert "tmpfs dev/shm tmpfs rw,nosuid,nodev,create=dir,mode=1777,size=4096m 0 0" in config(4096)
    assert "dev/shm" not in config(None)


def test_shared_memory_too_small_for_anything_is_refused() -> None:
    with pytest.raises(ValueError, match="shm_mib"):
        Guest(name="a", backend="lxc", id="a", shm_mib=1)
