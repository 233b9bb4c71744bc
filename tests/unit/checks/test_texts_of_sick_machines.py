"""Texts that sick machines give: nvidia-smi that failed, errors in place of values, counters, quotations."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.errors import BadInput
from checks.gpus import texts
from checks.gpus.report import judge_record
from checks.gpus.texts import together
from checks.model import Finding, Report, Status

Q = """
GPU 00000000:18:00.0
    Product Name                              : NVIDIA H200
    FB Memory Usage
        Total                                 : 143771 MiB
        Reserved                              : 616 MiB
        Used                                  : 0 MiB
        Free                                  : 143155 MiB
    Temperature
        GPU Current Temp                      : 34 C
        GPU T.Limit Temp                      : 53 C
        GPU Shutdown T.Limit Temp             : -8 C
        GPU Slowdown T.Limit Temp             : -2 C
    GPU Power Readings
        Average Power Draw                    : 103.54 W
        Current Power Limit                   : 700.00 W
        Default Power Limit                   : 700.00 W
    Applications Clocks
        Graphics                              : 1980 MHz
    Max Clocks
        Graphics                              : 1980 MHz
"""
TABLE = """\
| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
| N/A   34C    P0             71W /  700W |       0MiB /  81559MiB |      0%      Default |
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:2A:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!             ERR! / 700W |       0MiB /  81559MiB |    ERR!      Default |
"""
LINKS = "GPU 0: NVIDIA H200 (UUID: GPU-a)\n\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: {}\n"


def report(text: str) -> Report:
    return judge_record(texts.read(text.encode(), "a text"), None, replayed=True, name="a text")


def found(text: str) -> dict[tuple[str, str], Finding]:
    return {(one.id, one.subject): one for one in report(text).findings}


NO_START = "Failed to initialize NVML: "
MISMATCH = f"{NO_START}Driver/library version mismatch\nNVML library version: 535.129"
SILENT = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make"


@pytest.mark.parametrize(
    ("text", "identity", "verdict"),
    [
        (MISMATCH, "driver.library", "fail"),
        (SILENT, "driver.loaded", "unknown"),
        (f"{NO_START}Unknown Error", "driver.library", "unknown"),
        (f"{NO_START}Insufficient Permissions", "driver.library", "unknown"),
        (f"{NO_START}GPU is lost", "gpu.lost", "fail"),
        ("No devices were found", "gpu.count", "unknown"),
    ],
)
def test_the_words_of_an_nvidia_smi_that_failed_are_evidence(text: str, identity: str, verdict: str) -> None:
    finding = found(text + "\n")[identity, "host"]
    assert finding.status.value == verdict
    assert finding.fix
    assert report(text).verdict is not Status.PASS


def test_a_mismatch_says_that_the_module_is_loaded_and_which_library_it_was() -> None:
    every = found(
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.129\n"
    )
    assert every["driver.loaded", "host"].status is Status.PASS
    assert "535.129" in every["driver.library", "host"].message


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_failed_start_is_not_lost_beside_a_kernel_log(tmp_path: Path, order: tuple[int, int]) -> None:
    (tmp_path / "0").write_text("Failed to initialize NVML: Driver/library version mismatch\n")
    (tmp_path / "1").write_text("[1.0] NVRM: Xid (PCI:0000:3b:00): 31, x\n")
    record = together.load([tmp_path / str(number) for number in order])
    ids = {one.id: one.status.value for one in judge_record(record, None, replayed=True, name="x").findings}
    assert (ids["driver.library"], ids["gpu.xid"]) == ("fail", "warn")


@pytest.mark.parametrize(
    ("key", "identity"),
    [
        ("GPU Current Temp", "gpu.temperature"),
        ("Total", "gpu.memory"),
        ("Average Power Draw", "gpu.power_limit"),
    ],
)
@pytest.mark.parametrize("word", ["ERR!", "[Unknown Error]", "Unknown Error"])
def test_an_error_in_place_of_a_value_is_never_left_out(key: str, identity: str, word: str) -> None:
    assert report(Q).verdict is Status.PASS
    text = re.sub(rf"({key} *): .*", rf"\1: {word}", Q, count=1)
    assert found(text)[identity, "gpu0"].status is Status.UNKNOWN
    assert report(text).verdict is Status.UNKNOWN


def test_a_value_that_a_newer_driver_calls_deprecated_is_no_finding() -> None:
    text = re.sub(
        r"(Applications Clocks\n *Graphics *): .*", r"\1: Requested functionality has been deprecated", Q
    )
    assert text != Q
    assert report(text).verdict is Status.PASS


@pytest.mark.parametrize("mark", ["", "> ", "    ", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_quoted_or_indented_text_is_read_as_it_was(mark: str, end: str) -> None:
    text = end.join(mark + line for line in TABLE.splitlines())
    plain = {key: one.status for key, one in found(TABLE).items()}
    assert plain["gpu.lost", "gpu1"] is Status.UNKNOWN
    assert {key: one.status for key, one in found(text).items()} == plain


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("GPU3: 0000:3B:00.0: Unknown Error", "gpu3"),
        ("GPU 0000:3B:00.0: GPU is lost.  Reboot", "0000:3b:00.0"),
    ],
)
def test_the_gpu_that_nvidia_smi_names_is_the_one_that_is_told(line: str, subject: str) -> None:
    (finding,) = report(f"Unable to determine the device handle for {line}\n").findings
    assert (finding.id, finding.subject) == ("gpu.lost", subject)
    assert finding.status in (Status.FAIL, Status.UNKNOWN)


@pytest.mark.parametrize(("recoveries", "verdict"), [(0, "pass"), (12, "warn")])
def test_the_counters_of_nvlink_are_judged_and_its_states_are_left_out(recoveries: int, verdict: str) -> None:
    every = found(LINKS.format(recoveries))
    assert every["nvlink.errors", "gpu0"].status.value == verdict
    assert not {("nvlink.state", "gpu0"), ("nvlink.symmetry", "gpu0")} & set(every)


def saved(folder: Path, *parts: str) -> list[Path]:
    for number, part in enumerate(parts):
        (folder / str(number)).write_text(part)
    return [folder / str(number) for number in range(len(parts))]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    "parts",
    [
        ('{"nvmlInit": null, "devices": []}', '{"nvmlInit": null, "devices": []}'),
        ('{"nvmlInit": null, "devices": [{}]}', '{"nvmlInit": {"err": 12, "msg": "x"}}'),
        (TABLE, "Failed to initialize NVML: Unknown Error\n"),
    ],
)
def test_files_that_contradict_each_other_are_refused_in_any_order(
    tmp_path: Path, parts: tuple[str, str], turn: int
) -> None:
    with pytest.raises(BadInput, match="one by one"):
        together.load(saved(tmp_path, *parts[::turn]))


def packed(text: str) -> bytes:
    return gzip.compress(text.encode())


WRAPPINGS = {"gzip": packed, "BOM": lambda t: t.encode("utf-8-sig"), "UTF-16": lambda t: t.encode("utf-16")}


@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS)
def test_a_record_or_text_is_read_as_shells_and_packers_leave_it(
    tmp_path: Path, wrap: Callable[[str], bytes]
) -> None:
    record = tmp_path / "record"
    record.write_bytes(wrap('{"nvmlInit": {"err": 12, "msg": "missing"}}'))
    assert together.load([record]).nvml == {"nvmlInit": {"err": 12, "msg": "missing"}}
    record.write_bytes(wrap(Q))
    assert judge_record(together.load([record]), None, replayed=True, name="x").verdict is Status.PASS


def test_an_earlier_text_serves_for_what_grew_since(tmp_path: Path, provcheck: Callable[..., Any]) -> None:
    rows = Q.replace("GPU 00000000:18:00.0\n", "GPU 00000000:18:00.0\n    GPU UUID : GPU-a\n") + (
        "    Remapped Rows\n        Correctable Error : 0\n        Uncorrectable Error : {}\n"
        "        Pending : No\n        Remapping Failure Occurred : No\n"
    )
    then, now = saved(tmp_path, rows.format(11), rows.format(12))
    assert provcheck("gpus", "--replay", now).code == 0
    assert provcheck("gpus", "--replay", now, "--since", then).code == 1
    assert provcheck("gpus", "--replay", now, "--since", now).code == 0
