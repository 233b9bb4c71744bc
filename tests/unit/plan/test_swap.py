"""An exchange of the driver on a machine that runs: what is stopped, what follows, when it is left to a reboot."""

from __future__ import annotations

import pytest

from provision.guest import ours
from provision.host.moves import Asleep
from provision.plan import PHASES, Plan
from provision.planner import Observed, Wanted, plan_machine, requests, restrict
from provision.spec import Machine
from provision.stack.decide import Shipped
from provision.stack.desired import DesiredService
from tests.unit.plan.seen import Seen

OLD = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Thu Apr 17  UTC 2026\n"
PERSISTENCED = ("/system.slice/nvidia-persistenced.service", "/usr/bin/nvidia-persistenced")


@pytest.fixture
def live(machine: Machine, host: Seen) -> Seen:
    """Another driver is loaded, and the container of ours runs."""
    host.put("file", "/proc/driver/nvidia/version", OLD)
    host.cmd("lxc-ls", "c1\nother\n").cmd("lxc-info-c1", "RUNNING\n")
    return host.cmd("lxc-config-c1", ours.mark(machine, machine.guests[0]) + "\n").cmd(
        "userspace", "absent\n"
    )


@pytest.fixture
def decide(
    machine: Machine, shipped: tuple[Shipped, Shipped], desired: DesiredService, inside: Seen
) -> object:
    wanted = Wanted({"llm": (desired,)}, *shipped)
    return lambda seen: plan_machine(machine, wanted, Observed(seen.snapshot, {"llm": inside.snapshot}))


def held_by(seen: Seen, group: str, command: str, target: str = "/dev/nvidia0") -> Seen:
    return seen.cmd("openers", f"77\t{target}\t{command}\n").cmd("gpu-owners", f"77\t{group}\n")


def kinds(plan: Plan) -> list[str]:
    assert not plan.refusals, plan.refusals
    return [item.kind for item in plan.items]


def test_a_guest_of_ours_is_stopped_for_it_and_brought_back_into_service(live: Seen, decide) -> None:  # type: ignore[no-untyped-def]
    plan = decide(held_by(live, "/lxc.payload.c1/system.slice/kpro-tiny.service", "python -m vllm"))
    found = kinds(plan)
    order = ["guests.stop", "driver.load", "nodes.make", "container.configure", "container.start"]
    assert [kind for kind in found if kind in order] == order
    assert found[-1] == "service.cutover"
    assert "container.restart" not in found
    (stop,) = plan.of("guests.stop", "@local")
    assert stop.payload == Asleep("c1", "/var/lib/lxc/c1", ("kpro-tiny.service",))
    assert (
        "kpro-tiny.service is down while driver 550.163.01 (proprietary) gives way to 580.159.04 (open)"
        in stop.text
    )
    (load,) = plan.of("driver.load", "@local")
    assert load.payload.instead == ("550.163.01", "proprietary")


def test_nvidias_own_services_do_not_ask_for_a_reboot(live: Seen, decide) -> None:  # type: ignore[no-untyped-def]
    assert "driver.load" in kinds(decide(held_by(live, *PERSISTENCED)))


@pytest.mark.parametrize("group", ["/user.slice/session-4.scope", "/lxc.payload.other/x", ""])
def test_a_stranger_leaves_all_as_it_is_until_the_reboot(live: Seen, decide, group: str) -> None:  # type: ignore[no-untyped-def]
    plan = decide(held_by(live, group, "python train.py"))
    found = kinds(plan)
    assert "guests.stop" not in found
    assert "driver.load" not in found
    (reboot,) = plan.of("reboot", "@local")
    assert "process 77 (python train.py)" in reboot.text
    assert "kpro may not stop" in reboot.text


def test_a_container_that_somebody_else_made_is_never_stopped(live: Seen, decide) -> None:  # type: ignore[no-untyped-def]
    plan = decide(held_by(live.cmd("lxc-config-c1", "# mine\n"), "/lxc.payload.c1/x", "python train.py"))
    assert [refusal.where for refusal in plan.refusals] == ["machine.guests[0].id"]
    assert not [item for item in plan.items if item.kind in ("guests.stop", "driver.load")]


def test_a_guest_that_does_not_run_is_not_stopped_but_started(live: Seen, decide) -> None:  # type: ignore[no-untyped-def]
    found = kinds(decide(live.cmd("lxc-info-c1", "STOPPED\n")))
    assert "guests.stop" not in found
    assert "container.start" in found


def test_the_pinned_driver_stops_nobody(host: Seen, live: Seen, decide) -> None:  # type: ignore[no-untyped-def]
    from tests.unit.plan.conftest import VERSION

    live.put("file", "/proc/driver/nvidia/version", VERSION)
    found = kinds(decide(held_by(live, "/user.slice/x", "python train.py")))
    assert not {"guests.stop", "driver.load", "reboot"} & set(found)


def test_a_guest_is_never_stopped_by_a_run_that_leaves_out_what_brings_it_back(live: Seen, decide) -> None:  # type: ignore[no-untyped-def]
    plan = decide(live)
    both = ["@local", "@guest/@local/llm"]
    assert not restrict(plan, PHASES, both).refusals
    for phases, hosts in ((("install",), both), (("install", "configure"), both), (PHASES, ["@local"])):
        refusals = restrict(plan, phases, hosts).refusals
        assert any("leaves out what brings it back" in str(refusal) for refusal in refusals), (phases, hosts)


def test_the_look_asks_for_the_groups_of_those_who_hold_the_gpus(machine: Machine) -> None:
    assert any(request.startswith("cmd:gpu-owners:") for request in requests(machine))
