"""The forms of qemu-server's files, of resource mappings and of addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.bdf import Bdf
from provision.host.vms import grammar
from provision.host.vms.address import PciAddress, addresses
from provision.host.vms.grammar import CURRENT, PENDING
from provision.host.vms.mapping import mappings

FUNCTIONS = st.builds(
    Bdf, st.integers(0, 0xFFFFFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7)
)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("42:00", (0, 0x42, 0, None)),
        ("0000:42:00", (0, 0x42, 0, None)),
        ("0000:42:00.0", (0, 0x42, 0, 0)),
        ("00000000:42:00.1", (0, 0x42, 0, 1)),
        ("10000:01:00.0", (0x10000, 1, 0, 0)),
        ("0000:C1:1F.7", (0, 0xC1, 0x1F, 7)),
        (" 01:00.0 ", (0, 1, 0, 0)),
    ],
)
def test_every_spelling_of_an_address_is_read(text: str, means: tuple[int, int, int, int | None]) -> None:
    assert PciAddress.parse(text) == PciAddress(*means)


@pytest.mark.parametrize("text", ["", "42", "0000:42:20.0", "42:00.", "42:00.0.1", "x:42:00.0", "0:42:00.0x"])
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="not a PCI address"):
        PciAddress.parse(text)


@given(FUNCTIONS, FUNCTIONS)
def test_an_address_covers_itself_and_its_slot_and_nobody_else(one: Bdf, other: Bdf) -> None:
    same_slot = (one.domain, one.bus, one.slot) == (other.domain, other.bus, other.slot)
    assert PciAddress.parse(str(one)).covers(other) == (one == other)
    assert PciAddress.parse(str(one).split(".")[0]).covers(other) == same_slot


def test_an_address_is_never_found_inside_another() -> None:
    """00:02 stands in 0000:02:00.0, and is another device."""
    assert not PciAddress.parse("00:02").covers(Bdf.parse("0000:02:00.0"))
    assert not PciAddress.parse("02:00").covers(Bdf.parse("0000:00:02.0"))


def test_a_list_of_addresses_has_semicolons() -> None:
    assert [str(one) for one in addresses("02:00.0;0000:02:00.1;")] == ["0000:02:00.0", "0000:02:00.1"]


CONF = """#notes%3A hostpci9: 01:00
name: x
hostpci0: 0000:01:00,pcie=1
hostpci0:   0000:02:00.0  ,x-vga=1 \r
  hostpci1: 03:00
hostpci2:04:00
[PENDING]
delete: hostpci0,!net1 hostpci3;x
hostpci1: 05:00

[special:cloudinit]
hostpci4: 06:00
[before-upgrade]
#hostpci5: 07:00
hostpci6: 08:00
"""


def test_a_definition_is_read_as_qemu_server_reads_it() -> None:
    found = grammar.settings(CONF)
    said = {(section, key): (one.value, one.line) for (section, key), one in found.items()}
    assert said[CURRENT, "hostpci0"] == ("0000:02:00.0  ,x-vga=1", 4)  # the last wins
    assert said[CURRENT, "hostpci2"] == ("04:00", 6)
    assert (CURRENT, "hostpci1") not in said  # a key begins its line
    assert said[PENDING, "hostpci1"] == ("05:00", 9)
    assert said["before-upgrade", "hostpci6"] == ("08:00", 15)
    assert not [key for _, key in said if key in ("hostpci5", "hostpci9")]
    assert grammar.deleted(said[PENDING, "delete"][0]) == {"hostpci0", "net1", "hostpci3", "x"}


@pytest.mark.parametrize("header", ["[PENDING]", "[pending]", "[Pending]  ", "[PENDING]\r"])
def test_the_pending_section_is_found_in_any_spelling(header: str) -> None:
    assert (PENDING, "hostpci0") in grammar.settings(f"name: x\n{header}\nhostpci0: 01:00\n")


@pytest.mark.parametrize(
    "header", ["[my machine]", "[x]", "[1st]", "[special:fleecing]", "[SPECIAL:x]", "[]", "[é1]"]
)
def test_what_follows_a_header_that_is_none_is_passed_over_up_to_the_next(header: str) -> None:
    text = f"hostpci0: 42:00\n{header}\nhostpci1: 61:00\n[before] \nhostpci2: 21:00\n"
    assert set(grammar.settings(text)) == {(CURRENT, "hostpci0"), ("before", "hostpci2")}


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        ("0000:01:00,pcie=1", {"host": "0000:01:00", "pcie": "1"}),
        ("host=0000:01:00,pcie=1", {"host": "0000:01:00", "pcie": "1"}),
        ("pcie=1,x-vga=on,host=01:00.0;01:00.1", {"host": "01:00.0;01:00.1", "pcie": "1", "x-vga": "on"}),
        ("pcie=1,mapping=gpu", {"mapping": "gpu", "pcie": "1"}),
        ("pcie=1, 01:00", {"host": "01:00", "pcie": "1"}),
    ],
)
def test_the_parts_of_hostpci_stand_in_any_order(value: str, pairs: dict[str, str]) -> None:
    assert dict(grammar.pairs(value, "host")) == pairs


@pytest.mark.parametrize(
    ("text", "true"), [("1", True), ("on", True), ("YES", True), ("0", False), ("off", False)]
)
def test_booleans(text: str, true: bool) -> None:
    assert grammar.is_true(text) is true
    assert grammar.is_true(None) is False


CFG = """# a comment
gpu
\tdescription a card
\tmap id=10de:2230,node=pve,path=0000:42:00,iommugroup=25
\tmap path=0000:61:00.0;0000:61:00.1,node=pve2,id=10de:2230
    map id=10de:2230,node=pve,path=C1:00.0
\tmdev 1

empty
broken
\tmap id=10de:2230,node=pve,path=somewhere
\tmap id=10de:2230,node=pve
"""


def test_a_mapping_is_read_with_all_its_nodes() -> None:
    found = mappings(CFG)
    assert set(found) == {"gpu", "empty", "broken"}
    assert [(one.node, list(map(str, one.addresses)), one.line) for one in found["gpu"]] == [
        ("pve", ["0000:42:00"], 4),
        ("pve2", ["0000:61:00.0", "0000:61:00.1"], 5),
        ("pve", ["0000:c1:00.0"], 6),
    ]
    assert found["empty"] == ()
    assert [bool(one.wrong) for one in found["broken"]] == [True, True]


@given(st.text())
def test_no_text_makes_a_reader_fall_over(text: str) -> None:
    grammar.settings(text)
    mappings(text)
    dict(grammar.pairs(text, "host"))
    grammar.deleted(text)
