"""Step 6: a container is made, started or left alone, by what is positively known of it."""

from __future__ import annotations

import pytest

from checks.testhost import CONTAINERS
from provision.guest.decide import Container, container_plan
from provision.guest.lxc_config import Wanted, wanted_config
from provision.plan import Plan, Step
from provision.spec import Machine
from tests.unit.plan.seen import Seen


def kinds(plan: Plan) -> list[str]:
    return [item.kind for item in plan.items]


def config_of(machine: Machine, host: Seen) -> str:
    payload = container_plan(machine, machine.guests[0], host.snapshot).items[0].payload
    assert isinstance(payload, Container)
    return payload.config


def rules(config: str) -> list[str]:
    key = "lxc.cgroup2.devices.allow = "
    return [line.removeprefix(key) for line in config.splitlines() if line.startswith(key)]


def exists(host: Seen, config: str, state: str = "RUNNING") -> Seen:
    return host.cmd("lxc-ls", "c1 other\n").cmd("lxc-info-c1", f"{state}\n").cmd("lxc-config-c1", config)


def plan(machine: Machine, host: Seen) -> Plan:
    return container_plan(machine, machine.guests[0], host.snapshot)


def test_an_absent_container_is_created_and_started(machine: Machine, host: Seen) -> None:
    assert kinds(plan(machine, host)) == ["container.create", "container.start"]


def test_its_configuration_names_the_node_of_its_gpu_by_the_minor_it_has(
    machine: Machine, host: Seen
) -> None:
    config = config_of(machine, host)
    assert "lxc.mount.entry = /dev/nvidia3 dev/nvidia3 none bind,create=file" in config
    assert rules(config) == ["c 195:3 rwm", "c 195:255 rwm", "c 508:0 rwm", "c 508:1 rwm"]
    assert "lxc.prlimit.memlock = unlimited" in config


def test_no_container_may_open_the_gpu_of_another(machine: Machine, host: Seen) -> None:
    host.put(
        "file",
        "/proc/driver/nvidia/gpus/0000:43:00.0/information",
        "Model: \t\t NVIDIA RTX A6000\nDevice Minor: \t 0\n",
    )
    first = machine.guests[0]
    second = first.model_copy(update={"id": "c2", "name": "other", "gpus": ("43:00.0",)})
    texts = [
        wanted_config(Wanted(machine, guest, "/x", None), host.snapshot, [], "w")[0]
        for guest in (first, second)
    ]
    one, another = (set(rules(text)) for text in texts)
    assert one & another == {"c 195:255 rwm", "c 508:0 rwm", "c 508:1 rwm"}
    assert (one - another, another - one) == ({"c 195:3 rwm"}, {"c 195:0 rwm"})


def test_no_rule_is_wider_than_a_node_that_it_is_given(machine: Machine, host: Seen) -> None:
    config = config_of(machine, host)
    nodes = [line for line in config.splitlines() if line.startswith("lxc.mount.entry = /dev/nvidia")]
    assert len(rules(config)) == len(nodes) == 4
    assert "*" not in "".join(rules(config))


def test_a_container_with_the_rules_of_all_gpus_gets_its_own_and_is_restarted(
    machine: Machine, host: Seen
) -> None:
    exists(host, config_of(machine, host).replace("c 195:3 rwm", "c 195:* rwm"))
    assert kinds(plan(machine, host)) == ["container.configure", "container.restart"]


def test_a_gpu_whose_minor_moved_at_a_boot_takes_its_rule_along(machine: Machine, host: Seen) -> None:
    exists(host, config_of(machine, host))
    host.put("file", "/proc/driver/nvidia/gpus/0000:42:00.0/information", "Device Minor: \t 1\n")
    found = plan(machine, host)
    assert kinds(found) == ["container.configure", "container.restart"]
    payload = found.items[0].payload
    assert isinstance(payload, Container)
    assert rules(payload.config) == ["c 195:1 rwm", "c 195:255 rwm", "c 508:0 rwm", "c 508:1 rwm"]


def test_a_driver_that_calls_its_major_frontend_gets_the_same_rules(machine: Machine, host: Seen) -> None:
    host.put("file", "/proc/devices", "Character devices:\n195 nvidia-frontend\n511 nvidia-uvm\n")
    assert rules(config_of(machine, host)) == [
        "c 195:3 rwm",
        "c 195:255 rwm",
        "c 511:0 rwm",
        "c 511:1 rwm",
    ]


def test_the_node_for_profilers_alone_may_be_missing_on_the_machine(machine: Machine, host: Seen) -> None:
    config = config_of(machine, host)
    assert "dev/nvidia-uvm-tools none bind,create=file,optional 0 0" in config
    for name in ("nvidia3", "nvidiactl", "nvidia-uvm"):
        assert f"lxc.mount.entry = /dev/{name} dev/{name} none bind,create=file 0 0\n" in config


def test_a_running_one_with_its_configuration_is_left_alone(machine: Machine, host: Seen) -> None:
    exists(host, config_of(machine, host))
    assert plan(machine, host) == Plan("box")


def test_a_stopped_one_is_started(machine: Machine, host: Seen) -> None:
    exists(host, config_of(machine, host), "STOPPED")
    assert kinds(plan(machine, host)) == ["container.start"]


def test_a_changed_configuration_restarts_a_running_one_only_in_activate(
    machine: Machine, host: Seen
) -> None:
    exists(host, config_of(machine, host) + "lxc.environment = X=1\n")
    found = plan(machine, host)
    assert kinds(found) == ["container.configure", "container.restart"]
    assert found.items[1].step is Step.SERVICE


def test_a_configuration_that_was_written_but_not_started_with_is_still_to_be_applied(
    machine: Machine, host: Seen
) -> None:
    exists(host, config_of(machine, host)).put("file", "/run/kpro/guests/c1", "0" * 64 + "\n")
    assert kinds(plan(machine, host)) == ["container.restart"]


def test_a_container_of_somebody_else_is_refused(machine: Machine, host: Seen) -> None:
    exists(host, "lxc.uts.name = c1\n")
    found = plan(machine, host)
    assert found.items == ()
    assert "was not made for box/llm" in found.refusals[0].seen


@pytest.mark.parametrize("state", ["FROZEN", "STARTING", ""])
def test_an_unknown_state_is_never_taken_for_absent(machine: Machine, host: Seen, state: str) -> None:
    exists(host, "x", state)
    found = plan(machine, host)
    assert found.items == ()
    assert found.refusals


def test_a_failing_lxc_ls_is_never_taken_for_absent(machine: Machine, host: Seen) -> None:
    found = plan(machine, host.cmd("lxc-ls", "cannot open /var/lib/lxc", 1))
    assert found.items == ()
    assert "lxc-ls ended with 1" in found.refusals[0].seen


def test_a_gpu_without_a_device_node_is_refused(machine: Machine, host: Seen) -> None:
    del host.sections["file", "/proc/driver/nvidia/gpus/0000:42:00.0/information"]
    assert "has no entry in /proc/driver/nvidia/gpus" in str(plan(machine, host).refusals)


def test_without_apparmor_no_profile_is_asked_for(machine: Machine, host: Seen) -> None:
    assert "lxc.apparmor.profile = unconfined" in config_of(machine, host)
    host.put("file", "/sys/module/apparmor/parameters/enabled", "Y\n")
    assert "lxc.apparmor.profile = generated" in config_of(machine, host)
    host.tools("apparmor_parser", there=False)
    assert "lxc.apparmor.profile = unconfined" in config_of(machine, host)


def test_the_mark_of_a_test_host_goes_into_its_guests_and_no_other(machine: Machine, host: Seen) -> None:
    assert "test-host" not in config_of(machine, host)
    host.put("stat", "/etc/kpro/test-host", "444 0 0 52 regular file\n")
    host.put("file", "/etc/kpro/test-host", "kpro-test-host 6f1d7a52-8a3c-4b5e-9f20-0d2f8f3b1c11\n")
    host.cmd("hypervisor", "")
    for path in (*CONTAINERS, "/sys/class/dmi/id/sys_vendor"):
        host.put("file", path, None)
    host.put("file", "/sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n")
    assert "test-host" not in config_of(machine, host), "a mark copied to another virtual machine"
    host.put("file", "/sys/class/dmi/id/product_name", "kpro-test-host\n")
    assert "/etc/kpro/test-host etc/kpro/test-host none bind,ro" in config_of(machine, host)
