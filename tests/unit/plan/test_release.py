"""Steps 2-4 of a managed machine: what is released, what is loaded, when it takes a reboot, when nothing is touched."""

from __future__ import annotations

import pytest

from checks.bdf import Bdf
from provision.host.decide import host_plan
from provision.host.moves import Edits, Function, Load, Reboot, Regenerate, Switch
from provision.plan import Item, Plan, Step
from provision.spec import Machine
from tests.unit.plan import pile
from tests.unit.plan.pile import FIRST, SECOND
from tests.unit.plan.seen import Seen

OPENER = "4321\t/dev/vfio/1\t/usr/bin/qemu-system-x86_64 -name work\n"


@pytest.fixture
def host(piled: Seen) -> Seen:
    return piled


def plan(host: Seen, machine: Machine | None = None) -> Plan:
    return host_plan(machine or pile.machine(), host.snapshot)


def what(found: Plan) -> list[tuple[int, str, str]]:
    return [(int(item.step), item.kind, item.subject) for item in found.items]


def one(found: Plan, kind: str, subject: str | None = None) -> Item:
    (item,) = (item for item in found.items if item.kind == kind and subject in (None, item.subject))
    return item


def files(found: Plan) -> dict[str, str]:
    payload = one(found, "release.files").payload
    assert isinstance(payload, Edits)
    return {edit.path: edit.data.decode() for edit in payload.files}


def refused(found: Plan) -> str:
    return "\n".join(map(str, found.refusals))


def test_two_gpus_that_everything_holds_are_released_and_loaded(host: Seen) -> None:
    found = plan(host)
    assert found.refusals == ()
    assert what(found) == [
        (2, "release.files", "boot configuration"),
        (2, "release.regenerate", "initramfs and boot loader"),
        (2, "release.online", FIRST),
        (2, "release.online", SECOND),
        (3, "driver.install", "535.261.03 open"),
        (3, "driver.load", "nvidia"),
        (5, "nodes.unit", "kpro-devices.service"),
        (5, "nodes.make", "/dev/nvidia*"),
    ]
    switch = one(found, "release.online", FIRST).payload
    assert switch == Switch(
        Bdf.parse(FIRST),
        (
            Function(Bdf.parse(FIRST), "vfio-pci", None, "1"),
            Function(Bdf.parse("01:00.1"), "vfio-pci", "snd_hda_intel", "1"),
        ),
        (),
    )
    load = one(found, "driver.load").payload
    assert load == Load("535.261.03", "open", (Bdf.parse(FIRST), Bdf.parse(SECOND)), ())
    assert one(found, "release.regenerate").payload == Regenerate(("6.1.0-50-amd64",), "grub")


def test_every_holder_is_taken_out_and_all_else_stays(host: Seen) -> None:
    edits = files(plan(host))
    assert edits["/etc/modprobe.d/vfio.conf"] == (
        "# GPUs for virtual machines\n"
        "# kpro: options vfio-pci ids=10de:2230,10de:1aef disable_vga=1\n"
        "options vfio-pci disable_vga=1\n"
        "# kpro: softdep nvidia pre: vfio-pci\n"
        "# kpro: softdep nouveau pre: vfio-pci\n"
        "blacklist nouveau\n"
        "# kpro: blacklist nvidia\n"
    )
    assert edits["/etc/default/grub"] == pile.GRUB.replace(" vfio-pci.ids=10de:2230,10de:1aef", "")
    assert edits["/etc/initramfs-tools/modules"] == (
        "# List of modules\n# kpro: vfio-pci ids=10de:2230,10de:1aef\nvfio-pci\n"
    )
    assert edits["/etc/udev/rules.d/10-vfio.rules"] == "".join(
        f"# kpro: {line}\n" for line in pile.RULES.splitlines()
    )
    assert "/etc/modules-load.d/vfio.conf" not in edits


def test_every_holder_is_shown_with_file_and_line(host: Seen) -> None:
    notes = "\n".join(plan(host).notes)
    for place in (
        "vfio.conf:2:",
        "vfio.conf:3:",
        "vfio.conf:6:",
        "grub:2:",
        "modules:2:",
        "10-vfio.rules:1:",
    ):
        assert place in notes, place


def test_a_gpu_held_by_a_running_vm_is_never_unbound(host: Seen) -> None:
    found = plan(host.cmd("openers", OPENER))
    assert "process 4321 (/usr/bin/qemu-system-x86_64 -name work) has /dev/vfio/1 open" in refused(found)
    assert f"GPU {FIRST}" in refused(found)
    assert f"GPU {SECOND}" not in refused(found)


@pytest.mark.parametrize("target", ["/dev/vfio/vfio", "/dev/vfio/17"])
def test_a_vm_with_another_device_is_no_hindrance(host: Seen, target: str) -> None:
    assert plan(host.cmd("openers", OPENER.replace("/dev/vfio/1", target))).refusals == ()


def test_a_vm_that_has_the_device_by_its_new_node_is_seen_too(host: Seen) -> None:
    host.gpu(FIRST, "vfio-pci", "1", vfio_dev="vfio0").cmd(
        "openers", OPENER.replace("vfio/1", "vfio/devices/vfio0")
    )
    assert "/dev/vfio/devices/vfio0" in refused(plan(host))


def test_a_device_that_is_held_without_its_group_may_be_any(host: Seen) -> None:
    device = OPENER.replace("/dev/vfio/1", "anon_inode:[vfio-device]")
    assert len(plan(host.cmd("openers", device)).refusals) == 2
    with_its_group = device + OPENER.replace("/dev/vfio/1", "/dev/vfio/9")
    assert plan(host.cmd("openers", with_its_group)).refusals == ()


def test_a_machine_that_is_not_managed_is_only_looked_at(host: Seen) -> None:
    found = plan(host, pile.machine().model_copy(update={"managed": False}))
    assert found.items == ()
    assert len(found.refusals) == 3


def test_a_machine_with_its_gpus_ready_has_nothing_to_do(host: Seen) -> None:
    pile.written(host, plan(host).items)
    for bdf in (FIRST, SECOND):
        pile.switched(host, bdf)
    pile.noded(pile.loaded(pile.installed(pile.regenerated(host))))
    found = plan(host)
    assert (found.items, found.refusals) == ((), ())
    assert "driver 535.261.03 (open) is loaded, as pinned" in found.notes


def test_an_earlier_run_that_was_cut_makes_the_initramfs_anew(host: Seen) -> None:
    pile.written(host, plan(host).items)
    assert [kind for _, kind, _ in what(plan(host))][:2] == ["release.regenerate", "release.online"]


def test_the_plan_during_the_run_is_always_a_part_of_the_plan_shown(host: Seen) -> None:
    shown = plan(host)
    moments = [
        lambda: pile.written(host, shown.items),
        lambda: pile.regenerated(host),
        lambda: pile.switched(host, FIRST),
        lambda: pile.switched(host, SECOND),
        lambda: pile.installed(host),
        lambda: pile.loaded(host, FIRST, SECOND),
        lambda: pile.noded(host),
    ]
    left = len(shown.items)
    for moment in moments:
        moment()
        found = plan(host)
        assert found.refusals == ()
        assert found.ids <= shown.ids
        assert len(found.items) <= left
        left = len(found.items)
    assert left == 0


def test_steps_come_in_the_order_of_the_runbook(host: Seen) -> None:
    steps = [item.step for item in plan(host).items]
    assert steps == sorted(steps)
    assert Step.REBOOT not in steps


def test_a_reason_turns_the_switch_into_a_reboot(host: Seen) -> None:
    host.gpu(FIRST, "nouveau", "1", boot_vga="1")
    found = plan(host)
    assert [kind for _, kind, _ in what(found)] == [
        "release.files",
        "release.regenerate",
        "driver.install",
        "reboot",
        "nodes.unit",
        "nodes.make",
        "reboot.confirm",
    ]
    payload = one(found, "reboot").payload
    assert isinstance(payload, Reboot)
    assert [(reason.row, reason.subject) for reason in payload.reasons] == [("nouveau-console", FIRST)]
