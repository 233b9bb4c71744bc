"""The reference inputs of virtual machines, mappings, loaders and the kernel's log, each with its conclusion."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.bdf import Bdf
from provision.host import boot
from provision.host.release import log
from provision.host.vms import VmReference, vm_references
from tests.unit.vms.tree import GPU, Tree


@pytest.fixture
def host_files(shared: Path) -> Path:
    return shared / "fixtures" / "host"


@pytest.fixture
def tree(tmp_path: Path, host_files: Path) -> Tree:
    tree = Tree(tmp_path).put("/etc/pve/mapping/pci.cfg", (host_files / "mapping/pci.cfg").read_text())
    for path in sorted((host_files / "qemu-server").glob("*.conf")):
        tree.vm(int(path.name.split("_")[0]), path.read_text())
    return tree


def references(tree: Tree, vmid: str) -> dict[str, list[VmReference]]:
    found: dict[str, list[VmReference]] = {}
    for one in vm_references(tree.snapshot):
        if one.vmid == vmid:
            found.setdefault(one.section, []).append(one)
    return found


def test_a_mapping_is_resolved_for_this_node(tree: Tree) -> None:
    (one,) = references(tree, "101")["current"]
    assert [str(address) for address in one.addresses] == ["0000:07:00"]
    assert (one.onboot, one.mapping, one.local) == (True, "gpu-rtx5090", True)
    assert one.covers(Bdf.parse("07:00.1"))


def test_every_spelling_of_hostpci_is_read(tree: Tree) -> None:
    found = references(tree, "102")
    named = [[str(address) for address in one.addresses] for one in found["current"]]
    assert named == [["0000:01:00"], ["0000:02:00.0", "0000:02:00.1"], ["0000:41:00.0"], []]
    assert found["current"][3].unresolved
    (weaker,) = found["snapshot"]
    assert (str(weaker.addresses[0]), weaker.startable) == ("0000:61:00", False)


def test_a_pending_delete_holds_the_gpu_until_it_applies(tree: Tree) -> None:
    (one,) = references(tree, "103")["current"]
    assert (one.leaving, one.startable, one.covers(Bdf.parse("42:00.0"))) == (True, False, True)
    assert "virtual machine 103 is stopped and gives it back" in tree.notes
    tree.cmd("qm-status-103", "status: running\n", 0)
    assert f"GPU {GPU}: virtual machine 103 (pend) is running and has it" in tree.refused


def test_another_node_s_rows_of_a_mapping_are_not_this_node_s(tree: Tree) -> None:
    for node, slot in (("pve", "07:00"), ("pve2", "42:00")):
        tree.vm(110, "hostpci0: mapping=rtx4000ada\n", node=node)
        mine = [one for one in vm_references(tree.snapshot) if one.vmid == "110" and one.node == node]
        assert {str(address).split(".")[0] for one in mine for address in one.addresses} == {f"0000:{slot}"}


@pytest.mark.parametrize(("name", "loaders"), [("uefi", {"uefi"}), ("grub", {"grub"}), ("unmanaged", set())])
def test_loaders(name: str, loaders: set[str], tree: Tree, host_files: Path) -> None:
    tree.cmd("proxmox-boot-tool-status", (host_files / f"boot/pbt_status_{name}.txt").read_text(), 0)
    assert boot.boot_partitions(tree.snapshot) == loaders
    assert boot.has_boot_partitions(tree.snapshot) is bool(loaders)


def test_the_kernel_s_log(tree: Tree, host_files: Path) -> None:
    for name in ("d3cold_lost", "unbind_in_use", "xid79_variants"):
        tree.cmd("dmesg", (host_files / f"dmesg/{name}.txt").read_text())
        lines = boot.kernel_log(tree.snapshot)
        said = {
            "d3cold_lost": log.lost_power(lines, Bdf.parse("01:00.0")),
            "unbind_in_use": log.being_removed(lines, Bdf.parse("8a:00.0")),
            "xid79_variants": log.wants_reboot(lines, Bdf.parse("06:00.0")),
        }
        assert [key for key, text in said.items() if text] == [name]


def test_a_typing_error_binds_nothing_and_is_told(tree: Tree, host_files: Path) -> None:
    (tree.root / "etc/pve/nodes/pve/qemu-server/103.conf").unlink()
    tree.put("/proc/cmdline", (host_files / "cmdline/typo_vifo.txt").read_text())
    assert "vifo-pci.ids=10de:2230 binds nothing" in tree.notes
    tree.put("/proc/cmdline", (host_files / "cmdline/vfio_ids_3090_acs.txt").read_text())
    assert "pcie_acs_override=downstream,multifunction only pretends" in tree.notes
    assert tree.plan.refusals == ()
