"""Places that are there and cannot be read are never taken for absent, and a record shows nothing but itself."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.snapshot import CouldNotLook, parse, script
from provision.host import boot, shown
from provision.host.release import places
from provision.host.tree import observe_tree
from tests.unit.vms.tree import Tree

CONF = "/etc/modprobe.d/vfio.conf"
IDS = "options vfio-pci ids=10de:2230\n"


def _folder(path: Path) -> None:
    path.mkdir()


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


@pytest.mark.parametrize("odd", [_folder, os.mkfifo, _socket])
@pytest.mark.parametrize(
    "path",
    [
        CONF,
        "/etc/modules-load.d/vfio.conf",
        "/etc/udev/rules.d/9.rules",
        "/usr/lib/udev/rules.d/9.rules",
        "/etc/default/grub.d/a.cfg",
        "/etc/initramfs-tools/hooks/vfio",
        "/etc/driverctl.d/pci-0000:42:00.0",
        "/etc/systemd/system/a.service",
        "/etc/cron.d/a",
        "/proc/cmdline",
        "/proc/modules",
    ],
)
def test_what_is_no_file_is_not_known(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, path: str, odd: Callable[[Path], None]
) -> None:
    assert tree.plan.refusals == ()
    place = tree.root / path[1:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    monkeypatch.chdir(place.parent)
    odd(place)
    with pytest.raises(CouldNotLook, match=r"is a folder|is no regular file"):
        _ = tree.plan


def test_folders_among_files_without_an_ending_are_nothing_special(tree: Tree) -> None:
    tree.put("/etc/initramfs-tools/hooks/more/a", "x\n").put("/etc/driverctl.d/more/a", "x\n")
    assert tree.plan.refusals == ()


@pytest.mark.parametrize("path", ["/etc/modprobe.d", "/etc/systemd/system"])
def test_a_file_in_place_of_a_folder_is_not_known(tree: Tree, path: str) -> None:
    place = tree.root / path[1:]
    if place.is_dir():
        for one in place.iterdir():
            one.unlink()
        place.rmdir()
    tree.put(path, "")
    with pytest.raises(CouldNotLook, match="is no folder"):
        _ = tree.plan


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv: root reads everything")
@pytest.mark.parametrize(
    ("path", "why"),
    [(CONF, "cannot be read"), ("/etc/modprobe.d", "cannot be listed"), ("/etc", "cannot be looked into")],
)
def test_what_may_not_be_read_is_not_known(tree: Tree, path: str, why: str) -> None:
    """Root without its capabilities is bound by modes as everybody is."""
    tree.put(CONF, IDS)
    place = tree.root / path[1:]
    place.chmod(0)
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    try:
        done = subprocess.run(
            [*drop, "/bin/sh", "-c", script(), "sh", *boot.REQUESTS],
            env={"ROOT": str(tree.root), "PATH": os.environ["PATH"]},
            capture_output=True,
            check=True,
        )
    finally:
        place.chmod(0o755)
    with pytest.raises(CouldNotLook, match=why):
        boot.modprobe_files(parse(done.stdout))


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_running_command_line_is_not_known(tree: Tree, text: str) -> None:
    tree.put("/proc/cmdline", text)
    with pytest.raises(CouldNotLook, match="/proc/cmdline is empty"):
        _ = tree.plan


@pytest.mark.parametrize("path", [CONF, "/etc/default/grub", "/proc/modules"])
def test_what_is_no_text_is_not_known(tree: Tree, path: str) -> None:
    tree.put(path, "# a\0b\n")
    with pytest.raises(CouldNotLook, match=f"{path} is not readable as text"):
        _ = tree.plan


def test_a_cut_list_of_modules_is_not_known(tree: Tree) -> None:
    tree.put("/proc/modules", "vfio_pci 16384 0 - Live 0x0\nnvid")
    with pytest.raises(CouldNotLook, match="/proc/modules is not readable as a list of modules"):
        _ = tree.plan


@pytest.mark.parametrize(
    ("link", "target"),
    [
        (CONF, "{secret}"),
        (CONF, "../../../../../../../../../../../..{secret}"),
        ("/etc/modprobe.d", "{secret_folder}"),
    ],
)
def test_a_record_never_shows_a_file_of_the_machine_that_reads_it(
    tree: Tree, tmp_path_factory: pytest.TempPathFactory, link: str, target: str
) -> None:
    secret = tmp_path_factory.mktemp("controller") / "vfio.conf"
    secret.write_text(IDS)
    place = tree.root / link[1:]
    if place.is_dir():
        for one in place.iterdir():
            one.unlink()
        place.rmdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(target.format(secret=secret, secret_folder=secret.parent))
    snapshot = tree.snapshot
    assert all(IDS.encode() not in (section.data or b"") for section in snapshot.sections.values())
    if link == CONF:
        with pytest.raises(CouldNotLook, match="a link to what the tree does not have"):
            boot.modprobe_files(snapshot)


def test_links_of_a_record_lead_where_they_lead_on_its_machine(tree: Tree) -> None:
    tree.put("/usr/share/a.conf", IDS).link(CONF, "/usr/share/a.conf").link(
        "/etc/modprobe.d/b.conf", "/dev/null"
    )
    assert boot.modprobe_files(tree.snapshot)[CONF] == IDS
    assert not boot.modprobe_files(tree.snapshot)["/etc/modprobe.d/b.conf"].strip()
    tree.link("/etc/modprobe.d/c.conf", "c.conf")
    with pytest.raises(CouldNotLook, match="a link that leads nowhere"):
        boot.modprobe_files(tree.snapshot)


def test_the_twin_of_a_folder_in_lib_is_read_where_it_is_one_of_its_own(tree: Tree) -> None:
    tree.put("/lib/modprobe.d/a.conf", IDS).put("/lib/udev/rules.d/a.rules", "# vfio\n")
    assert "/lib/modprobe.d/a.conf" in boot.modprobe_files(tree.snapshot)
    assert "/lib/udev/rules.d/a.rules" in boot.udev_rules(tree.snapshot)


def test_a_lib_that_leads_to_usr_lib_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/modprobe.d").mkdir(parents=True)
    (tmp_path / "usr/lib/modprobe.d/a.conf").write_text(IDS)
    (tmp_path / "lib").symlink_to("usr/lib")
    assert list(boot.modprobe_files(observe_tree(tmp_path, boot.REQUESTS))) == ["/usr/lib/modprobe.d/a.conf"]


def test_a_unit_of_a_package_counts_where_it_is_started(tree: Tree) -> None:
    unit = (
        "[Service]\nExecStart=/bin/sh -c 'echo vfio-pci >/sys/bus/pci/devices/0000:42:00.0/driver_override'\n"
    )
    tree.put("/lib/systemd/system/q.service", unit)
    assert tree.plan.refusals == ()
    tree.link("/etc/systemd/system/sysinit.target.wants/q.service", "/lib/systemd/system/q.service")
    assert "/lib/systemd/system/q.service:2: binds GPUs when the machine starts" in tree.refused


def test_a_script_that_was_not_looked_at_is_told_where_its_name_tells_of_binding(tree: Tree) -> None:
    path = "/etc/systemd/system/b.service"
    tree.put(path, "[Service]\nExecStart=/opt/thing\n")
    assert places.not_looked_at(tree.snapshot) == []
    tree.put(path, "[Service]\nExecStart=/usr/local/sbin/bind-vfio.sh\n")
    assert (
        "b.service runs /usr/local/sbin/bind-vfio.sh when the machine starts, which was not looked at"
        in tree.notes
    )
    tree.put("/usr/local/sbin/bind-vfio.sh", "echo nothing\n")
    assert places.not_looked_at(tree.snapshot) == []


def test_what_a_record_does_not_show_is_told_or_refused(tree: Tree) -> None:
    assert "driverctl" in tree.notes.partition("this record does not show: ")[2]
    tree.put("/.kpro/absent", "/etc\n")
    assert "this record does not show" not in tree.notes
    tree.put("/.kpro/absent", "")
    (tree.root / "proc/cmdline").unlink()
    with pytest.raises(CouldNotLook, match="does not show /proc/cmdline"):
        shown.needed(tree.snapshot)
