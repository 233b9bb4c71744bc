"""Which kernel module a GPU takes: the impossible is refused with its reason, the unusual is the operator's to pin."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.bdf import Bdf
from provision.data import gpu_arch
from provision.host.flavour import flavour_refusals
from provision.host.view import PciFunction
from provision.plan import Refusal
from provision.spec import Driver, Gpu, Machine

A6000, A100, V100, P40, GTX_480, K420 = "2230", "20b0", "1db1", "1b38", "06c0", "0ff3"
B200, RTX_PRO_6000, GH200, RUBIN = "2901", "2bb1", "2342", "3001"
GPU, AUDIO, SWITCH = "0x030000", "0x040300", "0x068000"


def judge(version: str, flavour: str, *devices: str, unnamed: tuple[str, ...] = ()) -> list[Refusal]:
    bdfs = [f"0000:{slot:02x}:00.0" for slot in range(len(devices) + len(unnamed))]
    functions = [
        PciFunction(Bdf.parse(bdf), f"0x{device}", GPU, None, None, None)
        for bdf, device in zip(bdfs, (*devices, *unnamed), strict=True)
    ]
    machine = Machine(
        name="box",
        gpus=[Gpu(bdf=bdf, model="x") for bdf in bdfs[: len(devices)]],
        driver=Driver(version=version, flavour=flavour),  # type: ignore[arg-type]
    )
    return flavour_refusals(machine, functions)


@pytest.mark.parametrize(
    ("version", "flavour", "device"),
    [
        ("580.159.04", "open", A6000),
        ("570.148.08", "proprietary", A6000),
        ("580.159.04", "proprietary", P40),
        ("535.261.03", "proprietary", V100),
        ("570.26", "open", B200),
        ("610.57.04", "open", RTX_PRO_6000),
        ("580.159.04", "open", GH200),
        ("610.57.04", "open", RUBIN),
        ("610.57.04", "proprietary", A100),
    ],
)
def test_what_a_gpu_takes_is_not_refused(version: str, flavour: str, device: str) -> None:
    assert judge(version, flavour, device) == []


@pytest.mark.parametrize(
    ("version", "flavour", "device", "why"),
    [
        ("610.57.04", "open", P40, "only the proprietary module"),
        ("580.159.04", "open", V100, "only the proprietary module"),
        ("590.48.01", "proprietary", P40, "branch 580 was the last"),
        ("580.159.04", "proprietary", B200, "only the open module"),
        ("550.163.01", "open", RTX_PRO_6000, "from branch 570 on"),
        ("550.163.01", "open", GH200, "from branch 570 on"),
        ("610.57.04", "proprietary", RUBIN, "only the open module"),
        ("535.261.03", "proprietary", K420, "no branch after 470"),
        ("535.261.03", "proprietary", GTX_480, "no branch after 390"),
    ],
)
def test_an_impossible_driver_is_refused_with_the_reason(
    version: str, flavour: str, device: str, why: str
) -> None:
    (refusal,) = judge(version, flavour, device)
    assert why in refusal.why
    assert refusal.next_step


def test_the_proprietary_module_ends_with_610() -> None:
    for version, ends in (("610.57.04", False), ("620.10.01", True)):
        assert [refusal.where for refusal in judge(version, "proprietary", A6000)] == [
            "machine.driver"
        ] * ends
        assert judge(version, "open", A6000) == []


def test_a_mix_without_a_common_driver_is_refused_whatever_is_pinned() -> None:
    for version, flavour in (("580.159.04", "open"), ("580.159.04", "proprietary")):
        (refusal,) = judge(version, flavour, P40, B200)
        assert "no driver serves all of them" in refusal.why


def test_a_mix_with_a_common_driver_is_told_which_it_is() -> None:
    assert judge("580.159.04", "proprietary", P40, A6000) == []
    (refusal,) = judge("580.159.04", "open", P40, A6000)
    assert "flavour='proprietary'" in refusal.next_step
    assert "580 or older" in refusal.next_step


def test_a_gpu_that_the_inventory_does_not_name_has_no_say() -> None:
    assert judge("580.159.04", "open", A6000, unnamed=(K420, P40)) == []


def test_what_is_no_gpu_by_its_class_has_no_say() -> None:
    machine = Machine(
        name="box", gpus=[Gpu(bdf="01:00.0", model="x")], driver=Driver(version="580.159.04", flavour="open")
    )
    for pci_class in (AUDIO, SWITCH):
        strange = PciFunction(Bdf.parse("01:00.0"), "0x06c0", pci_class, None, None, None)
        assert flavour_refusals(machine, [strange]) == []


def test_every_architecture_has_ids_and_a_source() -> None:
    used = set(gpu_arch.TABLE.values())
    assert used == set(gpu_arch.ARCHITECTURES)
    assert all(len(row.source) > 20 for row in (*gpu_arch.ARCHITECTURES, gpu_arch.NEWER))
    assert all(len(device) == 4 and int(device, 16) for device in gpu_arch.TABLE)


def test_the_table_agrees_with_the_reference_list(shared: Path) -> None:
    lines = (shared / "fixtures/host/pciids/nvidia_gpu_arch.tsv").read_text().splitlines()[1:]
    for device, _, architecture, _, name in (line.split("\t") for line in lines):
        if device in ("22ce", "22d0"):
            assert device not in gpu_arch.TABLE, "a bridge, no GPU"
            continue
        expected = "grace hopper" if "GH200" in name else architecture
        assert gpu_arch.architecture(device).name == expected
