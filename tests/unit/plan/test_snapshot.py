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
from provision.host import boot, view
from tests.unit.plan.seen import Seen


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


def test_what_is_asked_twice_has_one_answer() -> None:
    seen = look("cmd:a:echo one; exit 3", "cmd:a:echo one; exit 3")
    assert seen.command("a") == (3, "one\n")


def test_a_code_that_is_none_is_no_answer() -> None:
    with pytest.raises(CouldNotLook):
        snapshot.parse(b"T rc a\n|x\nT cmd a\n|y\nE 2\n").command("a")


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


def test_many_files_are_read_at_once_and_told_apart(tmp_path: Path) -> None:
    for name, data in (("a", b"x\n==> ./b <==\n"), ("b", b""), ("c", b"no end"), ("d e", b"odd\n")):
        (tmp_path / name).write_bytes(data)
    seen = look(f"glob:{tmp_path}/*", f"file:{tmp_path}/a", f"file:{tmp_path}/none")
    assert [seen.file(f"{tmp_path}/{name}") for name in ("a", "b", "c", "d e", "none")] == [
        b"x\n==> ./b <==\n",
        b"",
        b"no end",
        b"odd\n",
        None,
    ]


def test_a_file_that_imitates_the_beginning_of_another_makes_both_unseen(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"x\n==> .{tmp_path}/b <==\nfalse\n")
    (tmp_path / "b").write_text("true\n")
    seen = look(f"file:{tmp_path}/a", f"file:{tmp_path}/b")
    for name in ("a", "b"):
        with pytest.raises(CouldNotLook, match="told apart"):
            seen.file(f"{tmp_path}/{name}")
    assert look(f"file:{tmp_path}/a").file(f"{tmp_path}/a") is not None


def test_one_file_that_fails_while_it_is_read_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("fine\n")
    fails = "/proc/self/mem"
    seen = look(f"file:{tmp_path}/a", f"file:{fails}")
    assert seen.text(f"{tmp_path}/a") == "fine\n"
    with pytest.raises(CouldNotLook, match="cannot be read"):
        seen.file(fails)


def test_a_link_among_the_files_is_marked(tmp_path: Path) -> None:
    (tmp_path / "real.conf").write_text("x\n")
    (tmp_path / "link.conf").symlink_to("real.conf")
    seen = look(f"glob:{tmp_path}/*.conf")
    assert list(seen.paths("linked")) == [f"{tmp_path}/link.conf"]
    assert seen.text(f"{tmp_path}/link.conf") == "x\n"


def test_only_files_that_hold_the_words_are_sent(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text("vfio\n")
    (tmp_path / "b.rules").write_text("nothing\n")
    seen = look(f"with:vfio|driver_override:{tmp_path}/*.rules", f"with:vfio:{tmp_path}/none/*")
    assert list(seen.paths("file")) == [f"{tmp_path}/a.rules"]


def test_names_are_listed_without_being_read(tmp_path: Path) -> None:
    for name in ("vmlinuz-6.1.0-9", "vmlinuz-6.1.0-50"):
        (tmp_path / name).touch()
    seen = look(f"names:{tmp_path}/vmlinuz-*", f"names:{tmp_path}/none-*")
    assert (seen.data("names", f"{tmp_path}/vmlinuz-*") or b"").decode().split() == [
        f"{tmp_path}/vmlinuz-6.1.0-50",
        f"{tmp_path}/vmlinuz-6.1.0-9",
    ]
    assert seen.data("names", f"{tmp_path}/none-*") == b"\n"


def test_a_long_or_odd_answer_comes_through_whole() -> None:
    seen = look(
        "cmd:long:seq 1 2000",
        r"cmd:odd:printf '|a\tb\n\n  \\n \303\244\n'",
        r"cmd:plain:printf '|a\tb\n\n \\n\n'",
    )
    assert seen.command("long")[1].split() == [str(number) for number in range(1, 2001)]
    assert seen.command("odd")[1] == "|a\tb\n\n  \\n \u00e4\n"
    assert seen.command("plain")[1] == "|a\tb\n\n \\n\n"


def function(root: Path, bdf: str, group: str, driver: str, **files: str | bytes) -> None:
    device = root / "sys/bus/pci/devices" / bdf
    device.mkdir(parents=True)
    for name, data in {"vendor": "0x10de\n", "device": "0x2230\n", "class": "0x030000\n", **files}.items():
        (device / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    if driver:
        (device / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    members = root / "sys/kernel/iommu_groups" / group / "devices"
    members.mkdir(parents=True, exist_ok=True)
    (members / bdf).symlink_to(f"../../../../bus/pci/devices/{bdf}")
    (device / "iommu_group").symlink_to(f"../../../../kernel/iommu_groups/{group}")


def test_the_neighbours_of_nvidia_s_functions_are_seen_and_nobody_else(tmp_path: Path) -> None:
    function(tmp_path, "0000:42:00.0", "25", "vfio-pci")
    function(tmp_path, "0000:40:01.1", "25", "pcieport", vendor="0x1022\n", **{"class": "0x060400\n"})
    function(tmp_path, "0000:00:1f.0", "3", "lpc_ich", vendor="0x8086\n")
    seen = view.group_functions(look("pci:", root=tmp_path))
    assert [(str(one.bdf), one.driver, one.group) for one in seen] == [
        ("0000:40:01.1", "pcieport", "25"),
        ("0000:42:00.0", "vfio-pci", "25"),
    ]
    assert seen[0].is_bridge
    assert not seen[0].is_nvidia


def test_what_a_function_says_of_itself_is_read(tmp_path: Path) -> None:
    zero = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
    window = "0x0000020000000000 0x0000020fffffffff 0x000000000014220c\n"
    function(
        tmp_path,
        "0000:42:00.0",
        "25",
        "vfio-pci",
        config=bytes.fromhex("de103022ff"),
        resource=zero + window + zero,
        power_state="D3hot\n",
        boot_vga="1\n",
        driver_override="vfio-pci\n",
    )
    (tmp_path / "sys/bus/pci/devices/0000:42:00.0/vfio-dev/vfio3").mkdir(parents=True)
    function(
        tmp_path, "0000:61:00.0", "10", "", config=b"\xff" * 8, resource=zero * 3, driver_override="(null)\n"
    )
    function(tmp_path, "0000:81:00.0", "11", "nvidia")
    first, lost, bare = view.group_functions(look("pci:", root=tmp_path))
    assert (first.config, first.bar1, first.power_state, first.boot_vga) == (
        "de103022",
        64 << 30,
        "D3hot",
        True,
    )
    assert (first.override, first.vfio_dev) == ("vfio-pci", "vfio3")
    assert (lost.config, lost.bar1, lost.driver, lost.override, lost.locked) == (
        "ffffffff",
        0,
        None,
        None,
        False,
    )
    assert (bare.config, bare.bar1, bare.vfio_dev) == (None, None, None)


def test_a_function_that_the_kernel_holds_is_locked_and_not_without_an_override(tmp_path: Path) -> None:
    host = Seen().put("pci", "/sys/bus/pci/devices", "").gpu("0000:42:00.0", driver="", override="?")
    (held,) = view.group_functions(host.snapshot)
    assert (held.locked, held.override) == (True, None)


def test_who_has_device_files_open_is_found_with_pid_and_command(tmp_path: Path) -> None:
    (request,) = (request for request in boot.REQUESTS if request.startswith("cmd:openers:"))
    held = tmp_path / "unbind"
    held.touch()
    with held.open():
        found = boot.openers(look(request))
    assert [opener.pid for opener in found if opener.target == str(held)] == [os.getpid()]
    assert all(opener.command for opener in found if opener.pid == os.getpid())
    assert not [opener for opener in boot.openers(look(request)) if opener.target == str(held)]
