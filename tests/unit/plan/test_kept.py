"""GPUs of the machine that stay with virtual machines, and what is next to the named ones on the bus."""

from __future__ import annotations

import pytest

from checks.bdf import Bdf
from provision.host.decide import host_plan
from provision.host.moves import Edits, Load, Switch
from provision.plan import Item, Plan
from provision.spec import Machine
from tests.unit.plan import pile
from tests.unit.plan.pile import FIRST, SECOND
from tests.unit.plan.seen import Seen

RULES, DRIVER, MODULES = (
    "/etc/udev/rules.d/10-kpro-vfio.rules",
    "/etc/modprobe.d/kpro-gpus.conf",
    "/etc/modules-load.d/kpro-vfio.conf",
)


@pytest.fixture
def one() -> Machine:
    return pile.machine(FIRST)


def plan(host: Seen, machine: Machine) -> Plan:
    return host_plan(machine, host.snapshot)


def item(found: Plan, kind: str) -> Item:
    (only,) = (item for item in found.items if item.kind == kind)
    return only


def files(found: Plan) -> dict[str, str]:
    payload = item(found, "release.files").payload
    assert isinstance(payload, Edits)
    return {edit.path: edit.data.decode() for edit in payload.files}


def refused(found: Plan) -> str:
    return "\n".join(map(str, found.refusals))


def test_one_gpu_is_released_and_its_twin_keeps_its_binding_by_address(piled: Seen, one: Machine) -> None:
    found = plan(piled, one)
    assert [item.subject for item in found.items if item.kind == "release.online"] == [FIRST]
    edits = files(found)
    assert "options vfio-pci disable_vga=1\n" in edits["/etc/modprobe.d/vfio.conf"]
    assert "vfio-pci.ids" not in edits["/etc/default/grub"]
    assert edits[RULES].splitlines()[1:] == [
        f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="0000:02:00.{n}", ATTR{{driver_override}}="vfio-pci"'
        for n in (0, 1)
    ]
    assert edits[MODULES].splitlines()[1:] == ["vfio-pci"]
    assert "blacklist nvidia\n" in edits[DRIVER]
    kept = (Bdf.parse(SECOND), Bdf.parse("02:00.1"))
    switch, load = item(found, "release.online").payload, item(found, "driver.load").payload
    assert isinstance(switch, Switch)
    assert isinstance(load, Load)
    assert switch.keep == kept
    assert (load.gpus, load.keep) == ((Bdf.parse(FIRST),), kept[:1])


def test_what_keeps_the_twin_is_not_taken_out(piled: Seen, one: Machine) -> None:
    edits = files(plan(piled, one))
    rules = edits["/etc/udev/rules.d/10-vfio.rules"].splitlines()
    assert rules[0].startswith("# kpro: ")
    assert rules[1] == pile.RULES.splitlines()[1]
    assert "\nsoftdep nvidia pre: vfio-pci\n" in edits["/etc/modprobe.d/vfio.conf"]
    assert "\nblacklist nvidia\n" in edits["/etc/modprobe.d/vfio.conf"]


def test_a_kept_gpu_is_settled_after_one_run(piled: Seen, one: Machine) -> None:
    pile.regenerated(pile.written(piled, plan(piled, one).items))
    pile.noded(pile.loaded(pile.installed(pile.switched(piled, FIRST)), FIRST), FIRST)
    assert plan(piled, one).items == ()


def test_a_gpu_that_is_named_later_leaves_the_kept_ones(piled: Seen, one: Machine) -> None:
    pile.regenerated(pile.written(piled, plan(piled, one).items))
    edits = files(plan(piled, pile.machine()))
    assert SECOND not in edits[RULES]
    assert edits[MODULES].splitlines()[1:] == []
    assert "blacklist nvidia" not in edits[DRIVER]
    assert "# kpro: softdep nvidia pre: vfio-pci" in edits["/etc/modprobe.d/vfio.conf"]


def test_an_audio_id_that_all_boards_share_is_kept_for_another_board(piled: Seen, one: Machine) -> None:
    """10de:1aef is the audio function of every GA102: a 3090 that stays loses it from ids=, not its own id."""
    piled.gpu(SECOND, "vfio-pci", "2", device="0x2204")
    piled.put("file", "/etc/modprobe.d/vfio.conf", "options vfio-pci ids=10de:2230,10de:2204,10de:1aef\n")
    for path in ("/etc/default/grub", "/etc/initramfs-tools/modules", "/etc/udev/rules.d/10-vfio.rules"):
        piled.put("file", path, "")
    edits = files(plan(piled, one))
    assert edits["/etc/modprobe.d/vfio.conf"].endswith("\noptions vfio-pci ids=10de:2204\n")
    assert "02:00.1" in edits[RULES]
    assert "02:00.0" not in edits[RULES]


def test_a_gpu_that_nothing_holds_is_not_kept_but_not_taken_either(piled: Seen, one: Machine) -> None:
    for path in pile.FILES:
        piled.put("file", path, "")
    piled.gpu(SECOND, "", "2").audio("0000:02:00.1", "snd_hda_intel", "2")
    found = plan(piled, one)
    load = item(found, "driver.load").payload
    assert isinstance(load, Load)
    assert load.keep == (Bdf.parse(SECOND),)
    assert RULES not in files(found)
    assert "blacklist nvidia" not in files(found)[DRIVER]


def test_audio_on_its_own_driver_stays_there(piled: Seen, one: Machine) -> None:
    piled.audio("0000:01:00.1", "snd_hda_intel", "1")
    switch = item(plan(piled, one), "release.online").payload
    assert isinstance(switch, Switch)
    assert [str(function.bdf) for function in switch.functions] == [FIRST]


def test_a_leftover_override_is_cleared_without_an_unbind(piled: Seen, one: Machine) -> None:
    pile.loaded(piled, FIRST).gpu(FIRST, "nvidia", "1", "vfio-pci").audio("0000:01:00.1")
    switch = item(plan(piled, one), "release.online").payload
    assert isinstance(switch, Switch)
    assert [(function.now, function.wanted) for function in switch.functions] == [("nvidia", "nvidia")]
    piled.gpu(FIRST, "nvidia", "1")
    assert not [item for item in plan(piled, one).items if item.kind == "release.online"]


def test_nouveau_without_a_console_is_taken_off_while_the_machine_runs(piled: Seen, one: Machine) -> None:
    piled.gpu(FIRST, "nouveau", "1")
    switch = item(plan(piled, one), "release.online").payload
    assert isinstance(switch, Switch)
    assert (switch.functions[0].now, switch.functions[0].wanted) == ("nouveau", None)


def test_nouveau_is_kept_away_once_and_by_whoever_does_it(piled: Seen, one: Machine) -> None:
    for path in pile.FILES:
        piled.put("file", path, "")
    piled.gpu(SECOND, "", "2").audio("0000:02:00.1")
    assert "blacklist nouveau\n" in files(plan(piled, one))[DRIVER]
    piled.put("file", "/etc/modprobe.d/somebody.conf", "blacklist nouveau\n")
    assert not [item for item in plan(piled, one).items if item.kind == "release.files"]


def test_a_bridge_in_the_group_is_skipped(piled: Seen, one: Machine) -> None:
    piled.gpu(
        "0000:00:01.0", "vfio-pci", "1", vendor="0x8086", device="0x1901", pci_class="0x060400", config=""
    )
    assert plan(piled, one).refusals == ()


def test_a_bridge_of_the_gpu_s_own_slot_is_skipped_too(piled: Seen, one: Machine) -> None:
    piled.gpu("0000:01:00.2", "vfio-pci", "1", pci_class="0x060400").gpu(
        "0000:01:00.3", "vfio-pci", "1", pci_class="0x0c0330"
    )
    switch = item(plan(piled, one), "release.online").payload
    assert isinstance(switch, Switch)
    assert [function.bdf.function for function in switch.functions] == [0, 1, 3]


@pytest.mark.parametrize(
    ("driver", "is_refused"), [("vfio-pci", True), ("vfio_pci_core_x", True), ("igb", False), ("", False)]
)
def test_a_neighbour_in_the_group_that_a_vm_has_is_refused(
    piled: Seen, one: Machine, driver: str, is_refused: bool
) -> None:
    piled.gpu("0000:01:01.0", driver, "1", vendor="0x8086", device="0x1521", pci_class="0x020000", config="")
    assert ("0000:01:01.0 (8086:1521)" in refused(plan(piled, one))) is is_refused


def test_two_named_gpus_may_share_a_group_but_a_named_and_a_kept_one_may_not(
    piled: Seen, one: Machine
) -> None:
    piled.gpu(SECOND, "vfio-pci", "1").audio("0000:02:00.1", "vfio-pci", "1")
    assert plan(piled, pile.machine()).refusals == ()
    assert f"{SECOND} (10de:2230) is in the same IOMMU group 1" in refused(plan(piled, one))


def test_a_gpu_that_does_not_answer_is_named_and_nothing_is_touched(piled: Seen) -> None:
    piled.gpu(FIRST, "vfio-pci", "1", config="ff ff ff ff")
    found = plan(piled, pile.machine())
    assert f"GPU {FIRST}: its configuration space reads ff" in refused(found)
    assert SECOND not in refused(found)


def test_a_lost_gpu_that_is_not_wanted_hinders_nobody(piled: Seen) -> None:
    piled.gpu(FIRST, "vfio-pci", "1", config="ff ff ff ff")
    found = plan(piled, pile.machine(SECOND))
    assert found.refusals == ()
    assert f"GPU {FIRST}, which the inventory does not name, does not answer" in "\n".join(found.notes)


def test_a_gpu_that_was_not_asked_whether_it_answers_is_never_taken_for_well(
    piled: Seen, one: Machine
) -> None:
    piled.gpu(FIRST, "vfio-pci", "1", config="")
    assert "was not read" in refused(plan(piled, one))


def test_a_gpu_that_was_never_there_is_refused(piled: Seen) -> None:
    assert "no NVIDIA GPU at 0000:07:00.0" in refused(plan(piled, pile.machine("0000:07:00.0")))


def test_a_file_of_a_package_is_overridden_and_never_edited(piled: Seen, one: Machine) -> None:
    piled.put("file", "/usr/lib/modprobe.d/vendor.conf", "options vfio-pci ids=10de:2230\n")
    edits = files(plan(piled, one))
    assert edits["/etc/modprobe.d/vendor.conf"] == "# kpro: options vfio-pci ids=10de:2230\n"
    assert not [path for path in edits if not path.startswith("/etc/")]
    piled.put("file", "/etc/modprobe.d/vendor.conf", "# nothing\n")
    assert "/etc/modprobe.d/vendor.conf" not in files(plan(piled, one))


def test_a_link_is_refused_and_a_file_is_not(piled: Seen, one: Machine) -> None:
    assert plan(piled, one).refusals == ()
    piled.put("linked", "/etc/modprobe.d/vfio.conf", "link\n")
    assert "/etc/modprobe.d/vfio.conf: it holds a GPU and is a symbolic link" in refused(plan(piled, one))


def test_what_kpro_does_not_edit_is_refused_with_what_to_do(piled: Seen, one: Machine) -> None:
    script = "/etc/initramfs-tools/scripts/init-top/vfio"
    text = "echo vfio-pci >/sys/bus/pci/devices/{}/driver_override\n"
    piled.put("file", script, text.format(FIRST))
    assert f"take the GPUs out of {script}" in refused(plan(piled, one))
    piled.put("file", script, text.format(SECOND))
    assert plan(piled, one).refusals == ()


def test_a_file_of_driverctl_is_removed_and_kept_for_the_undo(piled: Seen, one: Machine) -> None:
    path = f"/etc/driverctl.d/pci-{FIRST}"
    piled.put("file", path, "vfio-pci\n")
    (edits,) = (item.payload for item in plan(piled, one).items if item.kind == "release.files")
    (edit,) = (edit for edit in edits.files if edit.path == path)
    assert (edit.gone, edit.data) == (True, b"")
    piled.put("file", path, "nvidia\n")
    (edits,) = (item.payload for item in plan(piled, one).items if item.kind == "release.files")
    assert path not in [edit.path for edit in edits.files]


def test_without_any_kernel_to_make_an_initramfs_for_nothing_is_touched(piled: Seen, one: Machine) -> None:
    found = plan(piled.put("names", "/boot/vmlinuz-*", "\n"), one)
    assert "no kernel" in refused(found)
    assert not [item for item in found.items if item.kind.startswith("release.")]


def test_proxmox_boots_by_its_own_tool(piled: Seen, one: Machine) -> None:
    piled.put("file", "/etc/kernel/proxmox-boot-uuids", "5A6B-0001\n")
    assert item(plan(piled, one), "release.regenerate").payload.boot_loader == "proxmox-boot-tool"


def test_grub_is_run_whatever_changed_and_only_where_it_is(piled: Seen, one: Machine) -> None:
    piled.put("file", "/etc/default/grub", 'GRUB_CMDLINE_LINUX="quiet"\n')
    found = item(plan(piled, one), "release.regenerate")
    assert found.payload.boot_loader == "grub"
    assert "and run grub" in found.text
    piled.tools("update-grub", there=False)
    assert item(plan(piled, one), "release.regenerate").payload.boot_loader is None
