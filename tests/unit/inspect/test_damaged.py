"""A recorded tree with something missing, cut off or full of garbage: no traceback, and unknown is said."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from checks.snapshot import Section, Snapshot
from provision.host.tree import observe_tree
from provision.inspect.examine import examine
from provision.inspect.report import Report
from provision.inspect.requests import requests
from provision.inspect.show import show

MACHINES = Path(__file__).resolve().parents[2] / "replay" / "machines"
GARBAGE = bytes(range(256)) * 2


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return observe_tree(MACHINES / "kpro5-locked", requests(recorded=True))


def examined(snapshot: Snapshot) -> Report:
    """The report; it can be shown and written as JSON."""
    report = examine(snapshot, recorded=True)
    show([report], Console(file=io.StringIO(), width=100))
    json.dumps(report.as_dict())
    return report


def changed(
    snapshot: Snapshot, key: tuple[str, str], data: bytes | None, error: str | None = None
) -> Snapshot:
    return Snapshot({**snapshot.sections, key: Section(*key, data, error)})


def without(snapshot: Snapshot, key: tuple[str, str]) -> Snapshot:
    return Snapshot({known: section for known, section in snapshot.sections.items() if known != key})


def test_every_section_may_be_missing_cut_or_garbage(snapshot: Snapshot) -> None:
    for key, section in snapshot.sections.items():
        data = section.data or b""
        for one in (
            without(snapshot, key),
            changed(snapshot, key, None, "larger than 1048576 bytes"),
            changed(snapshot, key, data[: len(data) // 2]),
            changed(snapshot, key, GARBAGE),
        ):
            examined(one)


def test_an_empty_tree_concludes_on_nothing_and_says_so(tmp_path: Path) -> None:
    report = examined(observe_tree(tmp_path, requests(recorded=True)))
    assert report.gpus is None
    for name in ("driver", "kernel_running", "dkms", "boot_loaders", "device_nodes", "containers", "majors"):
        assert report.host[name] == "unknown", name
    assert "GPUs" in report.unknown
    assert report.findings == report.holders == ()


def test_holders_that_were_not_recorded_are_not_none(tmp_path: Path) -> None:
    listing = tmp_path / ".kpro/cmd/lspci-Dnnk.out"
    listing.parent.mkdir(parents=True)
    listing.write_text(
        "0000:42:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102GL [RTX A6000] [10de:2230]\n"
        "\tKernel driver in use: vfio-pci\n"
    )
    (gpu,) = examined(observe_tree(tmp_path, requests(recorded=True))).gpus or ()
    assert gpu.holders == ()
    assert {"modprobe.d", "udev rules", "driverctl", "virtual machines of Proxmox"} <= set(
        gpu.holders_not_looked_at
    )
    assert gpu.release.how == "unknown"
    assert gpu.console == gpu.group == "unknown"
    assert gpu.minor == "none"
    assert "open device files" in gpu.use_not_looked_at


def test_openers_listed_by_a_user_who_sees_only_his_own_are_unknown(snapshot: Snapshot) -> None:
    one = changed(snapshot, ("cmd", "id-u"), b"1000\n")
    for gpu in examined(one).gpus or ():
        assert "open device files" in gpu.use_not_looked_at


def test_a_recorded_machine_tells_what_holds_its_gpus_and_how_they_are_released() -> None:
    report = examined(observe_tree(MACHINES / "kpro5-locked", requests(recorded=True)))
    assert [gpu.bdf for gpu in report.gpus or ()] == ["0000:42:00.0", "0000:61:00.0"]
    first = (report.gpus or ())[0]
    assert (first.driver, first.architecture) == ("vfio-pci", "ampere")
    places = [f"{held.path}:{held.line}" for held in first.holders]
    assert "/etc/modprobe.d/vfio.conf:1" in places
    assert "/etc/pve/nodes/kpro5/qemu-server/130.conf:4" in places
    assert first.release.how == "refused"
    assert {reason["row"] for reason in first.release.reasons} == {"vm-definition"}
    assert any(row["fits"] for row in first.drivers)


def test_a_gpu_that_no_machine_names_is_released_online_or_said_to_be_unsure() -> None:
    snapshot = observe_tree(MACHINES / "kpro5-locked", requests(recorded=True))
    kept = Snapshot(
        {key: one for key, one in snapshot.sections.items() if not key[1].endswith("qemu-server/130.conf")}
    )
    part = changed(changed(kept, ("cmd", "dmesg"), b""), ("rc", "dmesg"), b"0\n")
    assert {gpu.release.how for gpu in examined(part).gpus or ()} == {"unknown"}
    logged = changed(part, ("file", "/.kpro/absent"), b"/etc\n/usr\n")
    assert {gpu.release.how for gpu in examined(logged).gpus or ()} == {"online"}
    unsure = examined(without(logged, ("cmd", "dmesg"))).gpus or ()
    assert {gpu.release.how for gpu in unsure} == {"unknown"}
    assert {gpu.release.not_looked_at for gpu in unsure} == {("kernel log",)}


def test_a_machine_on_nvidia_has_nothing_to_release() -> None:
    report = examined(observe_tree(MACHINES / "kpro5", requests(recorded=True)))
    assert {gpu.release.how for gpu in report.gpus or ()} == {"nothing"}
    assert report.host["driver"] == {"version": "580.159.04", "flavour": "open"}
    assert [gpu.minor for gpu in report.gpus or ()] == ["0", "1"]
