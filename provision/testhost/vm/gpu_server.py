"""An emulated RTX A6000 and its audio function, served to QEMU over vfio-user. Run as a plain file.

Two PCI functions with real configuration spaces and BARs whose registers read as listed, else zero: enough for
firmware, kernel, vfio-pci and NVIDIA's kernel module to find and bind them. Behind them is no silicon. File
descriptors that QEMU sends (event fds, guest memory) are not taken: no interrupts, no DMA.

Protocol: QEMU's docs/interop/vfio-user.rst. Configuration space: PCI Local Bus 3.0 chapter 6, PCI Express 2.
Registers: NV_PMC_BOOT_0 and NV_PMC_BOOT_42 of GA102 (NVIDIA's open-gpu-doc); its driver's probe reads no others.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, REGION_INFO = 1, 2, 3, 4, 5
IRQ_INFO, SET_IRQS, READ, WRITE, RESET = 7, 8, 9, 10, 13
HEADER = struct.Struct("<HHIII")
REPLY, NO_REPLY, ERROR = 1, 0x10, 0x20
EOPNOTSUPP, EINVAL = 95, 22
CONFIG = 7
"""Region number of the configuration space; 0 to 5 are the BARs."""

MIB = 1 << 20
LARGEST = 1 << 20
"""Longest request that is read: QEMU sends no more than a page at a time."""

MEM32, MEM64_PREFETCH, IO_PORT = 0x0, 0xC, 0x1
GA102 = {0x000: 0xB72000A1, 0xA00: 0x172000A1}
_EXPRESS = 0x78
_FLR = 0x80


class Refused(ValueError):
    """An error reply; the argument is its errno."""


class Function:
    """A PCI function: configuration space with a mask of what can be written, BARs, registers of BAR 0."""

    def __init__(
        self,
        ident: tuple[int, int],
        pci_class: int,
        bars: Mapping[int, tuple[int, int]],
        registers: Mapping[int, int] | None = None,
        pin: int = 1,
    ) -> None:
        self.bars, self.registers = bars, dict(registers or {})
        self._initial, self._mask = bytearray(4096), bytearray(4096)
        self._put(0x00, "<HH", *ident)
        self._put(0x04, "<HH", 0, 0x0010, mask=(0x0547, 0))  # command; status: has capabilities
        self._put(0x08, "<I", pci_class << 8 | 0xA1)
        self._put(0x0C, "<BBBB", 0, 0, 0x80, 0, mask=(0xFF, 0, 0, 0))  # one of several functions
        for number, (kind, _) in bars.items():  # QEMU itself emulates their addresses
            self._put(0x10 + 4 * number, "<I", kind)
        self._put(0x2C, "<HH", 0x10DE, 0x1459)
        self._put(0x34, "<B", 0x60)
        self._put(0x3C, "<BB", 0, pin, mask=(0xFF, 0))
        # Power management, MSI (64 bit), PCI Express endpoint with function level reset, 16 GT/s x16.
        self._put(0x60, "<BBHHH", 0x01, 0x68, 0x0003, 0x0008, 0, mask=(0, 0, 0, 0x0003, 0))
        self._put(0x68, "<BBHQH", 0x05, 0x78, 0x0080, 0, 0, mask=(0, 0, 0x0071, 2**64 - 4, 0xFFFF))
        capability = (0x10, 0, 0x0012, 0x10008FE1, 0x2810, 0, 0x00453D04, 0, 0x1104)
        self._put(_EXPRESS, "<BBHIHHIHH", *capability, mask=(0, 0, 0, 0, 0x7FFF, 0, 0, 0x0FFB, 0))
        self.reset()

    def _put(self, at: int, form: str, *values: int, mask: tuple[int, ...] | None = None) -> None:
        struct.pack_into(form, self._initial, at, *values)
        if mask:
            struct.pack_into(form, self._mask, at, *mask)

    def reset(self) -> None:
        self.config = bytearray(self._initial)

    def size(self, region: int) -> int:
        if region == CONFIG:
            return len(self.config)
        return self.bars[region][1] if region in self.bars else 0

    def read(self, region: int, at: int, count: int) -> bytes:
        if region == CONFIG:
            return bytes(self.config[at : at + count])
        word = self.registers.get(at & ~3, 0) if region == 0 else 0
        return word.to_bytes(4, "little")[at & 3 :][:count].ljust(count, b"\0")

    def write(self, region: int, at: int, data: bytes) -> None:
        if region != CONFIG:
            return
        for place, byte in enumerate(data, at):
            self.config[place] = self.config[place] & ~self._mask[place] | byte & self._mask[place]
        control = _EXPRESS + 9 - at  # high byte of the device control register
        if 0 <= control < len(data) and data[control] & _FLR:
            self.reset()

    def answer(self, command: int, request: bytes) -> bytes:
        """The payload of the reply. Raises Refused for what is not served and what is malformed."""
        try:
            return self._answer(command, request)
        except struct.error:
            raise Refused(EINVAL) from None

    def _answer(self, command: int, request: bytes) -> bytes:
        if command == VERSION:
            return struct.pack("<HH", 0, 0) + b'{"capabilities":{"max_msg_fds":8}}\0'
        if command in (DMA_MAP, SET_IRQS):
            return b""
        if command == DMA_UNMAP:
            return request
        if command == GET_INFO:  # a PCI device that can be reset: 9 regions, 5 interrupts
            return struct.pack("<IIII", 16, 3, 9, 5).ljust(len(request), b"\0")
        if command == REGION_INFO:
            index = struct.unpack_from("<III", request)[2]
            size = self.size(index)
            return struct.pack("<IIIIQQ", 32, 3 if size else 0, index, 0, size, 0)
        if command == IRQ_INFO:  # one INTx, one MSI
            index = struct.unpack_from("<III", request)[2]
            flags, count = {0: (7, 1), 1: (9, 1)}.get(index, (9, 0))
            return struct.pack("<IIII", 16, flags, index, count)
        if command in (READ, WRITE):
            at, region, count = struct.unpack_from("<QII", request)
            data = request[16 : 16 + count]
            if at + count > self.size(region) or (command == WRITE and len(data) != count):
                raise Refused(EINVAL)
            if command == READ:
                return request[:16] + self.read(region, at, count)
            self.write(region, at, data)
            return request[:16]
        if command == RESET:
            self.reset()
            return b""
        raise Refused(EOPNOTSUPP)


def a6000(faults: Mapping[int, int], bar1_mib: int) -> tuple[Function, Function]:
    """The two functions; ``faults`` are registers of BAR 0 that read otherwise than GA102's."""
    bars = {
        0: (MEM32, 16 * MIB),
        1: (MEM64_PREFETCH, bar1_mib * MIB),
        3: (MEM64_PREFETCH, 32 * MIB),
        5: (IO_PORT, 128),
    }
    gpu = Function((0x10DE, 0x2230), 0x030000, bars, {**GA102, **faults})
    return gpu, Function((0x10DE, 0x1AEF), 0x040300, {0: (MEM32, 16 << 10)}, pin=2)


def converse(function: Function, stream: Any, send: Any) -> None:
    """Answers requests from ``stream`` until it ends."""
    while len(head := stream.read(HEADER.size)) == HEADER.size:
        number, command, size, flags, _ = HEADER.unpack(head)
        if not HEADER.size <= size <= LARGEST:
            return
        error, reply = 0, b""
        try:
            reply = function.answer(command, stream.read(size - HEADER.size))
        except Refused as refused:
            error = refused.args[0]
        if not flags & NO_REPLY:
            kind = REPLY | ERROR if error else REPLY
            send(HEADER.pack(number, command, HEADER.size + len(reply), kind, error) + reply)


def _serve(function: Function, server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection, connection.makefile("rb") as stream:
        converse(function, stream, connection.sendall)


def register(text: str) -> tuple[int, int]:
    """``OFFSET=VALUE``, both hexadecimal."""
    at, _, value = text.partition("=")
    return int(at, 16), int(value, 16)


def main() -> None:
    """Serves one QEMU and ends with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gpu", type=Path, help="socket of the GPU")
    parser.add_argument("audio", type=Path, help="socket of the audio function")
    parser.add_argument(
        "--reg", action="append", default=[], type=register, help="OFFSET=VALUE of BAR 0, hex"
    )
    parser.add_argument("--bar1", type=int, default=256, help="size of BAR 1 in MiB, a power of two")
    parser.add_argument("--user", type=int, nargs=2, metavar=("UID", "GID"), help="whom to become")
    chosen = parser.parse_args()
    threads = []
    for function, path in zip(a6000(dict(chosen.reg), chosen.bar1), (chosen.gpu, chosen.audio), strict=True):
        server = socket.socket(socket.AF_UNIX)
        early = path.with_name(f".{path.name}")
        server.bind(str(early))
        server.listen(1)
        early.rename(path)  # who sees the socket can connect to it
        threads.append(threading.Thread(target=_serve, args=(function, server)))
    if chosen.user:
        os.setgroups([])
        os.setgid(chosen.user[1])
        os.setuid(chosen.user[0])
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    main()
