"""Logs that are too large to be read whole, and error texts that people have instead of a log."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from checks.cli import main
from checks.errors import BadInput
from checks.gpus.report import judge_record
from checks.gpus.texts import storm, together
from checks.record import SIZE_LIMIT

CALM = (
    b"[    1.0] usb 1-1: new high-speed USB device number 2 using xhci_hcd, of no concern to anybody here\n"
)
FIRST = b"[    2.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
STORM = b"[ 9999.5] NVRM: Xid (PCI:0000:17:00): 31, pid=7, name=python3, Ch 00000008\n"
TIMES = SIZE_LIMIT // len(CALM) + 1000


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_over_the_limit_is_read_by_its_lines_of_the_driver(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("kern.log.gz" if packed else "kern.log")
    data = FIRST + CALM * TIMES + STORM * 5000
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    report = judge_record(together.load([path]), None, replayed=True, name="log")
    seen = {(one.id, one.subject): one for one in report.findings}
    assert seen["gpu.xid", "0000:3b:00.0"].value == 79, "a storm pushes no other error out"
    assert "9999.5 s" in seen["gpu.xid", "0000:17:00.0"].message


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_is_too_large_by_far_is_refused_with_the_words_that_make_it_smaller(
    packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storm, "STREAM_LIMIT", SIZE_LIMIT + 1000)
    path = tmp_path / ("kern.log.gz" if packed else "kern.log")
    path.write_bytes(gzip.compress(FIRST + CALM * TIMES, 1) if packed else FIRST + CALM * TIMES)
    with pytest.raises(BadInput, match=r"z?grep -a -e NVRM -e SXid -e AER \S+ > nvidia\.log"):
        together.load([path])


@pytest.mark.parametrize(("head", "said"), [(b"", "no line of it"), (b'{"nvmlInit":', "no record")])
def test_a_large_file_that_is_no_log_of_the_driver_is_refused(head: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(head + CALM * TIMES)
    with pytest.raises(BadInput, match=said):
        together.load([path])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("No devices were found", "driver.adapter_init"),
        ('could not select device driver "" with capabilities: [[gpu]]', "nvidia-container-toolkit"),
        ("CUDA driver version is insufficient for CUDA runtime version", "install a newer driver"),
        ("Xid 79", "Xid 79: GPU has fallen off the bus"),
        ("NVRM: Xid (PCI:0000:3b:00): 48, x", "Xid 48: uncorrectable ECC error"),
        ("CUDA error: out of memory", "gpu.memory"),
    ],
)
def test_an_error_text_that_people_paste_has_its_meaning(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--symptom", text]) == 0
    assert said in capsys.readouterr().out
