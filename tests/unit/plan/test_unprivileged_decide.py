"""An unprivileged LXC container as a plan: its configuration, its owners, the folders that it can reach."""

from __future__ import annotations

import pytest

from provision.guest.decide import Container, container_plan
from provision.guest.idmap import REQUESTS, GrantIds
from provision.host import view
from provision.plan import Plan
from provision.spec import Guest, Machine, Mount
from tests.unit.plan.seen import Seen


@pytest.fixture
def machine(machine: Machine) -> Machine:
    guest = machine.guests[0].model_copy(update={"unprivileged": True})
    return machine.model_copy(update={"guests": (guest,)})


@pytest.fixture
def host(host: Seen) -> Seen:
    host.put("file", "/etc/subuid", "bob:100000:65536\n").put("file", "/etc/subgid", "bob:100000:65536\n")
    host.put("file", "/etc/passwd", "root:x:0:0::/root:/bin/sh\n").put("file", "/etc/group", "root:x:0:\n")
    host.tools("lxc-usernsexec").cmd("lxc-path-mode", "755\n").cmd("lxc-idmaps", "\n")
    return folders(host, {"/srv": "755 0 0", "/srv/models": "755 0 0"})


def folders(host: Seen, given: dict[str, str | None]) -> Seen:
    for path, status in given.items():
        host.put("stat", path, None if status is None else f"{status} 4096 directory\n")
    return host


def plan(machine: Machine, host: Seen) -> Plan:
    return container_plan(machine, machine.guests[0], host.snapshot)


def config_of(machine: Machine, host: Seen) -> str:
    payload = plan(machine, host).items[-1].payload
    assert isinstance(payload, Container)
    return payload.config


def exists(host: Seen, config: str) -> Seen:
    host.cmd("lxc-ls", "c1\n").cmd("lxc-info-c1", "RUNNING\n").cmd("lxc-config-c1", config)
    host.put("file", "/etc/subuid", "root:165536:65536\n").put("file", "/etc/subgid", "root:165536:65536\n")
    return host.cmd("lxc-idmaps", "c1 u 0 165536 65536\nc1 g 0 165536 65536\n")


def mounting(machine: Machine, *mounts: Mount) -> Machine:
    guest = machine.guests[0].model_copy(update={"mounts": mounts})
    return machine.model_copy(update={"guests": (guest,)})


def test_an_absent_one_gets_ids_of_its_own_first(machine: Machine, host: Seen) -> None:
    found = plan(machine, host)
    assert found.refusals == ()
    assert [item.kind for item in found.items] == ["container.ids", "container.create", "container.start"]
    assert found.items[0].payload == GrantIds("root:165536:65536", ("/etc/subuid", "/etc/subgid"))
    assert "root the ids 165536-231071 in /etc/subuid and /etc/subgid" in found.items[0].text


def test_its_configuration_maps_exactly_its_ids_and_leaves_the_machines_defaults_out(
    machine: Machine, host: Seen
) -> None:
    lines = config_of(machine, host).splitlines()
    assert "lxc.idmap = u 0 165536 65536" in lines
    assert "lxc.idmap = g 0 165536 65536" in lines
    # userns.conf would mount a writable /sys, and tells LXC to clear the list of devices.
    assert lines.index("lxc.mount.auto =") > lines.index("lxc.include = /usr/share/lxc/config/userns.conf")
    assert not [line for line in lines if line.startswith("lxc.cgroup2.devices")]
    assert "lxc.mount.entry = /dev/nvidia3 dev/nvidia3 none bind,create=file 0 0" in lines


def test_a_privileged_one_has_none_of_that(machine: Machine, host: Seen) -> None:
    guest = machine.guests[0].model_copy(update={"unprivileged": False})
    config = config_of(machine.model_copy(update={"guests": (guest,)}), host)
    assert "idmap" not in config
    assert "userns" not in config
    assert "lxc.cgroup2.devices.allow = c 195:3 rwm" in config


@pytest.mark.parametrize(("network", "bound"), [("host", True), ("isolated", False), ("bridge:br0", False)])
def test_the_machines_own_sysfs_is_shown_only_with_the_machines_own_network(
    machine: Machine, host: Seen, network: str, bound: bool
) -> None:
    guest = machine.guests[0].model_copy(update={"network": network})
    config = config_of(machine.model_copy(update={"guests": (guest,)}), host)
    assert ("/sys sys none rbind,ro" in config) is bound
    assert ("sys:mixed" in config) is not bound


def test_a_running_one_with_its_configuration_is_left_alone(machine: Machine, host: Seen) -> None:
    exists(host, config_of(machine, host))
    assert plan(machine, host) == Plan("box")


def test_ids_that_somebody_took_out_of_the_files_are_given_again(machine: Machine, host: Seen) -> None:
    exists(host, config_of(machine, host)).put("file", "/etc/subuid", "")
    found = plan(machine, host)
    assert [item.kind for item in found.items] == ["container.ids"]
    assert found.items[0].payload == GrantIds("root:165536:65536", ("/etc/subuid",))


@pytest.mark.parametrize("wanted", [True, False])
def test_a_container_never_becomes_the_other_kind_in_place(
    machine: Machine, host: Seen, wanted: bool
) -> None:
    other = machine.guests[0].model_copy(update={"unprivileged": not wanted})
    exists(host, config_of(machine.model_copy(update={"guests": (other,)}), host))
    guest = machine.guests[0].model_copy(update={"unprivileged": wanted})
    found = plan(machine.model_copy(update={"guests": (guest,)}), host)
    assert found.items == ()
    assert [refusal.where for refusal in found.refusals] == ["machine.guests[0].unprivileged"]


def test_without_the_program_that_unpacks_it_it_is_refused(machine: Machine, host: Seen) -> None:
    found = plan(machine, host.tools("lxc-usernsexec", there=False))
    assert "lxc-usernsexec is not there" in found.refusals[0].seen


def test_containers_that_nobody_can_pass_to_are_refused_with_the_command(
    machine: Machine, host: Seen
) -> None:
    found = plan(machine, host.cmd("lxc-path-mode", "700\n"))
    assert found.refusals[0].next_step == 'chmod o+x "$(lxc-config lxc.lxcpath)"'
    assert plan(machine, host.cmd("lxc-path-mode", "711\n")).refusals == ()


@pytest.mark.parametrize(
    ("status", "read_only", "reason"),
    [
        ("755 0 0", True, None),
        ("750 0 0", True, "none of them could read it"),
        ("701 0 0", True, "none of them could read it"),
        ("700 165536 165536", True, None),
        ("750 0 165600", True, None),
        ("755 0 0", False, "none of them could write there"),
        ("755 8100 8100", False, "none of them could write there"),
        ("755 173636 173636", False, None),
        ("775 0 173636", False, None),
        ("777 0 0", False, None),
        ("755 231072 231072", False, "none of them could write there"),
    ],
)
def test_a_folder_that_its_ids_cannot_use_is_refused(
    machine: Machine, host: Seen, status: str, read_only: bool, reason: str | None
) -> None:
    folders(host, {"/tank": "755 0 0", "/tank/models": status})
    mount = Mount(source="/tank/models", target="/srv/models", read_only=read_only)
    found = plan(mounting(machine, mount), host)
    assert [refusal.why.split(", and ")[-1] for refusal in found.refusals] == ([reason] if reason else [])
    if reason and "write" in reason:
        assert "chown 173636:173636 /tank/models" in found.refusals[0].next_step


def test_a_closed_folder_on_the_way_is_named(machine: Machine, host: Seen) -> None:
    folders(host, {"/tank": "750 0 0", "/tank/a": "700 0 0", "/tank/a/models": "755 0 0"})
    found = plan(mounting(machine, Mount(source="/tank/a/models", target="/srv/models")), host)
    assert found.refusals[0].where == "machine.guests[0].mounts[0].source"
    assert found.refusals[0].next_step.startswith("chmod o+x /tank /tank/a")


def test_a_closed_folder_of_models_is_refused_and_one_that_is_not_there_is_made(
    machine: Machine, host: Seen
) -> None:
    folders(host, {"/srv": "700 0 0"})
    assert plan(machine, host).refusals[0].where == "machine.models"
    folders(host, {"/srv": "755 0 0", "/srv/models": None})
    assert plan(machine, host).refusals == ()


def test_everything_that_is_read_is_asked_for(machine: Machine) -> None:
    wanted = view.requests(mounting(machine, Mount(source="/tank/a/models", target="/x")))
    assert set(REQUESTS) <= set(wanted)
    assert {"stat:/tank", "stat:/tank/a", "stat:/tank/a/models", "stat:/srv", "stat:/srv/models"} <= set(
        wanted
    )


def test_a_machine_with_privileged_guests_only_is_not_asked_for_ids() -> None:
    machine = Machine(name="box", guests=[Guest(name="a", backend="lxc", id="a")])
    assert not set(REQUESTS) & set(view.requests(machine))
