"""The snapshot: three answers to every look, and never the third taken for the second."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks import snapshot
from checks.snapshot import CouldNotLook, Snapshot, SnapshotError


def look(*requests: str, root: Path | None = None) -> Snapshot:
    done = subprocess.run(
        ["sh", "-c", snapshot.script(), "sh", *requests],
        env={**os.environ, "ROOT": str(root) if root else ""},
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    return snapshot.parse(done.stdout)


def test_there_absent_and_unreadable_are_three_answers(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"\x00\xff raw\n")
    (tmp_path / "folder").mkdir()
    seen = look(f"file:{tmp_path}/there", f"file:{tmp_path}/absent", f"file:{tmp_path}/folder")
    assert seen.file(f"{tmp_path}/there") == b"\x00\xff raw\n"
    assert seen.file(f"{tmp_path}/absent") is None
    with pytest.raises(CouldNotLook, match="is a folder"):
        seen.file(f"{tmp_path}/folder")


def test_what_was_never_asked_for_is_not_absent() -> None:
    with pytest.raises(CouldNotLook, match="was not asked for"):
        look("cmd:x:true").file("/etc/passwd")


def test_a_command_gives_its_exit_code_and_all_its_words() -> None:
    seen = look("cmd:both:echo out; echo err >&2; exit 7", "cmd:silent:true")
    assert seen.command("both") == (7, "out\nerr\n")
    assert seen.command("silent")[0] == 0


def test_digest_mode_and_tools(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("hello")
    file.chmod(0o640)
    seen = look(f"sha:{file}", f"stat:{file}", f"sha:{file}.no", "tool:sh", "tool:no-such-tool")
    assert seen.digest(str(file)) == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert (seen.data("stat", str(file)) or b"").split()[0] == b"640"
    assert seen.digest(f"{file}.no") is None
    assert seen.has_tool("sh")
    assert not seen.has_tool("no-such-tool")


def test_a_recorded_tree_is_read_by_the_same_script_and_runs_no_command(tmp_path: Path) -> None:
    commands = tmp_path / ".kpro/cmd"
    commands.mkdir(parents=True)
    (commands / "uname-r.out").write_text("6.8.12-1-pve\n")
    (commands / "broken.out").write_text("no\n")
    (commands / "broken.rc").write_text("3\n")
    (commands / "tools.out").write_text("pct\n")
    proof = tmp_path / "was-run"
    seen = look(
        f"cmd:uname-r:touch {proof}",
        "cmd:broken:true",
        "cmd:missing:true",
        "tool:pct",
        "tool:sh",
        root=tmp_path,
    )
    assert seen.command("uname-r") == (0, "6.8.12-1-pve\n")
    assert seen.command("broken")[0] == 3
    assert seen.has_tool("pct")
    assert not seen.has_tool("sh")
    with pytest.raises(CouldNotLook, match="recorded tree"):
        seen.command("missing")
    assert not proof.exists()


def test_pci_functions_of_the_vendor_are_seen_with_driver_group_and_override(tmp_path: Path) -> None:
    for bdf, vendor, driver in (
        ("0000:42:00.0", "0x10de", "vfio-pci"),
        ("0000:00:1f.0", "0x8086", "lpc_ich"),
    ):
        device = tmp_path / "sys/bus/pci/devices" / bdf
        device.mkdir(parents=True)
        for name, text in (
            ("vendor", vendor),
            ("device", "0x2230"),
            ("class", "0x030000"),
            ("driver_override", "(null)"),
        ):
            (device / name).write_text(f"{text}\n")
        (device / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
        (device / "iommu_group").symlink_to("../../../kernel/iommu_groups/27")
    seen = look("pci:", root=tmp_path)
    assert list(seen.paths("pci")) == ["/sys/bus/pci/devices", "0000:42:00.0"]
    assert b"driver=vfio-pci\ngroup=27\n" in (seen.data("pci", "0000:42:00.0") or b"")


def test_a_file_beyond_the_limit_is_not_cut_in_silence(tmp_path: Path) -> None:
    (tmp_path / "exact").write_bytes(b"x" * snapshot.LIMIT)
    (tmp_path / "big").write_bytes(b"x" * (snapshot.LIMIT + 1))
    seen = look(f"file:{tmp_path}/exact", f"file:{tmp_path}/big")
    assert len(seen.file(f"{tmp_path}/exact") or b"") == snapshot.LIMIT
    with pytest.raises(CouldNotLook, match="larger than"):
        seen.file(f"{tmp_path}/big")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.characters(blacklist_characters="/\0", codec="utf-8"), min_size=1, max_size=40),
    st.binary(max_size=300),
)
def test_any_name_and_any_bytes_survive(tmp_path: Path, name: str, data: bytes) -> None:
    if name in (".", "..") or len(name.encode()) > 200:
        return
    file = tmp_path / f"x{name}"
    file.write_bytes(data)
    assert look(f"file:{file}").file(str(file)) == data


@pytest.mark.parametrize("cut", [2, 5, 30])
def test_a_snapshot_that_was_cut_off_is_refused(cut: int) -> None:
    whole = subprocess.run(
        ["sh", "-c", snapshot.script(), "sh", "cmd:a:echo a", "cmd:b:echo b"], capture_output=True, check=True
    ).stdout
    snapshot.parse(whole)
    with pytest.raises(SnapshotError):
        snapshot.parse(whole[:-cut])


@pytest.mark.parametrize(
    "line",
    [
        b"S file /x 3 YQ==\nE 1\n",
        b"nonsense\nE 1\n",
        b"S file /x 4 !!!!\nE 1\n",
        b"",
        b"S file /x 4 YQ==\nE 2\n",
    ],
)
def test_a_malformed_snapshot_is_refused(line: bytes) -> None:
    with pytest.raises(SnapshotError):
        snapshot.parse(line)
