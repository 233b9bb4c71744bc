"""Debian's own packages, and packages or modules of two drivers at once."""

from __future__ import annotations

import pytest

from tests.unit.driver.judged import HEADERS, KERNEL, VERSION, judged, pinned, rows, served, told, why
from tests.unit.plan.seen import Seen


def test_debian_s_packages_are_refused_where_they_cannot_serve(host: Seen) -> None:
    machine = pinned("debian", "550.163.01")
    assert judged(machine, host).refusals == ()
    for kind, version, refused in (("vllm", "0.20.1", True), ("sglang", "0.5.10.post1", False)):
        found = judged(served(machine, kind, version), host).refusals
        assert ("machine.driver.route" in [refusal.where for refusal in found]) == refused
    host.gpu("0000:42:00.0", driver="vfio-pci", device="0x2bb1")
    assert "is blackwell" in why(judged(machine, host))
    assert judged(pinned("nvidia"), host).refusals == (), "only Debian's are too old"


@pytest.mark.parametrize(
    ("kernel", "manager", "refused"),
    [
        ("6.17.13-2-pve", "9.1.4", True),
        ("7.0.2-7-pve", "9.2.11", True),
        ("6.14.11-4-pve", "9.1.4", True),
        ("6.14.11-4-pve", "9.0.3", False),
        ("6.8.12-4-pve", "8.4.1", False),
        ("6.17.13-2-pve", "", True),
        ("6.12.95+deb13-amd64", "", False),
        ("6.17.0-35-generic", "", False),
    ],
)
def test_debian_s_packages_are_refused_on_proxmox_from_9_1_on(
    kernel: str, manager: str, refused: bool, host: Seen
) -> None:
    host.kernels(kernel).cmd("uname-r", f"{kernel}\n")
    host.cmd("dpkg-l", rows(*([("pve-manager", manager)] if manager else []), HEADERS))
    assert ("Proxmox VE" in why(judged(pinned("debian", "550.163.01"), host))) == refused


def test_a_proxmox_whose_version_nothing_tells_is_not_taken_for_an_old_one(host: Seen) -> None:
    host.cmd("dpkg-l", rows(HEADERS))
    assert "tells its version" in why(judged(pinned("debian", "550.163.01"), host))
    host.cmd("pveversion", "pve-manager/8.4.1/abc (running kernel: 6.8.12-4-pve)\n")
    assert judged(pinned("debian", "550.163.01"), host).refusals == ()


def test_two_modules_of_two_versions_for_one_kernel_are_refused(host: Seen) -> None:
    def line(path: str, version: str) -> str:
        return f"{KERNEL}|/lib/modules/{KERNEL}/{path}|{version}|Dual MIT/GPL|{KERNEL} SMP|yes\n"

    host.cmd(
        "driver-modules",
        line("updates/dkms/nvidia.ko", VERSION) + line("kernel/drivers/video/nvidia.ko", "570.26"),
    )
    assert "has two NVIDIA modules" in why(judged(pinned(), host))
    quiet = judged(pinned(), host, installing=False)
    assert quiet.refusals == ()
    assert "has two NVIDIA modules" in told(quiet)
    host.cmd(
        "driver-modules",
        line("updates/dkms/nvidia.ko", VERSION) + line("updates/dkms/nvidia-open.ko", VERSION),
    )
    assert judged(pinned(), host).refusals == ()


@pytest.mark.parametrize(
    ("names", "mixed"),
    [
        (("nvidia-driver-cuda", "nvidia-open-kernel-dkms"), True),
        (("cuda-drivers-580", "nvidia-open-kernel-support"), True),
        (("nvidia-driver-pinning-580", "nvidia-kernel-open-dkms", "nvidia-open-580", "libcuda1"), False),
        (("nvidia-open-kernel-dkms", "nvidia-open-kernel-support", "nvidia-smi", "nvidia-driver"), False),
        (("nvidia-headless-580-server-open", "libnvidia-compute-580-server"), False),
    ],
)
def test_packages_of_two_archives_are_told_where_nothing_is_installed(
    names: tuple[str, ...], mixed: bool, host: Seen
) -> None:
    host.cmd("dpkg-l", rows(*((name, f"{VERSION}-1") for name in names), HEADERS, ("pve-manager", "8.4.1")))
    found = judged(pinned(), host, installing=False)
    assert found.refusals == ()
    assert ("overwrite each other" in told(found)) == mixed


def test_a_run_installer_beside_packages_is_told_where_nothing_is_installed(host: Seen) -> None:
    host.put("stat", "/usr/bin/nvidia-uninstall", "755 0 0 1 regular file\n")
    assert told(judged(pinned("run"), host, installing=False)) == "", "alone it is a route of its own"
    for state, mixed in (("ii", True), ("rc", False)):
        host.cmd("dpkg-l", rows(("libcuda1:amd64", "535.261.03-1", state), HEADERS, ("pve-manager", "8.4.1")))
        said = told(judged(pinned("run"), host, installing=False))
        assert ("beside the packages libcuda1" in said) == mixed, (
            "what is removed leaves only its configuration"
        )
