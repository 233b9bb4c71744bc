"""An exchange of the driver on Proxmox VE: a container of the inventory gives way and comes back, no other one does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provision.guest import ours
from provision.host.moves import PCT, Asleep
from provision.plan import PHASES, Plan
from provision.planner import Observed, Wanted, plan_machine, restrict
from provision.spec import Guest, Machine, Mount
from provision.stack.decide import Shipped
from provision.stack.desired import DesiredService, desired_service
from provision.testhost import demo_files
from tests.unit.plan.seen import Seen
from tests.unit.plan.test_proxmox_decide import CONF, CREATION, NODES
from tests.unit.plan.test_swap import OLD, held_by, kinds

Decide = Callable[..., Plan]
ENGINE = "/lxc/105/ns/system.slice/kpro-tiny.service"


def as_proxmox(machine: Machine, **change: object) -> Machine:
    fields = {
        "name": "llm",
        "backend": "pct",
        "id": 105,
        "gpus": ["42:00.0"],
        "network": "bridge:vmbr0",
        "mounts": [Mount(source="/tank/models", target="/srv/models")],
        "services": machine.guests[0].services,
        **change,
    }
    return machine.model_copy(update={"guests": (Guest.model_validate(fields),)})


@pytest.fixture
def live(host: Seen) -> Seen:
    """Another driver is loaded, and container 105 runs."""
    host.put("file", "/proc/driver/nvidia/version", OLD).tools("pct").cmd("userspace", "absent\n")
    host.put("file", "/etc/pve/storage.cfg", None).cmd("device-nodes", NODES).cmd("pve-container", "6.0.4\n")
    host.put("file", "/var/lib/kpro/guests/105", None).put("file", "/run/kpro/guests/105", None)
    host.put("stat", "/tank/models", b"directory root root 755\n")
    host.model(f"/tank/models/kpro--tiny@{demo_files.DEMO_REVISION}", None)
    return running(host)


def running(seen: Seen, conf: str | None = CONF, state: str = "running") -> Seen:
    return seen.cmd("pct-status-105", f"status: {state}\n").put("file", "/etc/pve/lxc/105.conf", conf)


@pytest.fixture
def decide(machine: Machine, shipped: tuple[Shipped, Shipped], inside: Seen) -> Decide:
    def plan(seen: Seen, **change: object) -> Plan:
        wanted = as_proxmox(machine, **change)
        guest = wanted.guests[0]
        services: tuple[DesiredService, ...] = tuple(
            desired_service(guest, service) for service in guest.services if guest.managed
        )
        return plan_machine(
            wanted, Wanted({"llm": services}, *shipped), Observed(seen.snapshot, {"llm": inside.snapshot})
        )

    return plan


def test_a_container_of_the_inventory_is_stopped_for_it_and_brought_back_into_service(
    live: Seen, decide: Decide
) -> None:
    plan = decide(held_by(live, ENGINE, "python -m vllm"))
    order = ["guests.stop", "driver.load", "nodes.make", "container.configure", "container.start"]
    found = kinds(plan)
    assert [kind for kind in found if kind in order] == order
    assert found[-1] == "service.cutover"
    assert not {"container.restart", "reboot"} & set(found)
    (stop,) = plan.of("guests.stop", "@local")
    assert stop.payload == Asleep("105", PCT, ("kpro-tiny.service",))
    assert "all else that runs in it is down as long" in stop.text
    both = ["@local", "@guest/@local/llm"]
    assert not restrict(plan, PHASES, both).refusals
    assert restrict(plan, ("install",), both).refusals


@pytest.mark.parametrize(
    ("startup", "seconds"),
    [
        ("startup: order=2,up=5,down=600\n", 600),
        ("startup: down=45\n", 45),
        ("startup: order=2\n", None),
        ("startup: order=2,down=0\n", None),
        ("startup: order=2,shutdown=9\n", None),
        ("", None),
        ("[before]\nstartup: down=9\n", None),
    ],
)
def test_it_has_the_time_to_shut_down_that_its_operator_gives_it(
    live: Seen, decide: Decide, startup: str, seconds: int | None
) -> None:
    text = CONF + startup if startup.startswith("[") else startup + CONF
    (stop,) = decide(running(live, text)).of("guests.stop", "@local")
    assert isinstance(stop.payload, Asleep)
    assert stop.payload.seconds == seconds


@pytest.mark.parametrize(
    "group",
    ["/lxc/106/ns/x", "/lxc.payload.106/x", "/lxc/1055/ns/x", "/system.slice/pve-container@105.service"],
)
def test_another_container_is_never_stopped_and_leaves_all_to_the_reboot(
    live: Seen, decide: Decide, group: str
) -> None:
    plan = decide(held_by(live, group, "python train.py"))
    assert not {"guests.stop", "driver.load"} & set(kinds(plan))
    (reboot,) = plan.of("reboot", "@local")
    assert "process 77 (python train.py)" in reboot.text
    assert "kpro may not stop" in reboot.text


@pytest.mark.parametrize("line", ["lock: backup\n", "lock: snapshot\n", "template: 1\n"])
def test_one_that_proxmox_is_at_work_on_is_not_stopped(live: Seen, decide: Decide, line: str) -> None:
    plan = decide(held_by(running(live, line + CONF), ENGINE, "python -m vllm"))
    assert not [item for item in plan.items if item.kind in ("guests.stop", "driver.load")]
    assert [refusal.where for refusal in plan.refusals] == ["/etc/pve/lxc/105.conf"]


def test_a_lock_in_a_snapshot_and_protection_of_its_disks_say_nothing_against_a_stop(
    live: Seen, decide: Decide
) -> None:
    text = "protection: 1\n" + CONF + "[before]\nlock: backup\n"
    plan = decide(held_by(running(live, text), ENGINE, "python -m vllm"))
    assert plan.of("guests.stop", "@local")


def test_one_that_is_only_compared_is_not_stopped(live: Seen, machine: Machine) -> None:
    snapshot = running(live).snapshot
    assert ours.names(as_proxmox(machine, services=()), snapshot) == {"105"}
    assert ours.names(as_proxmox(machine, services=(), managed=False), snapshot) == frozenset()
    assert ours.names(as_proxmox(machine, services=(), gpus=()), snapshot) == frozenset()
    assert ours.names(as_proxmox(machine, services=()), running(live, None).snapshot) == frozenset()
    del live.sections["file", "/etc/pve/lxc/105.conf"]
    assert ours.names(as_proxmox(machine, services=()), live.snapshot) == frozenset()


def test_one_that_does_not_run_is_not_stopped_but_started(live: Seen, decide: Decide) -> None:
    found = kinds(decide(running(live, state="stopped")))
    assert "guests.stop" not in found
    assert "container.start" in found


def test_one_whose_state_cannot_be_told_keeps_the_driver(live: Seen, decide: Decide) -> None:
    plan = decide(live.cmd("pct-status-105", "ipcc_send_rec failed\n", 255))
    assert plan.refusals
    assert not plan.of("guests.stop", "@local")


@pytest.mark.parametrize(
    ("change", "theirs"),
    [({}, True), ({"proxmox": CREATION, "unprivileged": False}, False), ({"userspace": "packages"}, False)],
)
def test_whose_the_libraries_inside_are_is_said_before_it_is_stopped(
    live: Seen, decide: Decide, change: dict[str, object], theirs: bool
) -> None:
    plan = decide(live, **change)
    (stop,) = plan.of("guests.stop", "@local")
    assert ("its NVIDIA libraries are its operator's" in stop.text) == theirs
