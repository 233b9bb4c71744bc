from __future__ import annotations

import struct

import pytest

from provision.testhost.vm.disk import SECTOR, START, boot_area

BOOT = bytearray(b"\x11" * SECTOR)
BOOT[510:] = b"\x55\xaa"
CORE = bytearray(b"\x22" * (5 * SECTOR + 7))
struct.pack_into("<QHH", CORE, 0x1F4, 9, 9, 0x820)
SECTORS = (8 << 30) // SECTOR


def area(core: bytes = bytes(CORE), sectors: int = SECTORS) -> bytes:
    return boot_area(bytes(BOOT), core, sectors, 0xC0FFEE)


def test_the_partition_begins_at_one_mebibyte_is_active_linux_and_fills_the_disk() -> None:
    active, kind, start, count = struct.unpack_from("<B3xB3xII", area(), 0x1BE)
    assert (active, kind, start, start + count) == (0x80, 0x83, START, SECTORS)


def test_the_other_entries_of_the_table_are_empty_for_grub_refuses_a_table_with_code_in_it() -> None:
    assert area()[0x1CE:0x1FE] == bytes(48)
    assert area()[0x1FE:0x200] == b"\x55\xaa"


def test_the_boot_sector_loads_sector_one_from_the_drive_that_the_bios_started() -> None:
    made = area()
    assert struct.unpack_from("<Q", made, 0x5C) == (1,)
    assert made[0x64] == 0xFF
    assert made[0x66:0x68] == b"\x90\x90"
    assert made[:0x5C] == b"\x11" * 0x5C


def test_the_first_core_sector_loads_all_the_others() -> None:
    made = area()
    assert len(made) == 7 * SECTOR
    assert struct.unpack_from("<QHH", made, SECTOR + 0x1F4) == (2, 5, 0x820)
    assert made[2 * SECTOR : 6 * SECTOR + 7] == b"\x22" * (4 * SECTOR + 7)


def test_a_core_image_that_would_reach_into_the_partition_is_refused() -> None:
    assert len(area(bytes((START - 1) * SECTOR))) == START * SECTOR
    with pytest.raises(ValueError, match="fit before the partition"):
        area(bytes((START - 1) * SECTOR + 1))


def test_what_is_no_boot_sector_and_a_disk_without_room_are_refused() -> None:
    with pytest.raises(ValueError, match="boot signature"):
        boot_area(bytes(SECTOR), bytes(CORE), SECTORS, 1)
    with pytest.raises(ValueError, match="no room"):
        area(sectors=START)
