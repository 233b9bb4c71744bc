"""What was not looked at is never called free: places that cannot be read, and kinds that a tree says nothing of."""

from __future__ import annotations

import io
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
WHOLE = "/etc\n/run\n/usr\n/var\n"
"""What a record lists as absent: all places that its tree does not have."""


def seen(name: str, *, whole: bool = True) -> Snapshot:
    """The machine of that name without its virtual machine 130; ``whole``: a record that was made of all places."""
    snapshot = observe_tree(MACHINES / name, requests(recorded=True))
    found = {key: one for key, one in snapshot.sections.items() if not key[1].endswith("/130.conf")}
    found["cmd", "dmesg"], found["rc", "dmesg"] = Section("cmd", "dmesg", b""), Section("rc", "dmesg", b"0\n")
    if whole:
        found["file", "/.kpro/absent"] = Section("file", "/.kpro/absent", WHOLE.encode())
    return Snapshot(found)


def unread(snapshot: Snapshot, path: str, kind: str = "file") -> Snapshot:
    return Snapshot({**snapshot.sections, (kind, path): Section(kind, path, None, "cannot be read")})


def shown(report: Report) -> str:
    out = io.StringIO()
    show([report], Console(file=out, width=200))
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("file", "/etc/kernel/cmdline"),
        ("file", "/etc/modprobe.d/odd.conf"),
        ("file", "/etc/udev/rules.d/9-x.rules"),
        ("file", "/usr/local/sbin/bind-gpus"),
        ("dir", "/etc/modprobe.d"),
    ],
)
def test_a_place_that_cannot_be_read_takes_no_other_away_and_makes_the_release_unknown(
    kind: str, path: str
) -> None:
    report = examine(unread(seen("kpro5-locked"), path, kind), recorded=True)
    for gpu in report.gpus or ():
        assert "/etc/modprobe.d/vfio.conf:1" in {f"{held.path}:{held.line}" for held in gpu.holders}
        assert path in gpu.holders_not_looked_at
        assert path in gpu.release.not_looked_at
        assert gpu.release.how == "unknown"
    assert f"holders in {path}" in report.unknown


def test_a_place_of_bytes_that_are_no_text_takes_no_other_away() -> None:
    path = "/etc/modprobe.d/odd.conf"
    odd = {**seen("kpro5-locked").sections, ("file", path): Section("file", path, b"options a\0b\n")}
    for gpu in examine(Snapshot(odd), recorded=True).gpus or ():
        assert "/etc/modprobe.d/vfio.conf:1" in {f"{held.path}:{held.line}" for held in gpu.holders}
        assert path in gpu.holders_not_looked_at
        assert gpu.release.how == "unknown"


def test_a_file_that_holds_no_gpu_may_be_unreadable() -> None:
    report = examine(unread(seen("kpro5-locked"), "/etc/debian_version"), recorded=True)
    assert {(gpu.release.how, gpu.release.not_looked_at) for gpu in report.gpus or ()} == {("online", ())}


def test_a_gpu_on_nvidia_is_not_called_free_where_a_place_cannot_be_read() -> None:
    report = examine(unread(seen("kpro5"), "/etc/modprobe.d/odd.conf"), recorded=True)
    assert {gpu.release.how for gpu in report.gpus or ()} == {"unknown"}
    assert "nothing holds it" not in shown(report)


def test_a_gpu_on_nvidia_of_a_part_of_a_tree_names_what_was_not_looked_at() -> None:
    report = examine(seen("kpro5", whole=False), recorded=True)
    for gpu in report.gpus or ():
        assert gpu.release.how == "nothing"
        assert "virtual machines of libvirt" in gpu.release.not_looked_at
    assert "what holds it at the next boot was not looked at" in shown(report)
    assert "nothing holds it" not in shown(report)


def test_a_gpu_on_nvidia_that_nothing_holds_has_nothing_to_release() -> None:
    report = examine(seen("kpro5"), recorded=True)
    assert {(gpu.release.how, gpu.release.not_looked_at) for gpu in report.gpus or ()} == {("nothing", ())}
    free = [gpu for gpu in report.gpus or () if not gpu.holders]
    assert ("nothing holds it" in shown(report)) is bool(free)


def test_a_live_machine_without_a_folder_is_looked_at_whole() -> None:
    report = examine(seen("kpro5-locked", whole=False))
    assert {(gpu.release.how, gpu.holders_not_looked_at) for gpu in report.gpus or ()} == {("online", ())}


def test_reservations_that_cannot_be_read_are_not_none() -> None:
    path = "/run/qemu-server/pci-id-reservations"
    broken = Snapshot({**seen("kpro5-locked").sections, ("file", path): Section("file", path, b"odd\n")})
    for gpu in examine(broken, recorded=True).gpus or ():
        assert "reservations of devices" in gpu.use_not_looked_at
        assert gpu.release.how == "unknown"
