"""The table of boards: names as NVML gives them find their own row, and rows agree with themselves."""

from __future__ import annotations

import re

import pytest

from checks.data.boards import BOARDS, board_of, integrated

NAMES = [
    # name, links, fabric, ECC must be on, GB/s
    ("NVIDIA H100 80GB HBM3", 18, True, True, 3350),
    ("NVIDIA H200", 18, True, True, 4800),
    ("NVIDIA B200", 18, True, True, 8000),
    ("NVIDIA GB200", 18, True, True, 8000),
    ("NVIDIA H100 PCIe", None, False, True, 2000),
    ("NVIDIA H100 NVL", None, False, True, 3900),
    ("NVIDIA H200 NVL", None, False, True, 4800),
    ("NVIDIA A100-SXM4-40GB", 12, False, True, 1555),
    ("NVIDIA A100-SXM4-80GB", 12, False, True, 2039),
    ("NVIDIA A100-PCIE-40GB", None, False, True, 1555),
    ("NVIDIA A100 80GB PCIe", None, False, True, 1935),
    ("Tesla V100-SXM2-32GB", 6, False, True, 900),
    ("Tesla V100-PCIE-16GB", None, False, True, 900),
    ("NVIDIA A30", None, False, True, 933),
    ("NVIDIA A40", None, False, False, 696),
    ("NVIDIA L40S", None, False, False, 864),
    ("NVIDIA L4", None, False, False, 300),
    ("Tesla T4", None, False, False, 320),
    ("NVIDIA RTX A6000", None, False, False, 768),
    ("NVIDIA RTX A4000", None, False, False, None),
    ("NVIDIA RTX 6000 Ada Generation", None, False, False, 960),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", None, False, False, 1792),
    ("NVIDIA GeForce RTX 3090", None, False, False, 936),
    ("NVIDIA GeForce RTX 4090", None, False, False, 1008),
    ("NVIDIA GeForce RTX 5090", None, False, False, 1792),
]


@pytest.mark.parametrize(("name", "links", "fabric", "ecc", "bandwidth"), NAMES)
def test_a_name_as_nvml_gives_it_finds_its_row(
    name: str, links: int | None, fabric: bool, ecc: bool, bandwidth: int | None
) -> None:
    board = board_of(name)
    assert board is not None
    assert (board.links, board.fabric, board.ecc, board.bandwidth) == (links, fabric, ecc, bandwidth)


@pytest.mark.parametrize(
    "name", ["", "NVIDIA H2000", "NVIDIA A100X-unheard-of", "Quadro P400", "NVIDIA GB10"]
)
def test_a_board_in_no_row_gets_no_expectation(name: str) -> None:
    assert board_of(name) is None


def test_boards_with_fixed_links_say_which_version_and_only_switched_ones_span_machines() -> None:
    for board in BOARDS:
        assert board.source
        assert board.nvlink or not board.links, board.name
        assert board.fabric or not board.cluster, board.name
        assert bool(board.generation) <= bool(board.lanes), board.name


def test_no_row_is_hidden_by_an_earlier_one() -> None:
    plain = {board.name: board for board in BOARDS if re.escape(board.name).replace("\\ ", " ") == board.name}
    assert len(plain) > 10
    assert all(board_of(name) is board for name, board in plain.items())


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("NVIDIA GB10", True),
        ("NVIDIA Thor", True),
        ("Orin (nvgpu)", True),
        ("NVIDIA GB200", False),
        ("NVIDIA H200", False),
    ],
)
def test_gpus_that_are_part_of_their_host_s_chip_are_told_from_boards(name: str, is_one: bool) -> None:
    assert integrated(name) is is_one
