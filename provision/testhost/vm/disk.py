"""A disk that starts by itself: partition table, GRUB's core image behind it, one ext4 file system.

What grub-install does on a real machine, done to a file and without a loop device: GRUB's boot sector goes into
sector 0 together with the partition table, its core image into the gap before the first partition. Layouts:
`boot.S`, `diskboot.S` and `setup.c` of GRUB 2.06 (util/setup.c, `SETUP (...)`).
"""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from .errors import TestHostError

SECTOR = 512
START = 2048
"""First sector of the partition, as every partitioner puts it today: 1 MiB."""

_KERNEL_SECTOR, _BOOT_DRIVE, _DRIVE_CHECK = 0x5C, 0x64, 0x66
_DISK_ID, _TABLE, _SIGNATURE = 0x1B8, 0x1BE, 0x1FE
_BLOCK_LIST = 0x1F4
_LINUX, _ACTIVE = 0x83, 0x80
_NO_CHS = b"\xfe\xff\xff"

_MKE2FS_CONF = """\
[defaults]
	base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
	blocksize = 4096
	inode_size = 256
[fs_types]
	ext4 = {
		features = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
	}
"""


LAYOUT = (START, _MKE2FS_CONF)
"""What decides the disk's content besides its files."""


def boot_area(boot_img: bytes, core_img: bytes, sectors: int, disk_id: int) -> bytes:
    """The first sectors of a disk of ``sectors`` sectors: GRUB's boot sector, one partition, the core image.

    Raises ValueError for what is no boot image and for a core image that does not fit before the partition.
    """
    if len(boot_img) != SECTOR or boot_img[_SIGNATURE:] != b"\x55\xaa":
        raise ValueError("GRUB's boot.img must be one sector with a boot signature")
    if sectors <= START:
        raise ValueError(f"a disk of {sectors} sectors has no room for a partition at sector {START}")
    core = bytearray(core_img + bytes(-len(core_img) % SECTOR))
    count = len(core) // SECTOR
    if not 2 <= count < START:
        raise ValueError(
            f"GRUB's core image has {count} sectors, and 2 to {START - 1} fit before the partition"
        )
    sector = bytearray(boot_img)
    struct.pack_into("<Q", sector, _KERNEL_SECTOR, 1)
    sector[_BOOT_DRIVE] = 0xFF  # the drive that the BIOS started from
    sector[_DRIVE_CHECK : _DRIVE_CHECK + 2] = b"\x90\x90"  # for floppies only, as grub-install does
    sector[_DISK_ID:_SIGNATURE] = bytes(_SIGNATURE - _DISK_ID)  # boot.img has code for floppies here
    struct.pack_into("<I", sector, _DISK_ID, disk_id)
    entry = struct.pack("<B3sB3sII", _ACTIVE, _NO_CHS, _LINUX, _NO_CHS, START, sectors - START)
    sector[_TABLE : _TABLE + len(entry)] = entry
    segment = struct.unpack_from("<H", core, _BLOCK_LIST + 10)[0]
    struct.pack_into("<QHH", core, _BLOCK_LIST, 2, count - 1, segment)
    return bytes(sector + core)


def write_disk(tree: Path, disk: Path, size: int, fs_uuid: str, modules: Path) -> None:
    """Makes ``disk`` (sparse, ``size`` bytes) from the system in ``tree``; ``modules`` has GRUB's two images.

    Raises TestHostError when mke2fs fails.
    """
    with disk.open("xb") as stream:
        stream.truncate(size)
    config = disk.with_name("mke2fs.conf")
    config.write_text(_MKE2FS_CONF)
    offset = START * SECTOR
    # No lazy tables: the guest's kernel would write them after every first boot.
    options = f"offset={offset},lazy_itable_init=0,lazy_journal_init=0"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-N", "200000", "-J", "size=32", "-m", "1", "-U", fs_uuid]
    command += ["-E", options, "-d", str(tree), str(disk), f"{(size - offset) // 1024}k"]
    # Its own list of features: those of a newer mke2fs would be foreign to the GRUB of an older Debian.
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    environ = {**os.environ, "MKE2FS_CONFIG": str(config), "PATH": path}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    except FileNotFoundError:
        raise TestHostError("mke2fs is missing on this machine: apt-get install e2fsprogs") from None
    config.unlink()
    if done.returncode:
        raise TestHostError(f"mke2fs fails ({done.returncode}): {done.stderr.strip()}")
    area = boot_area(
        (modules / "boot.img").read_bytes(),
        (modules / "core.img").read_bytes(),
        size // SECTOR,
        int(fs_uuid[:8], 16),
    )
    with disk.open("r+b") as stream:
        stream.write(area)
