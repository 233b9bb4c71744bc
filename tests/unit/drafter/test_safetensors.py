"""Headers from outside: whole ones are read, cut-off and lying ones refused, and none costs memory by
claiming much."""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.safetensors import MAX_HEADER_BYTES, BadSafetensors, parse_header, read_header
from tests.unit.drafter.makers import header, write_weights

ONE = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}


def raw(**entries: Any) -> bytes:
    return json.dumps(entries).encode()


def test_a_sparse_file_of_gigabytes_is_read_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_weights(path, {"a.weight": (1_000_000, 4000), "b": (3,)})
    found = read_header(path)
    assert found.tensors["a.weight"].shape == (1_000_000, 4000)
    assert found.tensors["b"].dtype == "BF16"
    assert found.file_bytes == path.stat().st_size > 8_000_000_000
    assert len(found.digest) == 64


@pytest.mark.parametrize(
    ("entries", "data", "said"),
    [
        ({"a": {**ONE, "data_offsets": [0, 13]}}, 13, "needs 12 bytes"),
        ({"a": {**ONE, "shape": [2, -3]}}, 12, "lacks a proper"),
        ({"a": {**ONE, "shape": [2, True]}}, 12, "lacks a proper"),
        ({"a": {**ONE, "dtype": "BF17"}}, 12, "unknown type"),
        ({"a": {**ONE, "shape": [2**40, 2**40]}}, 12, "impossible shape"),
        ({"a": ONE}, 11, "cut off"),
        ({"a": ONE}, 13, "belong to no tensor"),
        ({"a": ONE, "b": ONE}, 12, "overlap or hole"),
        ({"a": {**ONE, "data_offsets": [4, 16]}}, 16, "overlap or hole"),
        ({"a": "x"}, 0, "lacks a proper"),
        ({"a": {}}, 0, "lacks a proper"),
    ],
)
def test_a_header_that_does_not_describe_its_data_is_refused(
    entries: dict[str, Any], data: int, said: str
) -> None:
    with pytest.raises(BadSafetensors, match=said):
        parse_header(raw(**entries), data, "f")


def test_the_same_header_with_the_right_data_is_taken() -> None:
    assert set(parse_header(raw(a=ONE, __metadata__={"format": "pt"}), 12, "f").tensors) == {"a"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "ends after 0 bytes"),
        (b"\x01\x02", "ends after 2 bytes"),
        (struct.pack("<Q", 10**9), "claims a header of 1000000000 bytes"),
        (struct.pack("<Q", 2**64 - 1), "claims a header"),
        (struct.pack("<Q", 500) + b"{}", "cut off"),
        (struct.pack("<Q", 4) + b"nope", "not JSON"),
        (struct.pack("<Q", 2) + b"[]", "not a JSON object"),
        (struct.pack("<Q", 10) + b'{"a":NaN} ', "not a JSON number"),
        (struct.pack("<Q", 14) + b'{"a":1,"a": 2}', "stands there twice"),
        (struct.pack("<Q", 2**20) + b"[" * 2**20, "brackets"),
        (struct.pack("<Q", 4) + b"\xff\xfe{}", "not UTF-8"),
    ],
)
def test_a_damaged_or_hostile_file_is_refused_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadSafetensors, match=said) as caught:
        read_header(path)
    assert "\n" not in str(caught.value)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.safetensors")
    with pytest.raises(BadSafetensors, match="not a regular file"):
        read_header(tmp_path / "x.safetensors")


@given(st.binary(max_size=200))
def test_no_bytes_at_all_end_in_anything_but_the_one_exception(content: bytes) -> None:
    with suppress(BadSafetensors):
        parse_header(content, 0, "f")


def test_a_header_at_the_limit_keeps_memory_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    body = b'{"a":[' + b"1," * ((MAX_HEADER_BYTES - 20) // 2) + b"1]}"
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(body)) + body)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20));"
        "from pathlib import Path; from checks.safetensors import BadSafetensors, read_header\n"
        f"try: read_header(Path({str(path)!r}))\nexcept BadSafetensors: sys.exit(7)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (7, "")
    assert resource.getrlimit(resource.RLIMIT_AS) != (400 << 20, 400 << 20)


def test_makers_write_what_the_reader_accepts() -> None:
    text, data = header({"a": (2, 2), "b": (5,)}, {"b": "F32"})
    assert parse_header(text, data, "f").tensors["b"].dtype == "F32"
