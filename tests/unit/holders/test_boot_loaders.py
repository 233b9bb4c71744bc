"""The double of proxmox-boot-tool: the recorded texts and exit codes, and what the next boot gets."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from provision.host import boot
from provision.host.release.cmdline import clean
from tests.unit.holders.test_families import TARGET
from tests.unit.plan.seen import Seen

TOOL = Path(__file__).parents[2] / "doubles" / "proxmox" / "proxmox-boot-tool"


def ask(state: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [TOOL, *words],
        env={**os.environ, "KPRO_PROXMOX_DOUBLE": str(state)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("esps", "firmware", "name", "code"),
    [
        ("0A0A-0001 uefi 6.8.12-4-pve\n", "uefi", "uefi", 0),
        ("0A0A-0003 grub 6.8.12-4-pve,6.8.12-8-pve\n", "legacy bios", "grub", 0),
        ("", "legacy bios", "unmanaged", 1),
    ],
)
def test_it_says_what_was_recorded(
    esps: str, firmware: str, name: str, code: int, tmp_path: Path, shared: Path
) -> None:
    (tmp_path / "esps").write_text(esps)
    (tmp_path / "firmware").write_text(f"{firmware}\n")
    assert ask(tmp_path, "status") == (
        code,
        (shared / f"fixtures/host/boot/pbt_status_{name}.txt").read_text(),
    )


def test_what_it_was_not_given_ends_with_99(tmp_path: Path) -> None:
    assert ask(tmp_path, "kernel", "list")[0] == 99
    assert ask(tmp_path, "clean")[0] == 99


def test_what_it_says_of_two_loaders_is_read_and_both_get_the_new_command_line(tmp_path: Path) -> None:
    (tmp_path / "esps").write_text("0A0A-0001 uefi+grub 6.8.12-4-pve\n0A0A-0002 uefi 6.8.12-4-pve\n")
    code, said = ask(tmp_path, "status")
    seen = Seen().boots().cmd("proxmox-boot-tool-status", said, code)
    assert boot.boot_partitions(seen.snapshot) == {"uefi", "grub"}
    assert boot.has_boot_partitions(seen.snapshot)
    files = {
        "kernel/cmdline": "root=x vfio-pci.ids=10de:2230\n",
        "default/grub": "GRUB_CMDLINE_LINUX='vfio-pci.ids=10de:2230'\n",
    }
    for name, text in files.items():
        path = tmp_path / "etc" / name
        path.parent.mkdir(parents=True)
        path.write_text(clean(f"/etc/{name}", text, TARGET))
    assert ask(tmp_path, "refresh") == (0, "")
    booted = {
        str(path.relative_to(tmp_path / "booted")): path.read_text() for path in tmp_path.glob("booted/*/*")
    }
    assert booted == {
        "0A0A-0001/uefi": "root=x\n",
        "0A0A-0001/grub": "GRUB_CMDLINE_LINUX=''\n",
        "0A0A-0002/uefi": "root=x\n",
    }


def test_a_pinned_kernel_boots_next(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    assert ask(tmp_path, "kernel", "pin", "6.8.12-4-pve")[0] == 0
    pin = (tmp_path / "etc/kernel/proxmox-boot-pin").read_text()
    seen = (
        Seen()
        .boots()
        .kernels("6.8.12-4-pve", "6.8.12-8-pve")
        .put("file", "/etc/kernel/proxmox-boot-pin", pin)
    )
    assert boot.next_kernel(seen.snapshot) == "6.8.12-4-pve"
    assert ask(tmp_path, "kernel", "unpin")[0] == 0
    assert not (tmp_path / "etc/kernel/proxmox-boot-pin").exists()
