"""Holds, upgrades in passing, and the fabric manager."""

from __future__ import annotations

import pytest

from provision.host.changes import Change, dump
from provision.plan import Plan
from tests.unit.driver.judged import HEADERS, VERSION, judged, pinned, rows, told, why
from tests.unit.plan.seen import Seen


def test_a_hold_at_another_version_stands_in_the_way_and_one_at_the_pin_does_not(host: Seen) -> None:
    for version, state, refused in (
        ("575.51.03-1", "hi", True),
        (f"{VERSION}-1", "hi", False),
        ("575.51.03-1", "ii", False),
    ):
        host.cmd("dpkg-l", rows(("libcuda1", version, state), HEADERS, ("pve-manager", "8.4.1")))
        assert ("apt-mark unhold libcuda1" in why(judged(pinned(), host))) == refused
        assert judged(pinned(), host, installing=False).refusals == ()


def test_what_kpro_holds_itself_and_what_apt_has_said_already_is_not_refused_here(host: Seen) -> None:
    host.cmd("dpkg-l", rows(("libcuda1", "575.51.03-1", "hi"), HEADERS, ("pve-manager", "8.4.1")))
    assert "unhold libcuda1" in why(judged(pinned(), host))
    host.cmd("apt-driver", "The following held packages will be changed:\n  libcuda1\n")
    assert judged(pinned(), host).refusals == ()
    host.cmd("apt-driver", "kpro: no repository\n")
    host.put("file", "/var/lib/kpro/manifest.json", dump([Change("hold", "r", names=("libcuda1",))]))
    assert judged(pinned(), host).refusals == ()
    host.put("file", "/var/lib/kpro/manifest.json", "{")
    assert "manifest.json is not readable" in why(judged(pinned(), host))


def test_held_headers_beside_kernels_that_go_on_are_told(host: Seen) -> None:
    for held, told_of in (("hi", True), ("ii", False)):
        packages = [("proxmox-default-kernel", "1"), ("proxmox-default-headers", "1", held)]
        host.cmd("dpkg-l", rows(*packages, ("pve-manager", "8.4.1")))
        assert ("apt-mark unhold proxmox-default-headers" in told(judged(pinned(), host))) == told_of
    host.cmd("dpkg-l", rows(("proxmox-default-kernel", "1", "hi"), ("proxmox-default-headers", "1", "hi")))
    assert judged(pinned(), host) == Plan("box"), "both stay"


AUTO = 'APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "1";\n'
ORIGINS = 'Unattended-Upgrade::Origins-Pattern {\n  // "origin=Debian,codename=x";\n  "origin=%s";\n};\n'


@pytest.mark.parametrize(
    ("route", "origin", "auto", "state", "blacklist", "swaps"),
    [
        ("nvidia", "NVIDIA", AUTO, "ii", "", True),
        ("nvidia", "*", AUTO, "ii", "", True),
        ("debian", "Debian,label=Debian-Security", AUTO, "ii", "", True),
        ("nvidia", "Debian", AUTO, "ii", "", False),
        ("nvidia", "NVIDIA", AUTO.replace('"1"', '"0"'), "ii", "", False),
        ("nvidia", "NVIDIA", "", "ii", "", False),
        ("nvidia", "NVIDIA", AUTO, "hi", "", False),
        ("nvidia", "NVIDIA", AUTO, "ii", 'Unattended-Upgrade::Package-Blacklist { "nvidia-"; };', False),
        ("run", "NVIDIA", AUTO, "ii", "", False),
    ],
)
def test_upgrades_that_would_swap_the_user_space_are_told(
    route: str, origin: str, auto: str, state: str, blacklist: str, swaps: bool, host: Seen
) -> None:
    upstream = VERSION if route != "debian" else "535.261.03"
    packages = [
        ("unattended-upgrades", "2.9"),
        ("libcuda1", f"{upstream}-1", state),
        HEADERS,
        ("pve-manager", "8.4.1"),
    ]
    host.cmd("dpkg-l", rows(*packages))
    host.put("file", "/etc/apt/apt.conf.d/20auto-upgrades", auto)
    host.put("file", "/etc/apt/apt.conf.d/50unattended-upgrades", ORIGINS % origin + blacklist)
    found = judged(pinned(route, upstream), host, installing=False)
    assert ("may swap libcuda1 under the loaded module" in told(found)) == swaps
    host.cmd("dpkg-l", rows(*packages[1:]))
    assert "may swap" not in told(judged(pinned(route, upstream), host, installing=False))


@pytest.mark.parametrize(
    ("device", "version", "there", "command"),
    [
        ("0x22a3", VERSION, "", f"nvidia-fabricmanager={VERSION}-1"),
        ("0x1af1", "535.261.03", "", "nvidia-fabricmanager-535=535.261.03-1"),
        ("0x22a3", VERSION, f"{VERSION}-1", ""),
        ("0x22a3", VERSION, "580.142-1", f"nvidia-fabricmanager={VERSION}-1"),
        ("0x22a4", VERSION, "", ""),
    ],
)
def test_nvswitches_need_the_fabric_manager_in_the_driver_s_version(
    device: str, version: str, there: str, command: str, host: Seen
) -> None:
    host.gpu("0000:83:00.0", device=device, pci_class="0x068000", driver="")
    if there:
        host.cmd("dpkg-l", rows(("nvidia-fabricmanager", there), HEADERS, ("pve-manager", "8.4.1")))
    said = why(judged(pinned(version=version), host, installing=False))
    assert bool(said) == bool(command)
    assert command in said


def test_a_fabric_manager_that_no_archive_brings_yet_is_told_and_not_asked_for(host: Seen) -> None:
    host.gpu("0000:83:00.0", device="0x22a3", pci_class="0x068000", driver="")
    for said, route, refused in (
        ("kpro: no repository\n", "nvidia", False),
        ("Inst nvidia-driver-cuda (1 x)\n", "nvidia", True),
        ("kpro: no repository\n", "run", True),
    ):
        found = judged(pinned(route), host.cmd("apt-driver", said))
        assert bool(found.refusals) == refused
        assert (f"nvidia-fabricmanager={VERSION}-1" in told(found)) == (not refused)
    assert judged(pinned(), host, installing=False).refusals, "after the install it has to be there"


def test_a_fabric_manager_without_switches_is_to_be_disabled(host: Seen) -> None:
    host.cmd("dpkg-l", rows(("nvidia-fabricmanager", f"{VERSION}-1"), HEADERS, ("pve-manager", "8.4.1")))
    for state, code, told_of in (("enabled", 0, True), ("disabled", 1, False), ("masked", 1, False)):
        host.cmd("fabric-manager-unit", f"{state}\n", code)
        found = judged(pinned(), host)
        assert found.refusals == ()
        assert ("systemctl disable --now nvidia-fabricmanager" in told(found)) == told_of


def test_an_nvlink_5_adapter_needs_it_too_and_is_asked_for_only_where_it_can_be(host: Seen) -> None:
    host.cmd("nvlink-sw-mng", "/sys/class/infiniband/mlx5_0/device/vpd\n")
    assert judged(pinned(), host).refusals == (), "an A6000 has no NVLink 5"
    host.gpu("0000:42:00.0", driver="vfio-pci", device="0x2901", pci_class="0x030200")
    assert "NVLink 5 (/sys/class/infiniband/mlx5_0" in why(judged(pinned(), host))
    host.cmd("nvlink-sw-mng", "")
    assert judged(pinned(), host).refusals == ()
    host.put("cmd", "nvlink-sw-mng", None, "not recorded")
    assert "nvlink-sw-mng" in why(judged(pinned(), host))
