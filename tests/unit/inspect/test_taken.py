"""What takes a GPU beside definitions of virtual machines: hook scripts, reservations, containers, GRUB's commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.inspect.test_conclusions import A6000, identities
from tests.unit.inspect.test_texts import tree

LISTED = A6000 + "\tKernel driver in use: vfio-pci\n"
CONF = "etc__pve__nodes__pve__qemu-server__160.conf"


def taken(root: Path, **files: str) -> dict[str, Any]:
    return tree(root, etc__hostname="pve\n", **{"cmd__lspci-Dnnk": LISTED}, **files)


def finding(told: dict[str, Any], identity: str) -> dict[str, str]:
    (one,) = [found for found in told["findings"] if found["id"] == identity]
    return dict(one)


def test_a_hook_script_that_binds_functions_is_told(tmp_path: Path) -> None:
    script = "#!/bin/sh\necho 0000:42:00.0 > /sys/bus/pci/drivers/vfio-pci/bind\n"
    told = taken(
        tmp_path, **{CONF: "hookscript: local:snippets/g.sh\n", "var__lib__vz__snippets__g.sh": script}
    )
    assert finding(told, "vm.hookscript")["kind"] == "warning"
    assert "g.sh:2" in finding(told, "vm.hookscript")["meaning"]


def test_a_hook_script_that_binds_nothing_is_told_of_a_machine_with_a_gpu_only(tmp_path: Path) -> None:
    hook = "hookscript: local:snippets/g.sh\n"
    assert "vm.hookscript" not in identities(taken(tmp_path, **{CONF: hook}))
    told = taken(tmp_path, **{CONF: f"{hook}hostpci0: 42:00\n"})
    assert finding(told, "vm.hookscript")["kind"] == "note"


RESERVED = {CONF: "name: x\n", "run__qemu-server__pci-id-reservations": "0000:42:00.0 999 pid:4242\n"}


def test_a_reservation_is_left_behind_only_where_its_process_was_looked_for(tmp_path: Path) -> None:
    told = taken(tmp_path, **RESERVED)
    assert "was not recorded" in finding(told, "vm.reservation")["meaning"]
    assert "VM 999" in str(told["gpus"][0]["use_not_looked_at"])
    assert told["gpus"][0]["release"]["how"] == "unknown"
    told = taken(tmp_path, **{".kpro__absent": "/proc/4242/cmdline\n"})
    assert "is gone" in finding(told, "vm.reservation")["meaning"]
    assert "VM 999" not in str(told["gpus"][0]["use_not_looked_at"])


def test_a_reservation_whose_process_lives_is_a_use(tmp_path: Path) -> None:
    told = taken(tmp_path, **RESERVED, proc__4242__cmdline="kvm\n")
    assert "VM 999" in str(told["gpus"][0]["in_use_by"])
    assert told["gpus"][0]["release"]["how"] == "refused"
    assert "vm.reservation" not in identities(told)


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("dev1: /dev/vfio/25", True),
        ("dev1: /dev/vfio/25,mode=0666", True),
        ("dev1: /dev/vfio/26", False),
        ("lxc.mount.entry: /dev/vfio/25 dev/vfio/25 none bind,create=file", True),
    ],
)
def test_a_container_with_the_group_of_a_gpu_is_given_the_gpu(line: str, given: bool, tmp_path: Path) -> None:
    grouped = f"IOMMU Group 25 {A6000}"
    told = tree(tmp_path, **{"cmd__groups": grouped, "etc__pve__lxc__120.conf": f"arch: amd64\n{line}\n"})
    assert bool(told["gpus"][0]["containers"]) is given


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('GRUB_CMDLINE_LINUX="quiet $(cat /etc/extra)"', True),
        ('GRUB_CMDLINE_LINUX_DEFAULT="`cat /etc/extra`"', True),
        ('#GRUB_CMDLINE_LINUX="$(cat /etc/extra)"', False),
        ('GRUB_DISTRIBUTOR="`lsb_release -i -s`"', False),
        ('GRUB_CMDLINE_LINUX="quiet $X"', False),
    ],
)
def test_what_a_command_gives_to_grub_is_said_to_be_not_followed(
    setting: str, told: bool, tmp_path: Path
) -> None:
    found = taken(tmp_path, etc__default__grub=f"GRUB_DEFAULT=0\n{setting}\n")
    assert ("cmdline.not-followed" in identities(found)) is told
    unseen = [one for one in found["gpus"][0]["holders_not_looked_at"] if one.startswith("/etc/default/grub")]
    assert bool(unseen) is told
