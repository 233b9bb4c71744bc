"""lspci's other forms (lspci(8)): made for machines, with IOMMU groups, and of a function that does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.inspect import lspci
from tests.unit.inspect.test_texts import tree

V = "VGA compatible controller"
NAME = "NVIDIA Corporation GA102GL [RTX A6000]"
LINE = f"42:00.0 {V} [0300]: {NAME} [10de:2230] (rev a1)"
VMM = (
    f"Slot:\t0000:42:00.0\nClass:\t{V} [0300]\n"
    "Vendor:\tNVIDIA Corporation [10de]\nDevice:\tGA102GL [RTX A6000] [2230]\n"
    "SVendor:\tNVIDIA Corporation [10de]\nSDevice:\tDevice [1459]\nRev:\ta1\nDriver:\tvfio-pci\nModule:\tnvidiafb\n"
    "Module:\tnouveau\nNUMANode:\t0\nIOMMUGroup:\t25\n\n"
)


@pytest.mark.parametrize(
    ("text", "driver", "group"),
    [
        (
            f'42:00.0 "{V} [0300]" "NVIDIA Corporation [10de]" "GA102GL [RTX A6000] [2230]" -ra1 "X [10de]" "Y [1459]"',
            None,
            None,
        ),
        ('42:00.0 "0300" "10de" "2230" -ra1 "10de" "1459"', None, None),
        (VMM, "vfio-pci", "25"),
        ("Slot:\t42:00.0\nClass:\t0300\nVendor:\t10de\nDevice:\t2230\nDriver:\tnvidia", "nvidia", None),
        (
            f"{LINE}\n\tFlags: bus master, latency 0, NUMA node 0, IOMMU group 25\n\tKernel driver in use: nvidia",
            "nvidia",
            "25",
        ),
        (
            f"{LINE}\n\tIOMMU group: 25\n\tKernel driver in use: nvidia\n\tKernel modules: nvidia",
            "nvidia",
            "25",
        ),
        (f"IOMMU Group 25 [10de:2230] 42:00.0 {V}: {NAME} (rev a1)", None, "25"),
        (f"IOMMU Group 25 [10de:2230] [R] {LINE}", None, "25"),
        (f"Group: 25   0000:{LINE}   Driver: vfio-pci", "vfio-pci", "25"),
        (f"Group 25:\n\t{LINE}", None, "25"),
    ],
)
def test_a_gpu_is_the_same_in_every_form(text: str, driver: str | None, group: str | None) -> None:
    (one,) = lspci.parse(text)
    assert (str(one.bdf), one.class_code, one.vendor, one.device) == ("0000:42:00.0", "0300", "10de", "2230")
    assert (one.driver, one.group, one.lost, one.is_nvidia) == (driver, group, False, True)


def test_functions_of_the_machine_s_form_follow_one_another() -> None:
    sound = (
        "Slot:\t42:00.1\nClass:\tAudio device [0403]\nVendor:\tNVIDIA Corporation [10de]\nDevice:\tX [1aef]\n"
    )
    first, second = lspci.parse(VMM + sound)
    assert (first.modules, first.name) == (("nvidiafb", "nouveau"), NAME)
    assert (second.device, second.driver, second.driver_told, second.group) == ("1aef", None, True, None)


def test_the_maker_s_old_spelling_is_the_maker_s() -> None:
    (one,) = lspci.parse(f"42:00.0 {V}: nVidia Corporation GK107GL [Quadro K420] (rev a1)\n")
    assert one.is_nvidia


@pytest.mark.parametrize(
    "text",
    [
        LINE.replace("rev a1", "rev ff"),
        LINE.replace("rev a1", "rev ff")
        + " (prog-if ff)\n\t!!! Unknown header type 7f\n\tKernel driver in use: vfio-pci",
        f"{LINE}\n\t!!! Unknown header type 7f",
        VMM.replace("Rev:\ta1", "Rev:\tff"),
        f'42:00.0 "{V} [0300]" "NVIDIA Corporation [10de]" "GA102GL [2230]" -rff -pff "" ""',
    ],
)
def test_a_gpu_that_does_not_answer_is_refused_whatever_holds_it(text: str, tmp_path: Path) -> None:
    machine = tree(tmp_path, **{"cmd__lspci-nnk": f"{text}\n"})
    (gpu,) = machine["gpus"]
    assert gpu["release"]["how"] == "refused"
    assert [reason["row"] for reason in gpu["release"]["reasons"]] == ["config-ff"]
    (finding,) = [one for one in machine["findings"] if one["id"] == "gpu.lost"]
    assert (finding["kind"], finding["subject"]) == ("problem", "0000:42:00.0")


def test_a_gpu_that_answers_is_not_lost(tmp_path: Path) -> None:
    machine = tree(tmp_path, **{"cmd__lspci-nnk": f"{LINE}\n"})
    assert "gpu.lost" not in {one["id"] for one in machine["findings"]}
