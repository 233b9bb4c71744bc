"""What decides how a host boots: kernels, modules, openers, and which of several files takes effect."""

from __future__ import annotations

import pytest

from checks.snapshot import CouldNotLook
from provision.host import boot
from tests.unit.plan.seen import Seen

OLD, NEW = "6.1.0-9-amd64", "6.1.0-50-amd64"


@pytest.fixture
def host() -> Seen:
    seen = Seen().boots()
    seen.put("names", "/boot/vmlinuz-*", f"/boot/vmlinuz-{NEW}\n/boot/vmlinuz-{OLD}\n")
    return seen.put(
        "names", "/lib/modules/*", f"/lib/modules/{OLD}\n/lib/modules/{NEW}\n/lib/modules/6.2.0\n"
    )


def grub(host: Seen, default: str) -> Seen:
    return host.put("file", "/etc/default/grub", f"#GRUB_DEFAULT=7\n{default}\nGRUB_TIMEOUT=5\n")


def test_kernels_are_those_with_image_and_modules_in_the_order_of_their_numbers(host: Seen) -> None:
    assert boot.kernels(host.snapshot) == (OLD, NEW)


@pytest.mark.parametrize(
    ("default", "kernel"),
    [
        ("GRUB_DEFAULT=0", NEW),
        ("", NEW),
        (f'GRUB_DEFAULT="Advanced options for Debian>Debian, with Linux {OLD}"', OLD),
        ("GRUB_DEFAULT='1>2'  # by hand", None),
        ("GRUB_DEFAULT=saved", NEW),
    ],
)
def test_grub_s_default_decides_what_boots_next(host: Seen, default: str, kernel: str | None) -> None:
    assert boot.next_kernel(grub(host, default).snapshot) == kernel


def test_a_saved_entry_and_a_pin_decide_what_boots_next(host: Seen) -> None:
    grub(host, "GRUB_DEFAULT=saved").put(
        "file", "/boot/grub/grubenv", f"# GRUB\nsaved_entry=x>{OLD}-advanced\n###\n"
    )
    assert boot.next_kernel(host.snapshot) == OLD
    host.put("file", "/etc/kernel/proxmox-boot-pin", f"{NEW}\n")
    assert boot.next_kernel(host.snapshot) == NEW
    host.put("file", "/etc/kernel/next-boot-pin", "6.2.0\n")
    assert boot.next_kernel(host.snapshot) is None


def test_proxmox_boot_tool_boots_the_newest_whatever_grub_s_file_says(host: Seen) -> None:
    grub(host, f"GRUB_DEFAULT='{OLD}'").put("file", boot.PROXMOX_LOADERS, "5A6B-0001\n")
    assert boot.next_kernel(host.snapshot) == NEW


def test_a_file_masks_those_of_its_name_in_later_folders(host: Seen) -> None:
    for folder in ("/usr/lib", "/run", "/etc"):
        host.put("file", f"{folder}/modprobe.d/a.conf", f"# {folder}\n")
    host.put("file", "/usr/lib/modprobe.d/b.conf", "# b\n").put("file", "/etc/modprobe.d/no", "# no\n")
    found = boot.modprobe_files(host.snapshot)
    assert found["/etc/modprobe.d/a.conf"] == "# /etc\n"
    assert "/usr/lib/modprobe.d/b.conf" in found
    assert set(found) == {
        "/etc/modprobe.d/a.conf",
        "/usr/lib/modprobe.d/b.conf",
        "/etc/modprobe.d/nouveau.conf",
    }


def test_debian_s_link_to_etc_modules_is_not_read_twice(host: Seen) -> None:
    host.put("file", "/etc/modules", "loop\n").put("file", "/etc/modules-load.d/modules.conf", "loop\n")
    assert len(boot.module_lists(host.snapshot)) == 2
    host.put("linked", "/etc/modules-load.d/modules.conf", "link\n")
    assert list(boot.module_lists(host.snapshot)) == ["/etc/modules"]


def test_a_module_is_in_use_when_more_than_modules_use_it(host: Seen) -> None:
    host.put(
        "file", "/proc/modules", "nvidia 9 3 nvidia_uvm,nvidia_drm, Live 0x0 (O)\nnvidia_uvm 9 0 - Live 0x0\n"
    )
    found = boot.modules(host.snapshot)
    assert (found["nvidia"].in_use, found["nvidia_uvm"].in_use) == (True, False)
    assert found["nvidia"].holders == ("nvidia_uvm", "nvidia_drm")


def test_openers_are_read_with_pid_and_command(host: Seen) -> None:
    host.cmd("openers", "7\t/dev/vfio/1\tqemu -x y \n9\t/dev/nvidia0\t\n")
    assert [str(opener) for opener in boot.openers(host.snapshot)] == [
        "process 7 (qemu -x y)",
        "process 9 (no command line)",
    ]


@pytest.mark.parametrize(
    ("output", "code"), [("sh: find: not found", 0), ("", 127), ("x\t/dev/vfio/1\tq", 0)]
)
def test_a_list_of_openers_that_is_none_is_never_taken_for_nobody(host: Seen, output: str, code: int) -> None:
    with pytest.raises(CouldNotLook):
        boot.openers(host.cmd("openers", output, code).snapshot)


def test_a_kernel_log_that_cannot_be_read_is_never_taken_for_quiet(host: Seen) -> None:
    assert boot.kernel_log(host.snapshot) == ()
    with pytest.raises(CouldNotLook, match="Operation not permitted"):
        boot.kernel_log(
            host.cmd("dmesg", "dmesg: read kernel buffer failed: Operation not permitted\n").snapshot
        )
