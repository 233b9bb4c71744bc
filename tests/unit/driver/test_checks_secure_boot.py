"""Secure Boot without the enrolled key stops first; and the headers without which nothing compiles."""

from __future__ import annotations

from itertools import product

import pytest

from provision.host.driver_checks import seen as looks
from provision.plan import Plan
from tests.unit.driver.judged import HEADERS, KERNEL, NEXT, VERSION, judged, pinned, rows, told, why
from tests.unit.plan.seen import Seen

SHIM = "SecureBoot enabled\nSecureBoot validation is disabled in shim\n"
SAID = {
    "enrolled": "{} is already enrolled\n",
    "in db": "{} is already in db\n",
    "absent": "{} is not enrolled\n",
    "asked": "{} is already in the enrollment request\n",
    "silent": "",
}


@pytest.mark.parametrize(
    ("state", "said", "route"),
    [
        *product(
            ["SecureBoot enabled\n", "SecureBoot disabled\n", SHIM],
            SAID,
            ["run", "nvidia", "debian", "prebuilt", "ubuntu"],
        )
    ],
)
def test_secure_boot_stops_first_unless_the_key_is_enrolled(
    state: str, said: str, route: str, host: Seen
) -> None:
    key = looks.KEYS[0]
    host.cmd("mokutil-sb-state", state).put("stat", looks.EFI, "755 0 0 0 directory\n")
    host.put("stat", key, "644 0 0 900 regular file\n").cmd("mokutil-test-key", SAID[said].format(key))
    found = why(judged(pinned(route), host))
    stops = state.strip() == "SecureBoot enabled" and route not in ("prebuilt", "ubuntu")
    assert ("Secure Boot is in force" in found) == (stops and said not in ("enrolled", "in db"))
    if found:
        assert (f"mokutil --import {key}" in found) == (said != "asked"), "it is imported once"
        assert "reboot" in found
        assert "MOK manager" in found


def test_a_key_that_is_not_made_yet_is_made_in_the_distribution_s_way(host: Seen) -> None:
    host.cmd("mokutil-sb-state", "SecureBoot enabled\n")
    assert f"-out {looks.KEYS[0]}" in why(judged(pinned(), host))
    host.put("file", "/etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n')
    said = why(judged(pinned(), host))
    assert "update-secureboot-policy --new-key" in said
    assert f"mokutil --import {looks.KEYS[1]}" in said


def test_the_key_that_counts_is_the_one_that_dkms_signs_with(host: Seen) -> None:
    host.cmd("mokutil-sb-state", "SecureBoot enabled\n")
    for key in looks.KEYS:
        host.put("stat", key, "644 0 0 900 regular file\n")
    host.cmd("mokutil-test-key", f"{looks.KEYS[1]} is already enrolled\n{looks.KEYS[0]} is not enrolled\n")
    assert f"{looks.KEYS[0]}, is not enrolled" in why(judged(pinned(), host))
    host.put("file", "/etc/dkms/framework.conf", f"# mok_certificate=/x\nmok_certificate={looks.KEYS[1]}\n")
    assert judged(pinned(), host).refusals == ()


@pytest.mark.parametrize(
    ("variable", "code", "signed"),
    [(b"\x06\0\0\0\x01", 127, True), (b"\x06\0\0\0\0", 127, False), (b"\x06", 127, None), (None, 127, None)],
)
def test_without_mokutil_the_firmware_s_own_variable_tells(
    variable: bytes | None, code: int, signed: bool | None, host: Seen
) -> None:
    host.cmd("mokutil-sb-state", "sh: 1: mokutil: not found\n", code)
    host.put("stat", looks.EFI, "755 0 0 0 directory\n").put("file", looks.SECURE_BOOT, variable)
    said = why(judged(pinned(), host))
    assert ("Secure Boot is in force" in said) == (signed is True)
    assert ("is Secure Boot on?" in said) == (signed is None), "unknown is neither"


def test_the_kernel_s_own_lockdown_counts_whatever_mokutil_says(host: Seen) -> None:
    host.put("file", "/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    assert "Secure Boot is in force" in why(judged(pinned(), host))


def test_a_driver_that_is_in_place_and_loaded_is_left_alone_under_secure_boot(host: Seen) -> None:
    host.cmd("mokutil-sb-state", "SecureBoot enabled\n")
    assert "Secure Boot" in why(judged(pinned(), host, installing=False))
    host.put(
        "file",
        "/proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {VERSION}  x\n",
    )
    assert judged(pinned(), host, installing=False).refusals == ()


def test_route_run_needs_the_headers_of_every_kernel_that_counts(host: Seen) -> None:
    host.kernels(KERNEL, NEXT)
    said = why(judged(pinned("run"), host))
    assert f"apt-get install proxmox-headers-{NEXT}" in said
    assert KERNEL not in said, "its own are there"
    assert judged(pinned("nvidia"), host).refusals == (), "the packages bring them along"
    host.put("names", "/lib/modules/*/build", f"/lib/modules/{NEXT}/build\n")
    assert judged(pinned("run"), host).refusals == ()
    assert judged(pinned("prebuilt"), host).refusals == ()


@pytest.mark.parametrize(
    ("kernels", "headers", "lacking"),
    [
        ("proxmox-default-kernel", "proxmox-default-headers", "proxmox-default-headers"),
        ("proxmox-kernel-6.17", "proxmox-headers-6.17", "proxmox-headers-6.17"),
        ("pve-kernel-5.15", "pve-headers-5.15", "pve-headers-5.15"),
        ("linux-image-amd64", "linux-headers-amd64", "linux-headers-amd64"),
        ("linux-image-cloud-amd64", "linux-headers-cloud-amd64", "linux-headers-cloud-amd64"),
        ("linux-image-generic", "linux-headers-generic", "linux-headers-generic"),
        (
            "linux-image-generic-hwe-24.04",
            "linux-headers-generic-hwe-24.04",
            "linux-headers-generic-hwe-24.04",
        ),
    ],
)
def test_a_metapackage_of_kernels_without_that_of_headers_is_named(
    kernels: str, headers: str, lacking: str, host: Seen
) -> None:
    kernel = KERNEL if "linux" not in kernels else "6.1.0-50-amd64"
    host.kernels(kernel).cmd("uname-r", f"{kernel}\n").put(
        "names", "/lib/modules/*/build", f"/lib/modules/{kernel}/build\n"
    )
    there = [(kernels, "1"), *([("pve-manager", "8.4.1")] if "linux" not in kernels else [])]
    host.cmd("dpkg-l", rows(*there))
    assert f"apt-get install {lacking}" in why(judged(pinned("run"), host))
    quiet = judged(pinned("run"), host, installing=False)
    assert quiet.refusals == (), "a driver that works is not refused for it"
    assert f"apt-get install {lacking}" in told(quiet)
    host.cmd("dpkg-l", rows(*there, (headers, "1")))
    assert judged(pinned("run"), host) == Plan("box")


def test_single_kernels_and_their_debug_packages_ask_for_no_metapackage(host: Seen) -> None:
    names = (
        "linux-image-6.1.0-50-amd64",
        "linux-image-amd64-dbg",
        "linux-image-unsigned-6.8",
        "linux-image-extra-x",
        "linux-image-6.12.95+deb13-amd64",
        "proxmox-kernel-helper",
        "proxmox-kernel-libc-dev",
        "pve-kernel-helper",
    )
    host.cmd(
        "dpkg-l", rows(*((name, "1") for name in (*names, "proxmox-kernel-6.8.12-4-pve-signed")), HEADERS)
    )
    assert judged(pinned("run"), host) == Plan("box")
