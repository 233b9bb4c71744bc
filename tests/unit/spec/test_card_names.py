"""A card is compared with the inventory's name by whole words."""

from __future__ import annotations

import pytest

from provision.card_names import fits, names_a_card

NVML = {
    "a6000": "NVIDIA RTX A6000",
    "a4000": "NVIDIA RTX A4000",
    "a100": "NVIDIA A100-SXM4-80GB",
    "h100": "NVIDIA H100 80GB HBM3",
    "nvl": "NVIDIA H100 NVL",
    "h200": "NVIDIA H200",
    "turing": "Quadro RTX 6000",
    "ada": "NVIDIA RTX 6000 Ada Generation",
    "pro": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "ti": "NVIDIA GeForce RTX 3080 Ti",
    "laptop": "NVIDIA GeForce RTX 3080 Laptop GPU",
}
LISTED = {
    "a6000": "GA102GL [RTX A6000]",
    "a4000": "GA104GL [RTX A4000]",
    "a100": "GA100 [A100 SXM4 80GB]",
    "h100": "GH100 [H100 SXM5 80GB]",
    "nvl": "GH100 [H100 NVL]",
    "h200": "GH100 [H200 SXM 141GB]",
    "turing": "TU102GL [Quadro RTX 6000/8000]",
    "ada": "AD102GL [RTX 6000 Ada Generation]",
    "pro": "GB202GL [RTX PRO 6000 Blackwell Server Edition]",
    "ti": "GA102 [GeForce RTX 3080 Ti]",
    "laptop": "GA104M [GeForce RTX 3080 Mobile / Max-Q 8GB/16GB]",
}


@pytest.mark.parametrize(
    ("wanted", "card"),
    [
        ("RTX A6000", "a6000"),
        ("NVIDIA RTX A6000", "a6000"),
        ("rtx a6000", "a6000"),
        ("A6000", "a6000"),
        ("A100", "a100"),
        ("A100 SXM4", "a100"),
        ("A100-SXM4-80GB", "a100"),
        ("H100", "h100"),
        ("H100 80GB HBM3", "h100"),
        ("H100", "nvl"),
        ("H200", "h200"),
        ("RTX 6000", "turing"),
        ("RTX 6000 Ada", "ada"),
        ("RTX PRO 6000", "pro"),
        ("RTX 3080 Ti", "ti"),
        ("RTX 3080 Laptop", "laptop"),
    ],
)
def test_a_card_is_known_by_words_of_its_name(wanted: str, card: str) -> None:
    assert fits(wanted, None, NVML[card], None)
    assert fits(wanted, None, None, LISTED[card])
    assert fits(wanted, None, NVML[card], LISTED[card])
    assert fits(NVML[card], None, NVML[card], LISTED[card])


@pytest.mark.parametrize("card", sorted(LISTED))
def test_what_init_writes_from_the_bus_still_holds_when_the_driver_names_the_card(card: str) -> None:
    written = LISTED[card].split("[")[1].rstrip("]")
    assert fits(written, None, None, LISTED[card])
    assert fits(written, None, NVML[card], LISTED[card])


@pytest.mark.parametrize(
    ("wanted", "card"),
    [
        ("H20", "h200"),
        ("A10", "a100"),
        ("RTX A400", "a4000"),
        ("RTX A600", "a6000"),
        ("A", "a6000"),
        ("H200", "h100"),
        ("H100 PCIe", "nvl"),
        ("A100 40GB", "a100"),
        ("RTX 6000", "ada"),
        ("RTX 6000", "pro"),
        ("RTX 6000 Ada", "turing"),
        ("RTX 3080", "ti"),
        ("RTX 3080 Ti", "laptop"),
        ("RTX 6000 Blackwell", "pro"),
    ],
)
def test_another_card_is_no_match_whoever_names_it(wanted: str, card: str) -> None:
    assert not fits(wanted, None, NVML[card], None)
    assert not fits(wanted, None, None, LISTED[card])
    assert not fits(wanted, None, NVML[card], LISTED[card])


def test_the_driver_tells_apart_what_the_bus_lists_side_by_side() -> None:
    assert fits("RTX 8000", None, None, LISTED["turing"])
    assert not fits("RTX 8000", None, NVML["turing"], LISTED["turing"])


def test_a_device_id_is_compared_with_the_device_id() -> None:
    assert fits("10de:2230", "10de:2230", NVML["a6000"], LISTED["a6000"])
    assert not fits("10de:2231", "10de:2230", NVML["a6000"], LISTED["a6000"])


def test_a_card_that_nobody_names_is_not_judged_by_its_name() -> None:
    assert fits("RTX A6000", "10de:2230", None, None)


@pytest.mark.parametrize("name", ["RTX A6000", "H100", "T4", "TITAN V", "10de:2230", "x"])
def test_a_name_of_a_card(name: str) -> None:
    assert names_a_card(name)


@pytest.mark.parametrize("name", ["", " ", "RTX", "NVIDIA", "80GB", "NVIDIA GeForce RTX", "PCIe-80GB", "[]"])
def test_no_name_of_a_card(name: str) -> None:
    assert not names_a_card(name)
