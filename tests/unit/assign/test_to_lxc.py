"""A GPU comes back from virtual machines: what is planned, and what keeps it with them."""

from __future__ import annotations

import pytest

from checks.bdf import Bdf
from provision.assign.handover import ProxmoxRest, VmKey
from provision.host.moves import Load, Switch
from provision.host.release import configuration
from tests.unit.assign.place import CONF, SECOND, WORKSTATION, Place, item, kinds, machine, record, refused
from tests.unit.assign.test_to_vm import settled
from tests.unit.plan.pile import FIRST

LISTED = f"{WORKSTATION}hostpci0: 0000:02:00,pcie=1\n"


@pytest.fixture
def place() -> Place:
    place = Place(machine())
    settled(place)
    return place


def test_it_is_what_apply_does_once_the_record_is_changed(place: Place) -> None:
    found = place.plan("lxc")
    assert not refused(found)
    assert record(found) == {}
    switch, load = item(found, "release.online").payload, item(found, "driver.load").payload
    assert isinstance(switch, Switch)
    assert isinstance(load, Load)
    assert [str(function.bdf) for function in switch.functions] == [SECOND, "0000:02:00.1"]
    assert load.gpus == (Bdf.parse(FIRST), Bdf.parse(SECOND))
    edits = {edit.path: edit.data.decode() for edit in item(found, "release.files").payload.files}
    assert "02:00" not in edits[configuration.RULES_FILE]
    assert "blacklist nvidia\n" not in edits[configuration.DRIVER_FILE]
    assert {"nodes.unit", "nodes.make", "container.configure", "container.start"} <= set(kinds(found))


def test_the_container_of_the_other_gpu_is_not_touched(place: Place) -> None:
    touched = {entry.subject for entry in place.plan("lxc").items if entry.kind.startswith("container")}
    assert touched == {"two"}


def test_a_gpu_that_is_with_the_containers_already_changes_nothing(place: Place) -> None:
    whole = Place(machine())
    assert [kind for kind in kinds(whole.plan("lxc")) if not kind.startswith(("stack", "userspace"))] == []


def test_a_live_user_of_the_group_keeps_it_with_its_virtual_machine(place: Place) -> None:
    place.seen.cmd("openers", "4711\t/dev/vfio/2\tqemu-system-x86_64 -id 130\n")
    assert "process 4711 (qemu-system-x86_64 -id 130) has /dev/vfio/2 open" in refused(place.plan("lxc"))


def test_a_stopped_virtual_machine_forgets_the_gpu_before_it_is_released(place: Place) -> None:
    place.pve(v130=LISTED)
    found = place.plan("lxc")
    assert not refused(found)
    change = item(found, "assign.unlist")
    assert change.payload == VmKey("130", "hostpci0", "0000:02:00,pcie=1", None)
    assert "qm set 130 --delete hostpci0" in change.text
    assert "hostpci0: 0000:02:00,pcie=1" in change.text
    assert kinds(found).index("assign.unlist") < kinds(found).index("release.online")


@pytest.mark.parametrize(
    "line",
    [
        "hostpci3: 02:00.0",
        "hostpci0: host=0000:02:00.0,x-vga=1",
        "hostpci0: 0000:02:00.0;0000:02:00.1,pcie=1",
        "hostpci0: 0000:02:00.1",
        "hostpci0: mapping=gpu2,pcie=1",
        "[PENDING]\nhostpci0: 0000:02:00",
    ],
)
def test_every_form_of_naming_it_is_found(place: Place, line: str) -> None:
    place.seen.put(
        "file",
        "/etc/pve/mapping/pci.cfg",
        "gpu2\n\tmap id=10de:2230,iommugroup=2,node=pve,path=0000:02:00.0\n",
    )
    place.pve(v130=f"{WORKSTATION}{line}\n")
    found = place.plan("lxc")
    assert not refused(found)
    assert item(found, "assign.unlist").payload.key == line.split("\n")[-1].split(":")[0]


@pytest.mark.parametrize(
    "line",
    ["hostpci0: 0000:01:00", "hostpci0: 0000:12:00.0", "# hostpci0: 0000:02:00", "[snap]\nhostpci0: 02:00"],
)
def test_what_does_not_take_it_is_left(place: Place, line: str) -> None:
    place.pve(v130=f"{WORKSTATION}{line}\n")
    assert "assign.unlist" not in kinds(place.plan("lxc"))


def test_a_running_virtual_machine_is_never_edited(place: Place) -> None:
    place.pve(v130=LISTED).seen.cmd("qm-status-130", "status: running\n")
    found = place.plan("lxc")
    assert "assign.unlist" not in kinds(found)
    assert "qm shutdown 130" in refused(found)


@pytest.mark.parametrize("answer", [("status: paused\n", 0), ("", 255), ("rubbish\n", 0)])
def test_a_virtual_machine_in_any_other_state_counts_as_running(
    place: Place, answer: tuple[str, int]
) -> None:
    place.pve(v130=LISTED).seen.cmd("qm-status-130", *answer)
    found = place.plan("lxc")
    assert "assign.unlist" not in kinds(found)
    assert "machine 130" in refused(found)


def test_one_that_the_ha_manager_may_start_is_not_edited(place: Place) -> None:
    place.pve(v130=LISTED).seen.put("file", "/etc/pve/ha/resources.cfg", "vm: 130\n\tstate started\n")
    assert "kept started by the HA manager" in refused(place.plan("lxc"))
    place.seen.put("file", "/etc/pve/ha/resources.cfg", "vm: 130\n\tstate error\n")
    assert "the HA manager keeps it error" in refused(place.plan("lxc"))
    place.seen.put("file", "/etc/pve/ha/resources.cfg", "vm: 130\n\tstate stopped\n")
    assert not refused(place.plan("lxc"))


def test_one_that_is_locked_is_not_edited(place: Place) -> None:
    place.pve(v130=f"{LISTED}lock: backup\n")
    assert "it is locked (backup)" in refused(place.plan("lxc"))


def test_a_key_that_names_another_gpu_too_is_left_to_the_operator(place: Place) -> None:
    place.pve(v130=f"{WORKSTATION}hostpci0: 0000:02:00;0000:01:00\n")
    found = place.plan("lxc")
    assert "names the GPU together with 0000:01:00" in refused(found)
    assert "assign.unlist" not in kinds(found)


def test_a_reservation_keeps_it_with_its_virtual_machine(place: Place) -> None:
    place.pve(v130=LISTED).seen.put(
        "file", "/run/qemu-server/pci-id-reservations", "0000:02:00.0 130 pid:4711\n"
    )
    place.seen.put("file", "/proc/4711/cmdline", "kvm -id 130\n")
    assert "130" in refused(place.plan("lxc"))


def test_pending_changes_that_come_into_force_with_it_are_said(place: Place) -> None:
    place.pve(v130=f"{LISTED}[PENDING]\nmemory: 4096\n")
    assert any("pending changes of VM 130 come into force" in note for note in place.plan("lxc").notes)


def test_a_virtual_machine_gets_the_gpu_in_its_lowest_free_place() -> None:
    place = Place(machine()).pve(v130=f"{WORKSTATION}hostpci0: 0000:09:00\n[PENDING]\nhostpci1: 0000:0a:00\n")
    found = place.plan("vm", vmid="130")
    assert not refused(found)
    change = item(found, "assign.list")
    assert change.payload == VmKey("130", "hostpci2", None, "0000:02:00,pcie=1")
    assert change.text == "qm set 130 --hostpci2 0000:02:00,pcie=1"
    assert kinds(found).index("assign.give") < kinds(found).index("assign.list")


def test_without_a_vmid_no_virtual_machine_is_edited() -> None:
    found = Place(machine()).pve(v130=WORKSTATION).plan("vm")
    assert not [kind for kind in kinds(found) if kind in ("assign.list", "assign.unlist")]


def test_a_virtual_machine_that_names_it_already_is_not_edited() -> None:
    found = Place(machine()).pve(v130=LISTED).plan("vm", vmid="130")
    assert "assign.list" not in kinds(found)


def test_one_that_runs_is_absent_or_full_gets_nothing() -> None:
    place = Place(machine()).pve(v130=WORKSTATION)
    place.seen.cmd("qm-status-130", "status: running\n")
    assert "a running virtual machine is never edited" in refused(place.plan("vm", vmid="130"))
    assert "there is no VM 131 on this machine" in refused(place.plan("vm", vmid="131"))
    full = "".join(f"hostpci{number}: 0000:{number + 16:02x}:00\n" for number in range(16))
    place.pve(v132=f"{WORKSTATION}{full}")
    assert "all in use" in refused(place.plan("vm", vmid="132"))
    assert "it is a template" in refused(place.pve(v133="template: 1\n").plan("vm", vmid="133"))


def test_without_q35_it_is_given_as_plain_pci_and_said() -> None:
    found = Place(machine()).pve(v130="cores: 2\n").plan("vm", vmid="130")
    assert item(found, "assign.list").payload.after == "0000:02:00"
    assert any("no q35" in note for note in found.notes)


def test_a_proxmox_container_rests_without_the_node_of_its_gpu_alone() -> None:
    place = Place(machine("pct"))
    conf = "dev0: /dev/nvidia1,mode=0666\ndev1: path=/dev/nvidiactl\ndev2: /dev/nvidia10\nonboot: 1\n"
    conf += "dev4: mode=0666,path=/dev//nvidia1\n[before]\ndev3: /dev/nvidia1\n"
    place.seen.put("file", "/etc/pve/lxc/202.conf", conf)
    found = place.decided("vm").plan
    assert item(found, "assign.rest").payload == ProxmoxRest(
        "202",
        (("dev0", "/dev/nvidia1,mode=0666"), ("dev4", "mode=0666,path=/dev//nvidia1")),
        "1",
        True,
    )
    place.seen.put("file", "/etc/pve/lxc/202.conf", "onboot: TRUE\ndev1: /dev/nvidiactl\n")
    assert item(place.decided("vm").plan, "assign.rest").payload == ProxmoxRest("202", (), "TRUE", True)
    place.recorded(SECOND).seen.put("file", "/etc/pve/lxc/202.conf", "dev1: /dev/nvidiactl\nonboot: 0\n")
    place.seen.cmd("pct-status-202", "status: stopped\n")
    assert "assign.rest" not in kinds(place.decided("vm").plan)


def test_a_proxmox_container_starts_with_the_machine_again_where_it_did() -> None:
    place = Place(machine("pct")).recorded(SECOND)
    assert "assign.wake" not in kinds(place.decided("lxc").plan)
    change = '{"kind": "key", "folder": "pct", "id": "202", "path": "onboot", "before": "1", "written": "0"}'
    place.seen.put("file", "/var/lib/kpro/manifest.json", f'{{"changes": [{change}]}}')
    assert item(place.decided("lxc").plan, "assign.wake").payload.onboot == "1"
    place.seen.put("file", "/var/lib/kpro/manifest.json", "{")
    assert "not readable" in refused(place.decided("lxc").plan)


def test_the_path_of_a_virtual_machine_is_that_of_its_node() -> None:
    place = Place(machine())
    place.seen.put("file", CONF.format("130").replace("/pve/qemu", "/other/qemu"), WORKSTATION)
    assert "there is no VM 130 on this machine" in refused(place.plan("vm", vmid="130"))
