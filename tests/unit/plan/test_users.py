"""Who holds the driver that is to go, and whom of them kpro may stop."""

from __future__ import annotations

import pytest

from provision.host.boot import Module, Opener
from provision.host.users import UNLOADED, container_of, daemon_of, owners, users
from tests.unit.plan.seen import Seen

MODULES = {
    "nvidia_uvm": Module("nvidia_uvm", 2, ()),
    "nvidia_drm": Module("nvidia_drm", 0, ()),
    "nvidia_modeset": Module("nvidia_modeset", 1, ("nvidia_drm",)),
    "nvidia": Module("nvidia", 30, ("nvidia_uvm", "nvidia_modeset")),
}
ENGINE = (Opener(40, "/dev/nvidia0", "vllm serve"), Opener(40, "/dev/nvidia-uvm", "vllm serve"))
OURS = frozenset({"c1"})

CONTAINERS = [
    ("/lxc.payload.c1/system.slice/kpro-tiny.service", "c1"),
    ("/lxc.payload.c1", "c1"),
    ("/lxc/106/ns/system.slice/x.service", "106"),
    ("/lxc.payload.other/lxc.payload.c1", "other"),
    ("/system.slice/lxc.payload.c1", None),
    ("/system.slice/docker-8c1f.scope", None),
    ("/user.slice/user-0.slice/session-4.scope", None),
    ("/", None),
    ("", None),
]


@pytest.mark.parametrize(("group", "container"), CONTAINERS)
def test_a_process_is_of_a_container_by_the_first_part_of_its_group(
    group: str, container: str | None
) -> None:
    assert container_of(group) == container


@pytest.mark.parametrize(
    ("group", "unit"),
    [
        ("/system.slice/nvidia-persistenced.service", "nvidia-persistenced.service"),
        ("/system.slice/system-gpu.slice/nvidia-dcgm.service", "nvidia-dcgm.service"),
        ("/system.slice/nvidia-fabricmanager.service", "nvidia-fabricmanager.service"),
        ("/system.slice/sshd.service", None),
        ("/lxc.payload.other/system.slice/nvidia-persistenced.service", None),
        ("/user.slice/nvidia-persistenced.service", None),
    ],
)
def test_only_nvidias_services_of_the_machine_itself_are_daemons(group: str, unit: str | None) -> None:
    assert daemon_of(group) == unit


def test_a_guest_of_ours_and_nvidias_own_service_keep_no_driver_loaded() -> None:
    openers = (*ENGINE, Opener(50, "/dev/nvidiactl", "nvidia-persistenced --user x"))
    groups = {40: "/lxc.payload.c1/x", 50: "/system.slice/nvidia-persistenced.service"}
    assert users(openers, MODULES, groups, OURS).strangers == ()


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ("/user.slice/session-4.scope", "process 40 (vllm serve)"),
        ("/lxc.payload.other/x", "process 40 (vllm serve) in container other"),
        ("/system.slice/docker-8c1f.scope", "process 40 (vllm serve)"),
        ("/system.slice/ollama.service", "process 40 (vllm serve)"),
        ("", "process 40 (vllm serve)"),
    ],
)
def test_whoever_kpro_did_not_make_is_named_with_pid_and_command(group: str, said: str) -> None:
    assert users(ENGINE, MODULES, {40: group}, OURS).strangers == (said,)
    assert users(ENGINE, MODULES, {}, OURS).strangers == ("process 40 (vllm serve)",)


def test_a_use_that_no_process_explains_is_named() -> None:
    assert users((), MODULES, {}, OURS).strangers == (
        "nvidia_uvm (2 uses, 0 of them by modules)",
        "nvidia (30 uses, 2 of them by modules)",
    )
    console = {**MODULES, "nvidia_drm": Module("nvidia_drm", 3, ())}
    assert users(ENGINE, console, {40: "/lxc.payload.c1"}, OURS).strangers == (
        "nvidia_drm (3 uses, 0 of them by modules)",
    )


@pytest.mark.parametrize("name", ["nvidia_fs", "gdrdrv", "nvidia_vgpu_vfio"])
def test_a_module_of_others_on_the_driver_is_named_though_its_use_is_a_modules(name: str) -> None:
    modules = {"nvidia": Module("nvidia", 1, (name,)), name: Module(name, 0, ())}
    assert users((), modules, {}, OURS).strangers == (f"module {name} (on nvidia)",)


def test_nvidias_own_modules_on_each_other_are_unloaded_in_this_order() -> None:
    modules = {"nvidia": Module("nvidia", 3, ("nvidia_uvm", "nvidia_peermem", "nvidia_modeset"))}
    assert users((), modules, {}, OURS).strangers == ()
    assert UNLOADED == ("nvidia_peermem", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")


def test_groups_are_read_by_pid_and_absent_where_nobody_looked() -> None:
    seen = Seen().cmd("gpu-owners", "\n40\t/lxc.payload.c1\n41\t\nnonsense\n")
    assert owners(seen.snapshot) == {40: "/lxc.payload.c1", 41: ""}
    assert owners(Seen().snapshot) == {}
