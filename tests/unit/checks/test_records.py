"""Records come from anywhere: a wrong one is one clear line and exit 2, whatever is in it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import record
from checks.errors import BadInput
from checks.gpus.report import judge_record
from checks.record import Record, Section

HOSTILE: list[tuple[str, bytes]] = [
    ("empty", b""),
    ("no JSON", b"GPU 0: fine"),
    ("binary", bytes(range(256))),
    ("half", b'{"nvmlInit": nu'),
    ("list", b"[]"),
    ("number", b"7"),
    ("other schema", b'{"schema": "provcheck-record/9", "nvml": {}}'),
    ("neither", b"{}"),
    ("schema of a wrong type", b'{"schema": ["provcheck-record/1"]}'),
    ("no dump", b'{"schema": "provcheck-record/1", "sections": []}'),
    ("deep", b"[" * 100_000),
    ("deep and closed", b'{"nvmlInit":' + b"[" * 60 + b"]" * 60 + b"}"),
    ("NaN", b'{"nvmlInit": null, "nvmlDeviceGetCount": NaN}'),
    ("huge number", b'{"nvmlInit": null, "nvmlDeviceGetCount": ' + b"9" * 5000 + b"}"),
    ("init true", b'{"nvmlInit": true}'),
    ("count text", b'{"nvmlInit": null, "nvmlDeviceGetCount": "8"}'),
    ("count negative", b'{"nvmlInit": null, "nvmlDeviceGetCount": -1}'),
    ("count huge", b'{"nvmlInit": null, "nvmlDeviceGetCount": 1000000000}'),
    ("count true", b'{"nvmlInit": null, "nvmlDeviceGetCount": true}'),
    ("devices text", b'{"nvmlInit": null, "devices": "all"}'),
    ("device text", b'{"nvmlInit": null, "devices": ["gpu0"]}'),
    ("too many devices", b'{"nvmlInit": null, "devices": [' + b"{}," * 2000 + b"{}]}"),
    ("handle text", b'{"nvmlInit": null, "devices": [{"handle": "lost"}]}'),
    ("temp text", b'{"nvmlInit": null, "devices": [{"temp": "36"}]}'),
    ("temp fraction", b'{"nvmlInit": null, "devices": [{"temp": 1e999}]}'),
    ("rows short", b'{"nvmlInit": null, "devices": [{"nvmlDeviceGetRemappedRows": [0, 0]}]}'),
    ("links list", b'{"nvmlInit": null, "devices": [{"nvlink": [1, 1]}]}'),
    ("link number", b'{"nvmlInit": null, "devices": [{"nvlink": {"0": 1}}]}'),
    ("fields of texts", b'{"nvmlInit": null, "devices": [{"fields": {"NVML_FI_DEV_MEMORY_TEMP": "40"}}]}'),
    ("sections text", b'{"schema": "provcheck-record/1", "sections": "x", "nvml": {"nvmlInit": null}}'),
    ("section number", b'{"schema": "provcheck-record/1", "sections": [1], "nvml": {"nvmlInit": null}}'),
    (
        "bad base64",
        b'{"schema": "provcheck-record/1", "sections": [{"kind": "file", "path": "/x", "b64": "?"}]}',
    ),
    ("path number", b'{"schema": "provcheck-record/1", "sections": [{"kind": "file", "path": 7}]}'),
    ("nvml text", b'{"schema": "provcheck-record/1", "nvml": "fine"}'),
    ("host list", b'{"schema": "provcheck-record/1", "host": [], "nvml": {"nvmlInit": null}}'),
]


@pytest.mark.parametrize(("name", "data"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_a_wrong_record_is_one_line_and_exit_2(
    name: str, data: bytes, tmp_path: Path, provcheck: Callable[..., Any]
) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(data)
    said = provcheck("gpus", "--replay", path, "--json")
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1
    assert len(said.err) < 500


@pytest.mark.parametrize("path", ["/nowhere/record.json", "/", "/dev/null"])
def test_what_is_no_file_is_exit_2(path: str, provcheck: Callable[..., Any]) -> None:
    assert provcheck("gpus", "--replay", path).code == 2


def test_a_bad_address_on_the_bus_is_exit_2(tmp_path: Path, provcheck: Callable[..., Any]) -> None:
    at = "/sys/bus/pci/devices"
    sections = (
        Section("dir", at, b"gpu-one\n"),
        Section("file", f"{at}/gpu-one/vendor", b"0x10de"),
        Section("file", f"{at}/gpu-one/class", b"0x030000"),
    )
    path = tmp_path / "record.json"
    path.write_bytes(Record(sections=sections, nvml={"nvmlInit": {"err": 12}}).dump())
    assert provcheck("gpus", "--replay", path).code == 2


def test_an_endless_file_takes_little_memory(repo_root: Path) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))

    command = [sys.executable, "-m", "checks", "gpus", "--replay", "/dev/zero"]
    ran = subprocess.run(
        command, cwd=repo_root, preexec_fn=small, capture_output=True, timeout=60, check=False
    )
    assert (ran.returncode, b"larger than" in ran.stderr) == (2, True)


def test_the_costliest_nesting_is_refused_before_it_is_judged() -> None:
    with pytest.raises(BadInput, match="larger than"):
        record.parse(b'{"nvmlInit":[' + b"[]," * (3 << 20) + b"[]]}", "wide")


def test_a_record_reads_back_as_it_was_written() -> None:
    sections = (
        Section("file", "/a", b"\xff\0x"),
        Section("file", "/b"),
        Section("link", "/c", None, "EACCES"),
    )
    before = Record("box", "2026-11-29T15:20:00+00:00", sections, {"nvmlInit": None, "devices": []})
    assert record.parse(before.dump(), "x") == before


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
keys = st.sampled_from(
    [
        "nvmlDeviceGetName",
        "temp",
        "fabricV",
        "nvlink",
        "fields",
        "sram_ecc",
        "nvmlDeviceGetPciInfo",
        "handle",
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetUtilizationRates",
        "tthr_slowdown",
    ]
)


@settings(max_examples=60)
@given(
    st.lists(st.dictionaries(keys, values | st.dictionaries(st.just("err"), values, min_size=1)), max_size=3)
)
def test_any_dump_gives_findings_or_bad_input_and_never_a_crash(devices: list[dict[str, Any]]) -> None:
    data = {"nvmlInit": None, "nvmlDeviceGetCount": len(devices), "devices": devices}
    try:
        report = judge_record(record.parse(json.dumps(data).encode(), "x"), None, replayed=True, name="x")
    except BadInput:
        return
    assert report.verdict.value in ("fail", "unknown"), "a dump with holes is never green"
