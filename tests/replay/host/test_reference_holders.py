"""The reference inputs of hosts, each with the conclusion it must give."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.bdf import Bdf
from provision.host.moves import Edits, Switch
from provision.host.release import cmdline, driverctl, lists, modprobe, udev
from provision.host.release.decide import metal_plan
from provision.host.release.reasons import ROWS, Look
from provision.host.release.target import Holder, Target
from provision.host.view import PciFunction
from provision.plan import Plan
from provision.spec import Driver, Gpu, Machine
from tests.unit.plan.seen import Seen

FIRST, SECOND = Bdf.parse("42:00.0"), Bdf.parse("61:00.0")
GPU = PciFunction(FIRST, "0x2230", "0x030000", "vfio-pci", "25", None)
AUDIO = PciFunction(Bdf.parse("42:00.1"), "0x1aef", "0x040300", "vfio-pci", "25", None)
GA102 = PciFunction(Bdf.parse("81:00.0"), "0x2204", "0x030000", "vfio-pci", "26", None)
A6000 = Target((GPU, AUDIO))


@pytest.fixture
def host_files(shared: Path) -> Path:
    return shared / "fixtures" / "host"


@pytest.mark.parametrize(
    ("name", "left"),
    [
        (
            "modprobe.d/vfio_ids_a6000.conf",
            "# kpro: options vfio-pci ids=10de:2230,10de:1aef disable_vga=1\noptions vfio-pci disable_vga=1\n",
        ),
        ("modprobe.d/install_false.conf", "# kpro: install nvidia /bin/false\ninstall nouveau /bin/false\n"),
    ],
)
def test_modprobe_files(name: str, left: str, host_files: Path) -> None:
    text = (host_files / name).read_text()
    assert modprobe.clean(text, A6000) == left


def test_of_proxmox_s_blacklist_only_nvidia_goes(host_files: Path) -> None:
    text = (host_files / "modprobe.d/pve-blacklist.conf").read_text()
    assert modprobe.clean(text, A6000) == text.replace("\nblacklist nvidia\n", "\n# kpro: blacklist nvidia\n")


def test_a_list_that_only_loads_vfio_holds_nothing(host_files: Path) -> None:
    text = (host_files / "modules-load.d/vfio.conf").read_text()
    assert lists.find("/x", text) == ()
    assert lists.clean(text, A6000) == text


def test_of_udev_rows_only_those_of_the_released_address_go(host_files: Path) -> None:
    text = (host_files / "udev/10-proxmenux-vfio-bind.rules").read_text()
    assert udev.clean(text, A6000) == text
    (first,) = (PciFunction(Bdf.parse("01:00.0"), "0x2230", "0x030000", None, None, None),)
    lines = text.splitlines()
    assert udev.clean(text, Target((first,))).splitlines() == [f"# kpro: {lines[0]}", lines[1]]


def test_a_driverctl_file_is_a_holder_of_its_address(host_files: Path) -> None:
    path = host_files / "driverctl/pci-0000:42:00.0"
    (holder,) = driverctl.find(f"/etc/driverctl.d/{path.name}", path.read_text())
    assert (holder.holds(GPU), holder.holds(AUDIO)) == (True, False)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("nouveau_blacklist.txt", ()),
        ("pve_grub_intel.txt", ()),
        ("pve_zfs_sdboot_amd.txt", ()),
        ("typo_vifo.txt", ()),
        ("vfio_ids_3090_acs.txt", (AUDIO, GA102)),
    ],
)
def test_command_lines(name: str, holds: tuple[PciFunction, ...], host_files: Path) -> None:
    text = (host_files / "cmdline" / name).read_text()
    found: tuple[Holder, ...] = cmdline.find("/etc/kernel/cmdline", text)
    held = {function for function in (GPU, AUDIO, GA102) for holder in found if holder.holds(function)}
    assert held == set(holds)
    left = cmdline.clean("/etc/kernel/cmdline", text, Target((GPU, AUDIO, GA102)))
    assert left == re.sub(r"vfio-pci\.ids=\S+ ", "", text)


def test_of_grub_s_file_only_the_line_in_effect_is_edited(host_files: Path) -> None:
    text = (host_files / "boot/etc_default_grub").read_text()
    left = cmdline.clean("/etc/default/grub", text, Target((GA102, AUDIO)))
    assert left == text.replace(" vfio-pci.ids=10de:2204,10de:1aef", "")
    assert cmdline.clean("/etc/default/grub", text, Target((GPU,))) == text


def from_lspci(text: str, groups: Callable[[Bdf], str] = lambda bdf: str(bdf.bus)) -> Seen:
    seen = Seen().boots().tools("flock", "base64", "sha256sum", "mktemp", "sync").cmd("id-u", "0\n")
    seen.put("pci", "/sys/bus/pci/devices", "").put("file", "/proc/driver/nvidia/version", None)
    for block in re.split(r"\n(?=\S)", text):
        head = re.search(r"(\S+) .*\[(\w{4})\]: .*\[(\w{4}):(\w{4})\]", block)
        if head:
            bdf, used = Bdf.parse(head[1]), re.search(r"Kernel driver in use: (\S+)", block)
            window = "0x20000000000 0x20fffffffff 0x14220c" if head[2].startswith("03") else "0x0 0x0 0x0"
            seen.gpu(
                str(bdf),
                used[1] if used else "",
                groups(bdf),
                vendor=f"0x{head[3]}",
                device=f"0x{head[4]}",
                pci_class=f"0x{head[2]}00",
                bar1=window,
            )
    return seen


def machine(*gpus: str) -> Machine:
    return Machine(
        name="box",
        gpus=[Gpu(bdf=bdf, model="RTX A6000") for bdf in gpus],
        driver=Driver(version="580.159.04", flavour="open", route="nvidia"),
    )


def switches(plan: Plan) -> dict[str, list[tuple[str, str | None]]]:
    return {
        item.subject: [(function.bdf.short, function.now) for function in item.payload.functions]
        for item in plan.items
        if isinstance(item.payload, Switch)
    }


def test_two_a6000_of_which_one_has_its_audio_at_home(host_files: Path) -> None:
    seen = from_lspci((host_files / "lspci/Dnnk_a6000_x2_vfio_composed.txt").read_text())
    found = metal_plan(machine("42:00.0", "61:00.0"), seen.snapshot)[0]
    assert found.refusals == ()
    assert switches(found) == {
        str(FIRST): [("42:00.0", "vfio-pci"), ("42:00.1", "vfio-pci")],
        str(SECOND): [("61:00.0", "vfio-pci")],
    }


def test_two_unbound_gpus_are_loaded_and_nothing_is_switched(host_files: Path) -> None:
    seen = from_lspci((host_files / "lspci/nnk_rtx_pro_6000_x2_unbound.txt").read_text())
    found = metal_plan(machine("01:00.0", "02:00.0"), seen.snapshot)[0]
    assert found.refusals == ()
    assert switches(found) == {}
    assert [item.kind for item in found.items] == ["driver.load"]


def test_a_gpu_on_nvidia_has_nothing_to_be_released(host_files: Path) -> None:
    seen = from_lspci((host_files / "lspci/nnk_rtx3080_nvidia.txt").read_text())
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
    seen.put("file", "/proc/driver/nvidia/version", version)
    (bdf,) = (p for p in seen.snapshot.paths("pci") if b"0x0300" in (seen.snapshot.data("pci", p) or b""))
    assert metal_plan(machine(bdf), seen.snapshot)[0].items == ()


def groups(text: str) -> Seen:
    """A listing of IOMMU groups as if everything in it that can be were on vfio-pci."""
    by_bdf = {
        Bdf.parse(bdf): number for number, bdf in re.findall(r"^IOMMU Group (\d+) (\S+)", text, re.MULTILINE)
    }
    plain = re.sub(r"^IOMMU Group \d+ ", "", text, flags=re.MULTILINE)
    blocks = "\n".join(
        f"{line}\n\tKernel driver in use: vfio-pci" for line in plain.splitlines() if line.strip()
    )
    return from_lspci(blocks, lambda bdf: by_bdf[bdf])


def test_a_bridge_in_the_group_is_never_unbound(host_files: Path) -> None:
    seen = groups((host_files / "iommu/group_shared_with_root_port.txt").read_text())
    found = metal_plan(machine("01:00.0"), seen.snapshot)[0]
    assert found.refusals == ()
    assert [bdf for bdf, _ in switches(found)["0000:01:00.0"]] == ["01:00.0", "01:00.1", "01:00.2", "01:00.3"]


def test_an_old_console_card_beside_the_wanted_ones_hinders_nobody(host_files: Path) -> None:
    seen = groups((host_files / "iommu/groups_a6000_epyc.txt").read_text())
    seen.gpu("0000:41:00.0", "nouveau", "24", device="0x0ff3", boot_vga="1")
    found = metal_plan(machine("42:00.0", "61:00.0"), seen.snapshot)[0]
    assert found.refusals == ()
    assert set(switches(found)) == {str(FIRST), str(SECOND)}
    assert not [item for item in found.items if item.kind == "reboot"]
    edits = [item.payload for item in found.items if isinstance(item.payload, Edits)]
    assert not any("41:00" in edit.data.decode() for edit in edits for edit in edit.files)


def test_nvswitches_are_no_gpus_and_stay(host_files: Path) -> None:
    seen = groups((host_files / "lspci/Dnn_h200_x8_nvswitch_groups.txt").read_text())
    wanted = [
        path
        for path in seen.snapshot.paths("pci")
        if b"class=0x0302" in (seen.snapshot.data("pci", path) or b"")
    ]
    assert len(wanted) == 8
    found = metal_plan(machine(*wanted), seen.snapshot)[0]
    assert found.refusals == ()
    moved = {bdf for functions in switches(found).values() for bdf, _ in functions}
    assert {str(Bdf.parse(bdf)) for bdf in moved} == set(wanted)


def test_xid_154_asks_for_a_reboot_of_the_gpu_it_names(host_files: Path) -> None:
    lines = tuple((host_files / "dmesg/xid79_variants.txt").read_text().splitlines())
    look = Look("", "k", ("k",), {}, (), "", lines, None, None)
    (row,) = (row for row in ROWS if row.id == "xid-154")
    named = PciFunction(Bdf.parse("06:00.0"), "0x2230", "0x030000", "nvidia", "1", None)
    assert row.seen(look, named)
    assert row.seen(look, GPU) is None
