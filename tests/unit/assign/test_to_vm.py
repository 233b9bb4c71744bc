"""A GPU goes to virtual machines: what is planned, and what keeps it where it is."""

from __future__ import annotations

import pytest

from checks.bdf import Bdf
from provision.assign.handover import Give, Rest
from provision.host import assigned
from provision.host.release import configuration
from tests.unit.assign.place import EARLIER, RUN, SECOND, Place, item, kinds, machine, record, refused
from tests.unit.plan.pile import FIRST

AUDIO = "0000:02:00.1"


@pytest.fixture
def place() -> Place:
    return Place(machine())


def files(place: Place) -> dict[str, str]:
    return {edit.path: edit.data.decode() for edit in item(place.plan("vm"), "release.files").payload.files}


def test_nothing_is_assigned_and_nothing_of_it_is_planned(place: Place) -> None:
    found = place.plan()
    assert not refused(found)
    assert not [
        kind for kind in kinds(found) if kind.startswith(("assign", "release", "driver", "container"))
    ]


def test_the_record_comes_first_then_the_container_rests_then_the_gpu_goes(place: Place) -> None:
    found = place.plan("vm")
    assert not refused(found)
    planned = [kind for kind in kinds(found) if kind.startswith(("assign", "release", "nodes", "container"))]
    assert planned == [
        "assign.record",
        "assign.rest",
        "release.files",
        "release.regenerate",
        "assign.give",
        "nodes.unit",
    ]
    assert record(found) == {SECOND: RUN}


def test_all_functions_of_the_slot_go_and_the_other_gpu_is_kept_as_it_is(place: Place) -> None:
    move = item(place.plan("vm"), "assign.give").payload
    assert isinstance(move, Give)
    assert [(str(f.bdf), f.now) for f in move.functions] == [(SECOND, "nvidia"), (AUDIO, "snd_hda_intel")]
    assert move.keep == (Bdf.parse(FIRST), Bdf.parse("0000:01:00.1"))


def test_only_the_guest_that_has_the_gpu_rests_and_it_does_not_start_at_boot(place: Place) -> None:
    found = place.plan("vm")
    rest = item(found, "assign.rest").payload
    assert isinstance(rest, Rest)
    assert (rest.container.guest.name, rest.running) == ("two", True)
    assert "lxc.start.auto = 0" in rest.container.config
    assert "/dev/nvidia1" not in rest.container.config
    assert not [entry for entry in found.items if entry.kind.startswith("container")]
    assert not [entry for entry in found.items if entry.host.endswith("/two")]


def test_the_next_boot_binds_it_by_address_and_holds_nvidia_back_until_it_is_set_aside(place: Place) -> None:
    edits = files(place)
    rules = edits[configuration.RULES_FILE]
    for bdf in (SECOND, AUDIO):
        assert (
            f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{bdf}", ATTR{{driver_override}}="vfio-pci"' in rules
        )
    assert FIRST not in rules
    assert "\nvfio-pci\n" in edits[configuration.MODULES_FILE]
    assert "blacklist nvidia\n" in edits[configuration.DRIVER_FILE]
    (unit, *_) = (
        edit
        for edit in item(place.plan("vm"), "nodes.unit").payload.files
        if edit.path.endswith("devices.sh")
    )
    assert f'wanted="{FIRST}"'.encode() in unit.data
    assert f'kept="{SECOND}"'.encode() in unit.data


def test_the_last_gpu_goes_too_and_the_driver_is_loaded_for_none(place: Place) -> None:
    place.recorded(FIRST).on_vfio(FIRST)
    found = place.plan("vm")
    assert not refused(found)
    assert record(found) == {FIRST: EARLIER, SECOND: RUN}
    (script, *_) = item(found, "nodes.unit").payload.files
    assert b'wanted=""' in script.data
    assert "driver.load" not in kinds(found)


def test_a_second_call_finds_nothing_to_do(place: Place) -> None:
    settled(place)
    assert [kind for kind in kinds(place.plan("vm")) if not kind.startswith(("stack", "userspace"))] == []


def settled(place: Place) -> None:
    """As it is after the hand-over."""
    found = place.plan("vm")
    for edit in (*item(found, "release.files").payload.files, *item(found, "nodes.unit").payload.files):
        place.seen.put("file", edit.path, edit.data)
    config = item(found, "assign.rest").payload.container.config
    place.recorded(SECOND, run=RUN).on_vfio(SECOND)
    place.seen.cmd("lxc-config-202", config).cmd("lxc-info-202", "STOPPED\n")


def test_a_plain_apply_pulls_nothing_back_and_says_who_has_it(place: Place) -> None:
    settled(place)
    found = place.plan()
    assert [kind for kind in kinds(found) if not kind.startswith(("stack", "userspace"))] == []
    (note,) = (note for note in found.notes if "is assigned" in note)
    assert SECOND in note
    assert RUN in note
    assert "provision assign <inventory> 02:00.0 lxc takes it back" in note


def test_a_run_that_was_cut_after_its_record_is_finished_by_the_next_apply(place: Place) -> None:
    place.recorded(SECOND)
    assert {"assign.rest", "assign.give", "release.files"} <= set(kinds(place.plan()))
    assert "assign.record" not in kinds(place.plan("vm"))


def test_a_resting_container_that_somebody_started_is_stopped_again(place: Place) -> None:
    settled(place)
    place.seen.cmd("lxc-info-202", "RUNNING\n")
    assert item(place.plan(), "assign.rest").payload.running


def test_a_record_that_cannot_be_read_is_no_record_of_nothing(place: Place) -> None:
    for text in (
        "{",
        "[]",
        '{"schema": "other/1", "vm": {}}',
        '{"schema": "kpro-assigned/1", "vm": {"x": {}}}',
    ):
        place.seen.put("file", assigned.PATH, text)
        assert "which GPUs virtual machines have" in refused(place.plan())
        assert "assign.record" not in kinds(place.plan("vm"))


USER = "4711\t/dev/nvidia1\tpython3 train.py\n"


def test_a_process_that_is_not_ours_is_named_and_nothing_is_handed_over(place: Place) -> None:
    place.seen.cmd("openers", USER).cmd("gpu-owners", "4711\t/user.slice/session-3.scope\n")
    assert "process 4711 (python3 train.py) has /dev/nvidia1 open" in refused(place.plan("vm"))
    place.seen.put("cmd", "gpu-owners", None, "cannot be read")
    assert "process 4711" in refused(place.plan("vm"))


@pytest.mark.parametrize(
    "group",
    [
        "/lxc.payload.202/system.slice/kpro-tiny.service",
        "/lxc.payload.202",
        "/system.slice/nvidia-persistenced.service",
        "/system.slice/nvidia-dcgm.service",
    ],
)
def test_our_container_and_services_that_hold_every_gpu_are_no_reason(place: Place, group: str) -> None:
    place.seen.cmd("openers", USER).cmd("gpu-owners", f"4711\t{group}\n")
    assert not refused(place.plan("vm"))


@pytest.mark.parametrize(
    "group",
    [
        "/lxc.payload.201/x",
        "/lxc.payload.2021/x",
        "/lxc.payload.other/x",
        "/user.slice/lxc.payload.202/x",
        "/lxc.payload.9/lxc.payload.202",
        "/user.slice/nvidia-dcgm.service",
        "",
    ],
)
def test_another_container_that_has_the_gpu_open_is_a_reason(place: Place, group: str) -> None:
    place.seen.cmd("openers", USER).cmd("gpu-owners", f"4711\t{group}\n")
    assert "process 4711" in refused(place.plan("vm"))


def test_who_uses_another_gpu_is_no_reason(place: Place) -> None:
    place.seen.cmd("openers", USER.replace("nvidia1", "nvidia0")).cmd("gpu-owners", "")
    assert not refused(place.plan("vm"))


def test_users_that_could_not_be_listed_are_never_none(place: Place) -> None:
    for output, code in (("rubbish\n", 0), ("", 1)):
        place.seen.cmd("openers", output, code)
        assert "open device files" in refused(place.plan("vm"))


def test_a_neighbour_of_the_group_that_the_machine_needs_keeps_the_gpu(place: Place) -> None:
    place.seen.gpu("0000:03:00.0", "ixgbe", "2", vendor="0x8086", device="0x1563", pci_class="0x020000")
    assert "8086:1563 0000:03:00.0 is in the same IOMMU group 2" in refused(place.plan("vm"))
    place.seen.gpu("0000:03:00.0", "pcieport", "2", vendor="0x8086", device="0x1563", pci_class="0x060400")
    assert not refused(place.plan("vm"))


def test_a_gpu_without_a_group_cannot_go_to_a_virtual_machine(place: Place) -> None:
    place.seen.gpu(SECOND, "nvidia", "").audio(AUDIO, "snd_hda_intel", "")
    assert "has no IOMMU group" in refused(place.plan("vm"))


def test_a_gpu_that_does_not_answer_is_not_touched(place: Place) -> None:
    place.seen.gpu(SECOND, "nvidia", "2", config="ff ff ff ff")
    assert "its configuration space reads ff" in refused(place.plan("vm"))


def test_an_address_without_a_gpu_is_refused_with_those_that_are_there(place: Place) -> None:
    assert f"GPUs are at {FIRST}, {SECOND}" in refused(place.plan("vm", "0000:05:00.0"))
    assert "no NVIDIA GPU at this address" in refused(place.plan("vm", AUDIO))


def test_a_reason_to_boot_makes_it_a_boot_and_no_unbind(place: Place) -> None:
    line = f"NVRM: Xid (PCI:{SECOND}): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    place.seen.cmd("dmesg", f"{line}\n")
    found = place.plan("vm")
    assert "assign.give" not in kinds(found)
    assert {"assign.record", "assign.rest", "release.files", "reboot"} <= set(kinds(found))


def test_a_container_of_somebody_else_is_not_stopped(place: Place) -> None:
    place.seen.cmd("lxc-config-202", "lxc.uts.name = theirs\n")
    assert "was not made for box/two" in refused(place.plan("vm"))


def test_a_gpu_in_use_over_an_nvswitch_keeps_fabric_manager_running(place: Place) -> None:
    place.seen.gpu("0000:09:00.0", "nvidia", "9", device="0x22a3", pci_class="0x068000")
    place.seen.cmd("openers", USER.replace("nvidia1", "nvidia0")).cmd(
        "gpu-owners", "4711\t/lxc.payload.201\n"
    )
    assert "nvidia-fabricmanager is stopped" in refused(place.plan("vm"))
    place.seen.cmd("openers", "")
    assert "is stopped for the hand-over" not in refused(place.plan("vm"))
