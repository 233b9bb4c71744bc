"""Virtual machines that name a GPU: what is refused, what is a note, what is nobody's business."""

from __future__ import annotations

import pytest

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook
from provision.host.vms import life, vm_references
from tests.unit.vms.tree import AUDIO, GPU, Tree

LISTS = "name: win\nhostpci0: 0000:42:00,pcie=1\n"
CFG = "gpu\n\tmap id=10de:2230,node=pve,path=0000:42:00\n\tmap id=10de:2230,node=pve2,path=0000:61:00\n"


def test_a_host_without_virtual_machines_has_no_reference(tree: Tree) -> None:
    assert vm_references(tree.snapshot) == ()
    assert tree.plan.refusals == ()


@pytest.mark.parametrize("status", ["running", "paused", "prelaunch"])
def test_a_gpu_of_a_running_virtual_machine_is_never_touched(tree: Tree, status: str) -> None:
    tree.vm(101, LISTS, status=status)
    assert f"GPU {GPU}: virtual machine 101 (win) is running and has it" in tree.refused
    assert "/etc/pve/nodes/pve/qemu-server/101.conf:2: hostpci0: 0000:42:00,pcie=1" in tree.refused
    assert "qm shutdown 101" in tree.refused


def test_a_running_process_outranks_what_qm_said_before(tree: Tree) -> None:
    tree.vm(101, LISTS).put("/run/qemu-server/101.pid", "4711\n")
    assert "is stopped and lists it" in tree.refused
    tree.put("/proc/4711/cmdline", "/usr/bin/kvm\0-id\0101\0")
    assert "is running and has it" in tree.refused


@pytest.mark.parametrize(
    "value",
    [
        "0000:42:00",
        "42:00.0",
        "42:00.1",
        "host=0000:42:00.0,pcie=1",
        "pcie=1,rombar=0,host=42:00",
        "0000:01:00.0;0000:42:00.1",
        "00000000:42:00.0",
        "mapping=gpu,pcie=1",
        "pcie=1,mapping=gpu",
    ],
)
def test_a_stopped_virtual_machine_that_lists_the_gpu_is_refused_with_the_commands(
    tree: Tree, value: str
) -> None:
    tree.put("/etc/pve/mapping/pci.cfg", CFG).vm(102, f"hostpci3: {value}\n")
    assert "virtual machine 102 is stopped and lists it" in tree.refused
    assert f"provision assign INVENTORY {GPU} lxc" in tree.refused
    assert "qm set 102 --delete hostpci3" in tree.refused


def on_nvidia(tree: Tree) -> Tree:
    tree.put(
        "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  R\n",
    )
    place = tree.root / f"sys/bus/pci/devices/{GPU}/driver"
    place.unlink()
    place.symlink_to("../../../../bus/pci/drivers/nvidia")
    return tree


def test_a_gpu_that_the_host_has_is_worked_on_beside_a_machine_that_nobody_starts(tree: Tree) -> None:
    tree.vm(102, LISTS)
    assert "virtual machine 102 (win) is stopped and lists it" in on_nvidia(tree).notes
    assert tree.refused == ""


@pytest.mark.parametrize(
    ("text", "status"), [(f"onboot: 1\n{LISTS}", "stopped"), (LISTS, "running"), (LISTS, "nonsense")]
)
def test_a_machine_that_starts_by_itself_or_may_run_keeps_even_such_a_gpu_from_being_touched(
    tree: Tree, text: str, status: str
) -> None:
    tree.vm(102, text, status=status)
    assert "virtual machine 102 (win)" in on_nvidia(tree).refused


@pytest.mark.parametrize(
    "value", ["0000:61:00", "0000:04:02.0", "00:42.0", "0001:42:00", "mapping=other", "none", "0000:00:02"]
)
def test_a_virtual_machine_with_another_device_is_no_hindrance(tree: Tree, value: str) -> None:
    tree.put("/etc/pve/mapping/pci.cfg", CFG).vm(102, f"hostpci0: {value}\n", status="running")
    assert tree.plan.refusals == ()


def test_a_mapping_counts_with_the_rows_of_this_node_alone(tree: Tree) -> None:
    tree.vm(101, "hostpci0: mapping=gpu\n").put("/etc/pve/mapping/pci.cfg", CFG.replace("=pve,", "=pve3,"))
    assert tree.plan.refusals == ()
    assert "the mapping gpu has no device on node pve" in tree.notes


@pytest.mark.parametrize(
    ("value", "why"), [("mapping=UnRaid-Cache", "no mapping UnRaid-Cache"), ("4x:00", "not a PCI")]
)
def test_what_cannot_be_resolved_is_a_note(tree: Tree, value: str, why: str) -> None:
    tree.vm(102, f"hostpci0: {value}\n").put("/etc/pve/mapping/pci.cfg", CFG)
    assert why in tree.notes
    assert tree.plan.refusals == ()


@pytest.mark.parametrize("status", ["running", "stopped"])
def test_a_mapping_whose_file_was_not_seen_may_be_of_any_gpu(tree: Tree, status: str) -> None:
    tree.vm(102, "hostpci0: mapping=gpu\n").cmd("qm-status-102", f"status: {status}\n", 0)
    with pytest.raises(CouldNotLook, match=r"hostpci0: mapping=gpu takes is not known: .*mapping/pci\.cfg"):
        _ = tree.plan
    tree.put("/.kpro/absent", "/etc/pve/mapping/pci.cfg\n")
    assert "there is no mapping gpu" in tree.notes


def test_a_machine_of_qm_list_without_a_definition_is_not_known(tree: Tree) -> None:
    tree.vm(101, "name: a\n").cmd("qm-list", "      VMID NAME  STATUS\n       101 a     stopped\n", 0)
    assert tree.plan.refusals == ()
    tree.cmd("qm-list", "      VMID NAME  STATUS\n       101 a     stopped\n       130 b     running\n", 0)
    with pytest.raises(CouldNotLook, match="VM 130 is listed by qm list, its configuration was not seen"):
        _ = tree.plan


def test_a_definition_that_is_no_text_or_no_file_is_not_known(tree: Tree) -> None:
    tree.vm(101, "name: a\n").vm(102, "h\0o\0s\0t\0p\0c\0i\0")
    with pytest.raises(CouldNotLook, match=r"102\.conf is not readable as text"):
        _ = tree.plan
    path = tree.root / "etc/pve/nodes/pve/qemu-server/102.conf"
    path.unlink()
    assert tree.plan.refusals == ()
    path.mkdir()
    with pytest.raises(CouldNotLook, match=r"102\.conf: is a folder"):
        _ = tree.plan


def test_a_domain_that_is_cut_is_not_known_though_no_device_is_seen_in_it(tree: Tree) -> None:
    tree.put("/etc/libvirt/qemu/a.xml", "<domain><name>a</name></domain>\n")
    assert tree.plan.refusals == ()
    tree.put("/etc/libvirt/qemu/a.xml", "<domain><name>a</name>\n")
    with pytest.raises(CouldNotLook, match=r"a\.xml cannot be read as a domain"):
        _ = tree.plan


def test_a_machine_that_the_ha_manager_may_move_here_is_told(tree: Tree) -> None:
    tree.put("/etc/pve/mapping/pci.cfg", CFG).vm(201, "hostpci0: mapping=gpu\n", node="pve2").vm(
        101, "name: a\n"
    )
    assert "HA manager keeps virtual machine 201" not in tree.notes
    tree.put("/etc/pve/ha/resources.cfg", "vm: 201\n\tstate started\n")
    assert "HA manager keeps virtual machine 201 of node pve2 started" in tree.notes
    assert tree.plan.refusals == ()


def test_a_pending_entry_counts_and_one_that_is_to_go_counts_until_it_is_gone(tree: Tree) -> None:
    tree.vm(103, f"name: a\n[PENDING]\nhostpci0: {GPU}\n")
    assert "103.conf:3: hostpci0" in tree.refused
    tree.vm(103, f"hostpci0: {GPU}\n\n[PENDING]\ndelete: hostpci0\n").cmd(
        "qm-status-103", "status: running\n", 0
    )
    assert "is running and has it, until its next start takes that out" in tree.refused
    tree.cmd("qm-status-103", "status: stopped\n", 0)
    assert tree.plan.refusals == ()
    assert "virtual machine 103 is stopped and gives it back" in tree.notes


def test_a_snapshot_and_a_template_are_notes(tree: Tree) -> None:
    tree.vm(102, f"name: a\n\n[before-upgrade]\nhostpci0: {GPU}\nsnaptime: 1\n")
    tree.vm(104, f"template: 1\nhostpci0: {GPU}\n")
    assert tree.plan.refusals == ()
    assert "snapshot before-upgrade has it" in tree.notes
    assert "virtual machine 104 is a template" in tree.notes


def test_the_machines_of_another_node_hold_nothing_here(tree: Tree) -> None:
    tree.vm(101, "name: a\n").vm(201, LISTS, node="pve2")
    assert tree.plan.refusals == ()
    (reference,) = vm_references(tree.snapshot)
    assert (reference.local, reference.startable, reference.node) == (False, False, "pve2")


def test_the_node_s_own_name_is_the_host_s_where_no_link_tells(tree: Tree) -> None:
    tree.vm(101, LISTS).vm(201, LISTS, node="pve2")
    (tree.root / "etc/pve/local").unlink()
    tree.put("/proc/sys/kernel/hostname", "pve2.lan\n")
    assert [one.vmid for one in vm_references(tree.snapshot) if one.local] == ["201"]
    tree.put("/proc/sys/kernel/hostname", "renamed\n")
    assert [one.vmid for one in vm_references(tree.snapshot) if one.local] == ["101", "201"]


def test_the_host_s_own_folder_is_read_where_no_node_is(tree: Tree) -> None:
    tree.put("/etc/pve/qemu-server/101.conf", LISTS).cmd("qm-status-101", "status: stopped\n")
    assert "/etc/pve/qemu-server/101.conf:2" in tree.refused


def test_a_cluster_file_system_that_is_not_mounted_is_never_taken_for_no_machine(tree: Tree) -> None:
    (tree.root / "etc/pve").mkdir(parents=True)
    with pytest.raises(CouldNotLook, match=r"pve-cluster\.service"):
        vm_references(tree.snapshot)


def test_a_state_that_was_not_looked_at_is_told_and_refused(tree: Tree) -> None:
    tree.vm(101, LISTS, status=None)
    assert "whether it runs could not be told" in tree.refused


def test_onboot_and_the_ha_manager_are_named(tree: Tree) -> None:
    tree.vm(101, f"onboot: 1\n{LISTS}")
    assert "starts with the machine" in tree.refused
    tree.put("/etc/pve/ha/resources.cfg", "vm: 101\n\tgroup a\n")
    assert "is kept started by the HA manager" in tree.refused
    assert "ha-manager set vm:101 --state stopped" in tree.refused
    tree.put("/etc/pve/ha/resources.cfg", "ct: 101\n\tstate started\n\nvm: 101\n\tstate ignored\n")
    assert "HA manager" not in tree.refused


def test_a_device_on_qemu_s_own_command_line_counts(tree: Tree) -> None:
    tree.vm(105, "args: -cpu host -device vfio-pci,id=x,host=42:00.1,multifunction=on\n")
    assert "qm set 105 --args" in tree.refused


def test_a_neighbour_of_the_gpu_s_group_goes_with_it(tree: Tree) -> None:
    tree.function("0000:43:00.0", "0x1533", "0x020000", "25", driver="igb", vendor="0x8086")
    tree.vm(106, "hostpci0: 43:00.0\n")
    assert "virtual machine 106 is stopped and lists it (" in tree.refused
    tree.vm(106, "hostpci0: 44:00.0\n")
    assert tree.plan.refusals == ()


RESERVED = "/run/qemu-server/pci-id-reservations"


def test_a_reservation_counts_while_it_is_to_come_or_its_process_lives(tree: Tree) -> None:
    tree.vm(101, "name: a\n").put(RESERVED, f"{GPU} 101 time:1700000100\n{AUDIO} 101 pid:77\n")
    tree.cmd("date", "1700000040\n")
    assert f"{RESERVED}:1): it starts: reserved for another 60 s" in tree.refused
    assert f"{RESERVED}:2: left behind by virtual machine 101: its process 77 is gone" in tree.notes
    tree.cmd("date", "1700000100\n").put("/proc/77/cmdline", "kvm\0")
    assert f"{RESERVED}:2): process 77 runs it" in tree.refused
    assert f"{RESERVED}:1: left behind" in tree.notes


def test_a_reservation_of_an_unknown_time_counts_and_one_of_another_device_does_not(tree: Tree) -> None:
    tree.vm(101, "name: a\n").put(RESERVED, f"{GPU} 101 time:1\n")
    assert "the machine's time is not known" in tree.refused
    tree.put(RESERVED, "0000:61:00.0 101 time:9999999999\n")
    assert tree.plan.refusals == ()


def test_a_reservation_that_cannot_be_read_is_never_taken_for_none(tree: Tree) -> None:
    tree.vm(101, "name: a\n").put(RESERVED, f"{GPU} lost\n")
    with pytest.raises(CouldNotLook, match="is no reservation"):
        life.reservations(tree.snapshot)


DOMAIN = """<domain type='kvm'>
  <name>win</name>
  <devices>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source>
        <address domain='0x0000' bus='{}' slot='0x00' function='0x0'/>
      </source>
      <address type='pci' domain='0x0000' bus='0x42' slot='0x00' function='0x0'/>
    </hostdev>
    <hostdev mode='subsystem' type='usb'><source><address bus='66' device='0'/></source></hostdev>
  </devices>
</domain>
"""


@pytest.mark.parametrize("bus", ["0x42", "66", "0102"])
def test_a_domain_of_libvirt_is_refused_by_its_source(tree: Tree, bus: str) -> None:
    tree.put("/etc/libvirt/qemu/win.xml", DOMAIN.format(bus))
    assert "virtual machine win is stopped and lists it (/etc/libvirt/qemu/win.xml:6:" in tree.refused
    assert "virsh edit win" in tree.refused
    tree.link("/etc/libvirt/qemu/autostart/win.xml", "/etc/libvirt/qemu/win.xml")
    tree.put("/run/libvirt/qemu/win.pid", "5")
    assert "virtual machine win is running and has it" in tree.refused


def test_what_stands_beside_the_source_is_the_guest_s_own_address(tree: Tree) -> None:
    tree.put("/etc/libvirt/qemu/win.xml", DOMAIN.format("0x61"))
    assert tree.plan.refusals == ()
    (reference,) = vm_references(tree.snapshot)
    assert (reference.managed, reference.covers(Bdf.parse("61:00.0"))) == (True, True)


def test_a_domain_that_is_no_xml_is_never_taken_for_one_without_devices(tree: Tree) -> None:
    tree.put("/etc/libvirt/qemu/win.xml", "<domain><hostdev ")
    with pytest.raises(CouldNotLook, match="cannot be read as a domain"):
        vm_references(tree.snapshot)


def test_a_hook_script_is_found_and_shown(tree: Tree) -> None:
    tree.put("/etc/pve/storage.cfg", "dir: local\n\tpath /srv/store\n\tcontent snippets\n")
    tree.put("/srv/store/snippets/gpu.sh", "#!/bin/sh\n# rebind\necho vfio-pci > $d/driver_override\n")
    tree.vm(107, "hookscript: local:snippets/gpu.sh\n")
    assert "/srv/store/snippets/gpu.sh:3: echo vfio-pci" in tree.notes
    tree.vm(107, "hookscript: local:snippets/other.sh\n")
    assert "hookscript" not in tree.notes
    tree.vm(107, f"hookscript: local:snippets/other.sh\nhostpci0: {GPU}\n")
    assert "hookscript local:snippets/other.sh of virtual machine 107" in tree.notes
