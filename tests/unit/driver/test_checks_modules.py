"""Other modules of DKMS: one that is missing or failed is named, and the reboot is withheld."""

from __future__ import annotations

import pytest

from provision.host.driver_checks.judge import checks_plan
from provision.plan import Item, Plan, Step
from tests.unit.driver.judged import DRBD, HEADERS, KERNEL, NEXT, judged, pinned, rows, told, why
from tests.unit.plan.seen import Seen

LOG = f"DKMS make.log for drbd-9.2.11 for kernel {NEXT} (x86_64)\ndrbd_main.c:1:2: error: too few arguments\n"


@pytest.mark.parametrize(
    ("status", "withheld"),
    [
        (DRBD, True),
        (DRBD + f"drbd/9.2.11, {NEXT}, x86_64: built\n", True),
        (DRBD + f"drbd/9.2.11, {NEXT}, x86_64: installed\n", False),
        (DRBD + f"drbd/9.3.0, {NEXT}: installed\n", False),
        ("drbd, 9.2.11: added\n", False),
        (f"drbd/9.2.11, {NEXT}, x86_64: built\n", False),
        (f"nvidia/580.159.04, {KERNEL}, x86_64: installed\n", False),
        ("", False),
    ],
)
def test_a_reboot_that_would_lose_a_module_is_withheld(status: str, withheld: bool, host: Seen) -> None:
    host.kernels(KERNEL, NEXT).cmd("dkms-status", status)
    said = why(judged(pinned(), host, rebooting=True))
    assert ("the reboot is withheld" in said) == withheld
    if withheld:
        assert "drbd/9.2.11" in said
        assert f"proxmox-boot-tool kernel pin {KERNEL}" in said
    quiet = judged(pinned(), host)
    assert quiet.refusals == (), "nothing is booted"
    assert ("drbd/9.2.11" in told(quiet)) == withheld


def test_a_pinned_kernel_that_has_the_module_may_boot(host: Seen) -> None:
    host.kernels(KERNEL, NEXT).cmd("dkms-status", DRBD).put(
        "file", "/etc/kernel/proxmox-boot-pin", f"{KERNEL}\n"
    )
    assert judged(pinned(), host, rebooting=True).refusals == ()


def test_a_plan_that_stays_with_the_running_kernel_loses_nothing(host: Seen) -> None:
    host.kernels(KERNEL, NEXT).cmd("dkms-status", DRBD)
    hold, release = (
        Item(Step.DRIVER, f"kernel.{word}", "@local", KERNEL, "x") for word in ("hold", "release")
    )
    for items, withheld in (((hold,), False), ((release,), True), ((), True)):
        found = checks_plan(pinned(), host.snapshot, Plan("box", items), True)
        assert ("the reboot is withheld" in why(found)) == withheld


def test_why_a_module_is_missing_is_read_from_its_log(host: Seen) -> None:
    host.kernels(KERNEL, NEXT).cmd("dkms-status", DRBD)
    host.put("file", "/var/lib/dkms/drbd/9.2.11/build/make.log", LOG)
    said = why(judged(pinned(), host, rebooting=True))
    assert "too few arguments" in said
    assert "dkms remove drbd/9.2.11 --all" in said
    host.put(
        "file", "/var/lib/dkms/drbd/9.2.11/build/make.log", LOG.replace("error:", "internal compiler error:")
    )
    assert "memtest" in why(judged(pinned(), host, rebooting=True))
    host.put("file", "/var/lib/dkms/drbd/9.2.11/build/make.log", LOG.replace(NEXT, "6.5.0-old"))
    assert "too few" not in why(judged(pinned(), host, rebooting=True)), (
        "a log of another kernel proves nothing"
    )


def test_nvidia_s_module_of_somebody_else_withholds_the_reboot_too(host: Seen) -> None:
    host.kernels(KERNEL, NEXT).cmd("dkms-status", f"nvidia-current/535.261.03, {KERNEL}, x86_64: installed\n")
    machine = pinned().model_copy(update={"driver": None})
    assert "nvidia-current/535.261.03" in why(judged(machine, host, installing=False, rebooting=True))


AUDIT = "The following packages are only half configured, probably due to problems\nconfiguring them:\n"
POSTINST = (
    "Error! Bad return status for module build on kernel: {kernel} (x86_64)\n"
    "Consult /var/lib/dkms/{name}/1.24/build/make.log for more information.\n"
    "dkms: autoinstall for kernel: {kernel} failed!\n"
    "run-parts: /etc/kernel/postinst.d/dkms exited with return code 11\n"
)


@pytest.mark.parametrize("name", ["intel-i915-dkms", "drbd", "vendor-reset"])
def test_a_foreign_module_that_left_the_kernel_half_configured_is_named_and_nvidia_is_not_blamed(
    name: str, host: Seen
) -> None:
    host.cmd("dpkg-audit", f"{AUDIT} proxmox-kernel-{NEXT}-signed  Proxmox Kernel Image\n")
    host.cmd("apt-term-log", POSTINST.format(name=name, kernel=NEXT))
    for found in (judged(pinned(), host), judged(pinned(), host, installing=False, rebooting=True)):
        said = why(found)
        assert f"to blame is {name}/1.24 for kernel {NEXT}, not the NVIDIA driver" in said
        assert f"dkms remove {name}/1.24 --all" in said
        assert "the reboot is withheld" in said
        assert f"proxmox-boot-tool kernel pin {KERNEL}" in said
    host.cmd("dkms-status", f"{name}/1.24, {NEXT}, x86_64: installed\n")
    assert "to blame" not in why(judged(pinned(), host)), "it was mended since"


def test_without_apt_s_log_the_logs_of_dkms_name_the_culprit(host: Seen) -> None:
    host.cmd("dpkg-audit", f"{AUDIT} proxmox-kernel-{NEXT}-signed  Proxmox Kernel Image\n").cmd(
        "apt-term-log", "", 1
    )
    host.put("file", "/var/lib/dkms/drbd/9.2.11/build/make.log", LOG)
    assert f"to blame is drbd/9.2.11 for kernel {NEXT} (drbd_main.c" in why(judged(pinned(), host))


def test_half_configured_packages_are_refused_where_apt_s_log_was_not_looked_at(host: Seen) -> None:
    host.cmd("dpkg-audit", f"{AUDIT} proxmox-kernel-{NEXT}-signed  Proxmox Kernel Image\n")
    for kind in ("cmd", "rc"):
        del host.sections[kind, "apt-term-log"]
    said = why(judged(pinned(), host, installing=False, rebooting=True))
    assert f"packages are half-configured: proxmox-kernel-{NEXT}-signed" in said
    assert "the reboot is withheld" in said


def test_a_half_configured_package_without_a_known_culprit_blames_nobody(host: Seen) -> None:
    host.cmd("dpkg-audit", f"{AUDIT} postfix  mail transport agent\n")
    said = why(judged(pinned("run"), host))
    assert "half-configured: postfix" in said
    assert "to blame" not in said
    host.put("cmd", "dpkg-audit", None, "not recorded").cmd("dpkg-l", rows(HEADERS, ("drbd-dkms", "9", "iF")))
    assert "half-configured: drbd-dkms" in why(judged(pinned("run"), host)), "dpkg -l tells it too"


def test_a_broken_or_overwritten_module_is_told(host: Seen) -> None:
    host.cmd(
        "dkms-status",
        f"x/1: broken\nzfs/2, {KERNEL}, x86_64: installed (WARNING! Diff between built and x)\n",
    )
    said = told(judged(pinned(), host))
    assert "rm -r /var/lib/dkms/x/1" in said
    assert f"dkms install --force zfs/2 -k {KERNEL}" in said
