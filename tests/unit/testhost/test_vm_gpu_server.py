from __future__ import annotations

import io
import struct

import pytest

from provision.testhost.vm import gpu_server as served
from provision.testhost.vm.gpu_server import CONFIG, HEADER, Function, Refused, a6000, converse, register


@pytest.fixture
def gpu() -> Function:
    return a6000({}, 256)[0]


def read(function: Function, region: int, at: int, count: int) -> bytes:
    return function.answer(served.READ, struct.pack("<QII", at, region, count))[16:]


def write(function: Function, region: int, at: int, data: bytes) -> None:
    function.answer(served.WRITE, struct.pack("<QII", at, region, len(data)) + data)


def test_the_functions_are_an_a6000_and_its_audio() -> None:
    gpu, audio = a6000({}, 256)
    assert struct.unpack("<HH", read(gpu, CONFIG, 0, 4)) == (0x10DE, 0x2230)
    assert struct.unpack("<HH", read(audio, CONFIG, 0, 4)) == (0x10DE, 0x1AEF)
    assert read(gpu, CONFIG, 8, 4) == b"\xa1\x00\x00\x03"
    assert read(audio, CONFIG, 8, 4) == b"\xa1\x00\x03\x04"


def test_the_chip_says_ga102_unless_a_fault_says_otherwise(gpu: Function) -> None:
    assert read(gpu, 0, 0xA00, 4) == struct.pack("<I", 0x172000A1)
    assert read(gpu, 0, 0xA02, 2) == b"\x20\x17"
    assert read(gpu, 0, 0x1234, 4) == bytes(4)
    faulty = a6000({0xA00: 0, 0: 0xFFFFFFFF}, 256)[0]
    assert read(faulty, 0, 0xA00, 4) == bytes(4)
    assert read(faulty, 0, 0, 4) == b"\xff" * 4


def test_ids_cannot_be_written_and_the_command_register_can(gpu: Function) -> None:
    write(gpu, CONFIG, 0, b"\xff\xff")
    write(gpu, CONFIG, 4, b"\x06\x01")
    assert read(gpu, CONFIG, 0, 6) == b"\xde\x10\x30\x22\x06\x01"


@pytest.mark.parametrize(("at", "data"), [(0x80, b"\x10\xa8"), (0x81, b"\xa8")])
def test_a_function_level_reset_clears_what_was_written(gpu: Function, at: int, data: bytes) -> None:
    write(gpu, CONFIG, 4, b"\x06\x01")
    write(gpu, CONFIG, 0x80, b"\x10\x28")
    assert read(gpu, CONFIG, 4, 2) == b"\x06\x01"
    write(gpu, CONFIG, at, data)
    assert read(gpu, CONFIG, 4, 2) == bytes(2)


def test_a_region_has_the_size_of_its_bar_and_none_when_there_is_no_bar(gpu: Function) -> None:
    def size(region: int) -> int:
        reply = gpu.answer(served.REGION_INFO, struct.pack("<IIIIQQ", 32, 0, region, 0, 0, 0))
        return int(struct.unpack("<IIIIQQ", reply)[4])

    assert [size(region) >> 20 for region in range(6)] == [16, 256, 0, 32, 0, 0]
    assert size(CONFIG) == 4096


@pytest.mark.parametrize(
    ("command", "request_", "errno"),
    [
        (99, b"", 95),
        (served.READ, b"short", 22),
        (served.READ, struct.pack("<QII", 4095, CONFIG, 4), 22),
        (served.READ, struct.pack("<QII", 0, 2, 4), 22),
        (served.WRITE, struct.pack("<QII", 0, CONFIG, 4) + b"ab", 22),
    ],
)
def test_what_is_unknown_malformed_or_out_of_range_is_an_error_reply(
    gpu: Function, command: int, request_: bytes, errno: int
) -> None:
    with pytest.raises(Refused) as refused:
        gpu.answer(command, request_)
    assert refused.value.args == (errno,)


def test_a_conversation_answers_in_order_carries_errors_and_skips_unwanted_replies(gpu: Function) -> None:
    asked = struct.pack("<QII", 0, CONFIG, 2)
    requests = b"".join(
        HEADER.pack(number, command, HEADER.size + len(payload), flags, 0) + payload
        for number, command, flags, payload in [
            (1, served.READ, 0, asked),
            (2, served.RESET, served.NO_REPLY, b""),
            (3, 77, 0, b""),
        ]
    )
    sent: list[bytes] = []
    converse(gpu, io.BytesIO(requests), sent.append)
    assert [HEADER.unpack(reply[: HEADER.size]) for reply in sent] == [
        (1, served.READ, HEADER.size + 18, served.REPLY, 0),
        (3, 77, HEADER.size, served.REPLY | served.ERROR, 95),
    ]
    assert sent[0].endswith(b"\xde\x10")


@pytest.mark.parametrize("size", [0, 15, 1 << 31])
def test_a_size_that_cannot_be_ends_the_conversation(gpu: Function, size: int) -> None:
    sent: list[bytes] = []
    converse(gpu, io.BytesIO(HEADER.pack(1, served.READ, size, 0, 0) + bytes(64)), sent.append)
    assert sent == []


def test_a_register_is_given_in_hexadecimal() -> None:
    assert register("a00=ffffffff") == (0xA00, 0xFFFFFFFF)
    with pytest.raises(ValueError, match="invalid literal"):
        register("a00")
