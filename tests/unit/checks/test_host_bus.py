"""IOMMU, ACS and fabric manager: only what is on a GPU's own way counts, and what was not read is never green."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.gpus import host_bus, host_services, node
from checks.model import Finding, Status
from checks.record import Section

Judged = Callable[..., dict[tuple[str, str], Finding]]
Healthy = Callable[..., dict[str, Any]]
A, B, PORT, LEAF, SWITCH = "0000:10:00.0", "0000:11:00.0", "0000:00:01.0", "0000:0f:00.0", "0000:c3:00.0"


def config(control: int | None, *, before: int = 0) -> bytes:
    """A configuration space with ``before`` other capabilities in front of ACS; None: without ACS."""
    data = bytearray(4096)
    offset = 0x100
    for _ in range(before):
        struct.pack_into("<I", data, offset, 0x0001 | 1 << 16 | (offset + 0x40) << 20)
        offset += 0x40
    if control is not None:
        struct.pack_into("<I", data, offset, host_bus.ACS_CAPABILITY | 1 << 16)
        struct.pack_into("<H", data, offset + 6, control)
    elif before:
        struct.pack_into("<I", data, offset - 0x40, 0x0001 | 1 << 16)
    return bytes(data)


@pytest.mark.parametrize("before", [0, 1, 5])
def test_the_acs_register_is_found_behind_other_capabilities(before: int) -> None:
    assert host_bus.acs_control(config(0x1D, before=before)) == 0x1D
    assert host_bus.acs_control(config(None, before=before)) is None


def test_a_ring_of_capabilities_comes_to_an_end() -> None:
    data = bytearray(4096)
    struct.pack_into("<I", data, 0x100, 0x0001 | 1 << 16 | 0x140 << 20)
    struct.pack_into("<I", data, 0x140, 0x0002 | 1 << 16 | 0x100 << 20)
    assert host_bus.acs_control(bytes(data)) is None


@given(st.binary(min_size=1, max_size=64))
def test_no_bytes_make_the_register_reader_stumble(piece: bytes) -> None:
    host_bus.acs_control((piece * 4096)[:4096])


@pytest.mark.parametrize("size", [0, 64, 256])
def test_a_short_configuration_space_proves_nothing(size: int) -> None:
    section = host_bus.acs_section("/x", config(0)[:size])
    assert section.data is None
    assert "root" in (section.error or "")


def bus(*extra: Section, driver: str = "nvidia") -> tuple[Section, ...]:
    found = [Section("dir", node.PCI, f"{A}\n{B}\n".encode())]
    for name in (A, B):
        at = f"{node.PCI}/{name}"
        found += [
            Section("file", f"{at}/vendor", b"0x10de\n"),
            Section("file", f"{at}/class", b"0x030200\n"),
            Section("link", f"{at}/driver", f"drivers/{driver}".encode()),
        ]
    return (*found, *extra)


def ways(control: str, *, to: tuple[str, ...] = (A, B)) -> list[Section]:
    """Both GPUs below PORT and LEAF; LEAF has this register."""
    found = [Section("path", f"{node.PCI}/{name}", f"{PORT} {LEAF} {name}".encode()) for name in to]
    return [
        *found,
        Section("acs", f"{node.PCI}/{PORT}", b"none\n"),
        Section("acs", f"{node.PCI}/{LEAF}", f"{control}\n".encode()),
    ]


@pytest.mark.parametrize(
    ("control", "status"),
    [
        ("control 0x001d", Status.WARN),
        ("control 0x0004", Status.WARN),
        ("control 0x0008", Status.WARN),
        ("control 0x0001", Status.PASS),
        ("control 0x0011", Status.PASS),
        ("none", Status.PASS),
    ],
)
def test_only_redirection_of_requests_or_completions_is_a_finding(
    control: str, status: Status, judged: Judged, healthy: Healthy
) -> None:
    finding = judged(healthy(2), bus(*ways(control)))["pcie.acs", "host"]
    assert finding.status is status
    assert (LEAF in finding.message) == (status is Status.WARN)


def test_a_bridge_on_nobody_s_way_is_no_finding(judged: Judged, healthy: Healthy) -> None:
    stray = Section("acs", f"{node.PCI}/0000:82:00.0", b"control 0x001d\n")
    assert judged(healthy(2), bus(*ways("none"), stray))["pcie.acs", "host"].status is Status.PASS


def test_a_bridge_that_could_not_be_read_is_unknown(judged: Judged, healthy: Healthy) -> None:
    closed = [*ways("none")[:-1], Section("acs", f"{node.PCI}/{LEAF}", None, "it is for root")]
    finding = judged(healthy(2), bus(*closed))["pcie.acs", "host"]
    assert finding.status is Status.UNKNOWN
    assert "root" in (finding.fix or "")


def test_one_bad_bridge_is_told_even_where_another_is_closed(judged: Judged, healthy: Healthy) -> None:
    mixed = [*ways("control 0x001d")]
    mixed[2] = Section("acs", f"{node.PCI}/{PORT}", None, "closed")
    assert judged(healthy(2), bus(*mixed))["pcie.acs", "host"].status is Status.WARN


def test_one_gpu_or_none_of_its_bridges_is_a_skip(judged: Judged, healthy: Healthy) -> None:
    alone = [Section("path", f"{node.PCI}/{A}", f"{PORT} {A}".encode())]
    assert judged(healthy(2), bus(*alone))["pcie.acs", "host"].status is Status.SKIP
    flat = [Section("path", f"{node.PCI}/{name}", name.encode()) for name in (A, B)]
    assert judged(healthy(2), bus(*flat))["pcie.acs", "host"].status is Status.SKIP
    assert ("pcie.acs", "host") not in judged(healthy(2), bus()), "no way was looked at"


def test_gpus_for_virtual_machines_need_acs(judged: Judged, healthy: Healthy) -> None:
    findings = judged(healthy(2), bus(*ways("control 0x001d"), driver="vfio-pci"))
    assert ("pcie.acs", "host") not in findings


def groups(*kinds: str | None, cpu: bytes = b"") -> list[Section]:
    found = [Section("file", host_bus.CPU, cpu), Section("file", host_bus.CMDLINE, b"intel_iommu=on")]
    for number, (name, kind) in enumerate(zip((A, B), kinds, strict=False)):
        link = None if kind is None else f"../../kernel/iommu_groups/{number}".encode()
        found.append(Section("link", f"{node.PCI}/{name}/iommu_group", link))
        if kind is not None:
            found.append(Section("file", f"{host_bus.GROUPS}/{number}/type", f"{kind}\n".encode()))
    return found


@pytest.mark.parametrize(
    ("kinds", "cpu", "status"),
    [
        (("identity", "identity"), b"", Status.PASS),
        (("DMA", "DMA"), b"", Status.WARN),
        (("DMA-FQ", "identity"), b"", Status.WARN),
        ((None, None), b"", Status.PASS),
        ((None, None), b"hypervisor\n", Status.SKIP),
        (("DMA",), b"", Status.SKIP),
    ],
)
def test_a_translating_iommu_between_gpus_is_told(
    kinds: tuple[str | None, ...], cpu: bytes, status: Status, judged: Judged, healthy: Healthy
) -> None:
    finding = judged(healthy(2), bus(*groups(*kinds, cpu=cpu)))["node.iommu", "host"]
    assert finding.status is status
    if status is Status.WARN:
        assert "intel_iommu=on" in (finding.cause or "")


def test_groups_that_are_not_in_the_record_are_left_out(judged: Judged, healthy: Healthy) -> None:
    assert ("node.iommu", "host") not in judged(healthy(2), bus())


def switched(*services: Section) -> tuple[Section, ...]:
    at = f"{node.PCI}/{SWITCH}"
    there = (Section("file", f"{at}/vendor", b"0x10de\n"), Section("file", f"{at}/class", b"0x068000\n"))
    return bus(*there, *services)


def running(*names: str) -> Section:
    return Section("services", host_services.PROCESSES, "".join(f"{name}\n" for name in names).encode())


def version(text: str) -> Section:
    return Section("package", "nvidia-fabricmanager", f"{text}\n".encode())


@pytest.mark.parametrize(
    ("services", "status"),
    [
        ((running("nv-fabricmanager"), version("580.159.04")), Status.PASS),
        ((running("nv-fabricmanager"), version("580.95.05")), Status.FAIL),
        ((running("nv-fabricmanager"),), Status.PASS),
        ((running("nvidia-persistenced"), version("580.159.04")), Status.FAIL),
        ((), Status.SKIP),
    ],
)
def test_switches_need_fabric_manager_in_the_driver_s_version(
    services: tuple[Section, ...], status: Status, judged: Judged, healthy: Healthy
) -> None:
    assert judged(healthy(2), switched(*services))["fabric.manager", "host"].status is status


def test_without_a_switch_no_fabric_manager_is_missed(judged: Judged, healthy: Healthy) -> None:
    assert judged(healthy(2), bus(running()))["fabric.manager", "host"].status is Status.SKIP


def test_a_container_cannot_see_its_host_s_services(judged: Judged, healthy: Healthy) -> None:
    inside = Section("file", "/run/systemd/container", b"lxc\n")
    assert judged(healthy(2), (*switched(running()), inside))["fabric.manager", "host"].status is Status.SKIP


def rdma(*states: str) -> list[Section]:
    names = [f"mlx5_{n}" for n in range(len(states))]
    found = [Section("dir", host_bus.RDMA, "".join(f"{name}\n" for name in names).encode())]
    return found + [
        Section("file", f"{host_bus.RDMA}/{name}/ports/1/state", f"{state}\n".encode())
        for name, state in zip(names, states, strict=True)
    ]


def test_peermem_is_missed_only_where_a_card_is_up(judged: Judged, healthy: Healthy) -> None:
    def status(*sections: Section) -> Status | None:
        found = judged(healthy(2), bus(*sections)).get(("driver.peermem", "host"))
        return found.status if found else None

    modules = Section("file", host_bus.MODULES, b"nvidia_uvm 1 0\nnvidia 1 0\n")
    loaded = Section("file", host_bus.MODULES, b"nvidia_peermem 1 0\nnvidia 1 0\n")
    assert status(*rdma("4: ACTIVE"), modules) is Status.WARN
    assert status(*rdma("4: ACTIVE"), loaded) is Status.PASS
    assert status(*rdma("1: DOWN"), modules) is None
    assert status(*rdma("4: ACTIVE")) is None, "modules are not in the record"
    version = Section(
        "file", node.MODULE_VERSIONS[1], b"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64 580.1.1 "
    )
    for release, wanted in ((b"5.12.0\n", Status.PASS), (b"6.1.0\n", Status.PASS), (b"5.4.0\n", Status.WARN)):
        kernel = Section("file", host_bus.RELEASE, release)
        assert status(*rdma("4: ACTIVE"), modules, version, kernel) is wanted
        assert status(*rdma("4: ACTIVE"), modules, kernel) is Status.WARN, "the closed module has no DMA-BUF"


def test_a_whole_machine_is_looked_at_below_its_root(tmp_path: Path) -> None:
    root = tmp_path
    chain = root / "sys/devices/pci0000:00" / PORT / LEAF
    bus_folder = root / "sys/bus/pci/devices"
    bus_folder.mkdir(parents=True)
    for name, at in ((PORT, chain.parent), (LEAF, chain), (A, chain / A)):
        at.mkdir(parents=True, exist_ok=True)
        (bus_folder / name).symlink_to(at)
    gpu = chain / A
    for key, value in (
        ("vendor", "0x10de"),
        ("class", "0x030200"),
        ("device", "0x2335"),
        ("local_cpulist", "0-3,8"),
    ):
        (gpu / key).write_text(f"{value}\n")
    (chain / "config").write_bytes(config(0x1D))
    (chain.parent / "config").write_bytes(config(0)[:64])
    (root / "proc").mkdir()
    (root / "proc/cmdline").write_text("root=/dev/sda secret=hunter2 iommu=pt intel_iommu=on\n")
    (root / "proc/cpuinfo").write_text("flags\t\t: fpu hypervisor vme\n")
    sections = node.look(str(root))
    assert b"hunter2" not in b"".join(section.data or b"" for section in sections)
    seen = node.parse(sections, "test")
    (ports,) = seen.bus.ports.values()
    assert [port.bdf for port in ports] == [PORT, LEAF]
    assert ports[0].error is not None
    assert ports[1].redirects
    assert seen.bus.options == ("iommu=pt", "intel_iommu=on")
    assert seen.bus.virtual is True
    assert list(seen.bus.cpus.values()) == [frozenset({0, 1, 2, 3, 8})]


def test_the_package_s_version_is_read_from_dpkg(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/comm").write_text("nv-fabricmanage\n")
    (tmp_path / "var/lib/dpkg/status").write_text(
        "Package: nvidia-fabricmanager-550\nStatus: deinstall ok config-files\nVersion: 550.1.1-1\n\n"
        "Package: nvidia-fabricmanager-580\nStatus: install ok installed\nArchitecture: amd64\n"
        "Version: 580.159.04-0ubuntu1\n\nPackage: zlib\nStatus: install ok installed\nVersion: 1:1.3\n"
    )
    by = {(s.kind, s.path): s for s in host_services.look(str(tmp_path), switches=True)}
    services = host_services.parse(by)
    assert services is not None
    assert services.fabric_manager
    assert services.fabric_version == "580.159.04"
