"""Rules about the host: driver, library, count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.gpus import node
from checks.model import Finding, Status, verdict_of
from checks.record import Section

Dump = dict[str, Any]
Judged = Callable[..., dict[tuple[str, str], Finding]]
Healthy = Callable[..., Dump]


def started_with(code: object, text: str = "said") -> Dump:
    return {"nvmlInit": {"err": code, "cls": "NVMLError", "msg": text}}


def bus(*gpus: tuple[str, str | None]) -> tuple[Section, ...]:
    """Sections of a bus with these GPUs, each with its driver."""
    listing = "".join(f"{bdf}\n" for bdf, _ in gpus).encode()
    sections = [Section("dir", node.PCI, listing)]
    for bdf, driver in gpus:
        at = f"{node.PCI}/{bdf}"
        link = f"../../../bus/pci/drivers/{driver}".encode() if driver else None
        sections += [
            Section("file", f"{at}/vendor", b"0x10de\n"),
            Section("file", f"{at}/class", b"0x030200\n"),
            Section("link", f"{at}/driver", link),
        ]
    return tuple(sections)


NO_MODULE = tuple(Section("file", path) for path in node.MODULE_VERSIONS)


def test_without_a_driver_and_without_expectation_the_answer_is_unknown(judged: Judged) -> None:
    findings = judged(started_with(12), NO_MODULE)
    assert verdict_of(findings.values()) is Status.UNKNOWN
    assert Status.PASS not in {f.status for f in findings.values()}
    assert "--expect 0" in (findings["gpu.count", "host"].fix or "")


def test_a_module_known_to_be_absent_fails_where_gpus_are_expected(judged: Judged) -> None:
    sections = (*NO_MODULE, *bus(("0000:42:00.0", "vfio-pci"), ("0000:61:00.0", None)))
    finding = judged(started_with(12), sections, 2)["driver.loaded", "host"]
    assert finding.status is Status.FAIL
    assert "0000:42:00.0 (vfio-pci), 0000:61:00.0 (no driver)" in (finding.cause or "")
    assert "vfio-pci" in (finding.fix or "")


def test_a_module_that_nobody_looked_for_is_unknown_not_absent(judged: Judged) -> None:
    unreadable = tuple(Section("file", path, None, "Permission denied") for path in node.MODULE_VERSIONS)
    for sections in ((), unreadable):
        assert judged(started_with(12), sections, 2)["driver.loaded", "host"].status is Status.UNKNOWN


@pytest.mark.parametrize(("expect", "status"), [(2, Status.FAIL), (None, Status.UNKNOWN)])
def test_driver_not_loaded_by_nvmls_own_word(expect: int | None, status: Status, judged: Judged) -> None:
    assert judged(started_with(9), (), expect)["driver.loaded", "host"].status is status


def test_a_mismatch_names_both_versions(judged: Judged) -> None:
    sections = (
        Section("file", node.MODULE_VERSIONS[0], b"570.148.06\n"),
        Section("link", node.LIBRARY, b"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.148.08"),
    )
    findings = judged(started_with(18), sections, 2)
    finding = findings["driver.library", "host"]
    assert finding.status is Status.FAIL
    assert (finding.limit, finding.value) == ("570.148.06", "570.148.08")
    assert findings["driver.loaded", "host"].status is Status.PASS
    assert findings["gpu.ecc", "host"].status is Status.UNKNOWN


def test_the_module_version_is_read_from_the_open_modules_banner() -> None:
    banner = (
        b"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  (b@u16-24-9-2)\n"
    )
    assert node.parse((Section("file", node.MODULE_VERSIONS[1], banner),), "x").module == "565.57.01"


@pytest.mark.parametrize(
    ("code", "word"),
    [
        (999, "restart the container"),
        (4, "user who may open"),
        (12, "user-space"),
        ("ForeignBinding", "uninstall"),
    ],
)
def test_each_way_of_not_starting_names_its_mend(code: object, word: str, judged: Judged) -> None:
    finding = judged(started_with(code), (), 1)["driver.library", "host"]
    assert finding.status is Status.UNKNOWN
    assert word in (finding.fix or "")


def test_a_library_of_another_version_that_works_is_a_warning(healthy: Healthy, judged: Judged) -> None:
    data = healthy(1)
    data["nvmlSystemGetNVMLVersion"] = "13.580.95.05"
    assert judged(data)["driver.library", "host"].status is Status.WARN
    data["nvmlSystemGetNVMLVersion"] = {"err": 999, "msg": "x"}
    assert judged(data)["driver.library", "host"].status is Status.UNKNOWN


@pytest.mark.parametrize(("driver", "status"), [("560.35.03", Status.FAIL), ("570.86.10", Status.PASS)])
def test_blackwell_needs_driver_570(driver: str, status: Status, healthy: Healthy, judged: Judged) -> None:
    data = healthy(1)
    data["nvmlSystemGetDriverVersion"] = driver
    data["devices"][0]["nvmlDeviceGetArchitecture"] = 10
    assert judged(data)["driver.floor", "host"].status is status


@pytest.mark.parametrize(
    ("expect", "status"),
    [(None, Status.PASS), (2, Status.PASS), (3, Status.FAIL), (1, Status.WARN)],
)
def test_count_against_expectation(
    expect: int | None, status: Status, healthy: Healthy, judged: Judged
) -> None:
    finding = judged(healthy(2), (), expect)["gpu.count", "host"]
    assert (finding.status, finding.value) == (status, 2)


def test_no_gpu_and_no_expectation_is_unknown(healthy: Healthy, judged: Judged) -> None:
    assert verdict_of(judged(healthy(0)).values()) is Status.UNKNOWN


def test_none_wanted_and_none_seen_passes_zero_of_zero(healthy: Healthy, judged: Judged) -> None:
    for data in (healthy(0), started_with(12), started_with("Timeout")):
        findings = judged(data, (), 0)
        assert findings["gpu.count", "host"].message == "0 of 0 GPUs"
        assert verdict_of(findings.values()) is Status.PASS
        assert [f.id for f in findings.values() if f.status is not Status.SKIP] == ["gpu.count"]


def test_none_wanted_and_two_seen_is_said(healthy: Healthy, judged: Judged) -> None:
    assert judged(healthy(2), (), 0)["gpu.count", "host"].status is Status.WARN


def test_a_gpu_that_the_driver_holds_and_nvml_does_not_list_fails(healthy: Healthy, judged: Judged) -> None:
    held = bus(("0000:10:00.0", "nvidia"), ("0000:11:00.0", "nvidia"), ("0000:12:00.0", "nvidia"))
    finding = judged(healthy(2), held)["gpu.count", "host"]
    assert finding.status is Status.FAIL
    assert "0000:12:00.0" in finding.message
    other = bus(("0000:10:00.0", "nvidia"), ("0000:11:00.0", "nvidia"), ("0000:12:00.0", "vfio-pci"))
    assert judged(healthy(2), other)["gpu.count", "host"].status is Status.PASS


def test_a_container_is_not_blamed_for_the_gpus_of_its_host(healthy: Healthy, judged: Judged) -> None:
    held = bus(("0000:10:00.0", "nvidia"), ("0000:11:00.0", "nvidia"), ("0000:12:00.0", "nvidia"))
    inside = (*held, Section("file", "/run/systemd/container", b"lxc\n"))
    assert judged(healthy(2), inside)["gpu.count", "host"].status is Status.PASS


def test_fewer_gpus_on_the_bus_than_expected_is_known_without_nvml(judged: Judged) -> None:
    finding = judged(started_with(12), bus(("0000:42:00.0", None)), 2)["gpu.count", "host"]
    assert (finding.status, finding.value, finding.limit) == (Status.FAIL, 1, 2)
    enough = bus(("0000:42:00.0", None), ("0000:61:00.0", None))
    assert judged(started_with(12), enough, 2)["gpu.count", "host"].status is Status.UNKNOWN


def test_nvswitches_and_audio_functions_are_no_gpus() -> None:
    sections = list(bus(("0000:42:00.0", "nvidia"), ("0000:42:00.1", None), ("0000:83:00.0", None)))
    for place, kind in (("0000:42:00.1", b"0x040300\n"), ("0000:83:00.0", b"0x068000\n")):
        sections = [s for s in sections if s.path != f"{node.PCI}/{place}/class"]
        sections.append(Section("file", f"{node.PCI}/{place}/class", kind))
    gpus = node.parse(sections, "x").gpus
    assert gpus is not None
    assert [str(gpu.bdf) for gpu in gpus] == ["0000:42:00.0"]


def test_looking_at_a_tree_finds_its_gpus_and_their_drivers(tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:42:00.0"
    device.mkdir(parents=True)
    for name, text in (("vendor", "0x10de\n"), ("device", "0x2230\n"), ("class", "0x030000\n")):
        (device / name).write_text(text)
    (device / "driver").symlink_to("../../../bus/pci/drivers/vfio-pci")
    (tmp_path / "sys/bus/pci/devices/0000:00:00.0").mkdir()
    seen = node.parse(node.look(str(tmp_path)), "tree")
    assert seen.gpus is not None
    assert seen.held_by() == "0000:42:00.0 (vfio-pci)"
    assert seen.module_absent
    assert not seen.container
    assert node.parse(node.look(str(tmp_path / "nothing")), "tree").gpus is None


@pytest.mark.parametrize("code", ["Timeout", "ChildDied"])
def test_a_hang_is_a_finding_and_nothing_is_green(code: str, judged: Judged) -> None:
    findings = judged(started_with(code), (), 2)
    assert findings["driver.responds", "host"].status is Status.UNKNOWN
    assert Status.PASS not in {f.status for f in findings.values()}


def test_a_gpu_that_hangs_the_driver_is_named(healthy: Healthy, judged: Judged) -> None:
    data = healthy(3)
    data["devices"][1:] = [{"handle": {"err": "Timeout", "msg": "no answer within 30 s"}}] * 2
    finding = judged(data, (), 3)["driver.responds", "host"]
    assert finding.status is Status.UNKNOWN
    assert "gpu1" in finding.message


@pytest.mark.parametrize("code", [9, 12])
def test_an_empty_bus_is_said_first_and_no_module_is_advised(code: int, judged: Judged) -> None:
    findings = judged(started_with(code), (*NO_MODULE, *bus()))
    for identity in ("driver.loaded", "driver.library", "gpu.count"):
        found = findings[identity, "host"]
        assert "no NVIDIA GPU is on the PCI bus" in f"{found.message} {found.cause}"
        assert "modprobe" not in (found.fix or "")
        assert "install" not in (found.fix or "")
        assert "--expect 0" in (found.fix or "")
    wanted = judged(started_with(code), (*NO_MODULE, *bus()), 2)["driver.loaded", "host"]
    assert wanted.status is Status.FAIL
    assert "--expect 0" not in (wanted.fix or "")


def test_with_gpus_on_the_bus_the_module_is_advised(judged: Judged) -> None:
    sections = (*NO_MODULE, *bus(("0000:42:00.0", None)))
    assert "modprobe nvidia" in (judged(started_with(9), sections)["driver.loaded", "host"].fix or "")
