"""Saved texts through the command line: what texts/INDEX.tsv says of each, green and red side by side."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from checks.gpus.texts import FORMS

HERE = Path(__file__).parent / "texts"
ROWS = [line.split("\t") for line in (HERE / "INDEX.tsv").read_text().splitlines()[1:]]


def replay(
    *args: object, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    code = main(["gpus", "--json", *map(str, args)])
    report = json.loads(capsys.readouterr().out)
    assert report["evidence"] == "replayed"
    return code, {(f["id"], f["subject"]): f for f in report["findings"]}


@pytest.mark.parametrize(("name", "args", "code", "wanted"), ROWS, ids=[f"{row[0]} {row[1]}" for row in ROWS])
def test_each_text_gets_the_verdict_of_the_index(
    name: str, args: str, code: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, findings = replay("--replay", HERE / f"{name}.txt", *shlex.split(args), capsys=capsys)
    assert seen == int(code)
    for want in wanted.split():
        where, _, status = want.partition("=")
        identity, _, subject = where.partition("@")
        subject = subject.replace("pair", "pair ")
        found = {
            f["status"]
            for key, f in findings.items()
            if key[0] == identity and (key[1] == subject or (subject == "gpu*" and key[1].startswith("gpu")))
        }
        assert found == {status}, want


def test_every_text_is_in_the_index() -> None:
    assert {row[0] for row in ROWS} == {path.stem for path in HERE.glob("*.txt")}


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_a_text_gives_no_finding_that_could_not_be_looked_at(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, findings = replay("--replay", path, capsys=capsys)
    assert [key for key, f in findings.items() if f["status"] == "unknown"] == []


def test_a_packed_text_is_read_as_the_plain_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "lspci.gz"
    packed.write_bytes(gzip.compress((HERE / "lspci_redirect.txt").read_bytes()))
    plain = replay("--replay", HERE / "lspci_redirect.txt", capsys=capsys)
    assert replay("--replay", packed, capsys=capsys) == plain


def test_several_texts_of_one_machine_are_judged_together(capsys: pytest.CaptureFixture[str]) -> None:
    """The address in the kernel log finds its GPU in the query, and the remapping that is pending is no past."""
    code, findings = replay(
        "--replay", HERE / "smi_q_sick.txt", "--replay", HERE / "dmesg_ecc.txt", capsys=capsys
    )
    assert code == 1
    assert findings["gpu.xid", "gpu0"]["value"] == 48
    assert ("gpu.xid", "0000:41:00.0") not in findings
    assert findings["gpu.row_remap", "gpu0"]["status"] == "fail"


def test_a_text_beside_a_record_adds_what_the_record_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, log = tmp_path / "dump.json", tmp_path / "dmesg.txt"
    devices = [
        {
            "nvmlDeviceGetPciInfo": {"busId": f"00000000:{bus}:00.0"},
            "nvmlDeviceGetEccMode": [1, 1],
            "ecc_unc_vol": 0,
        }
        for bus in ("10", "11")
    ]
    record.write_text(json.dumps({"nvmlInit": None, "nvmlDeviceGetCount": 2, "devices": devices}))
    log.write_text("NVRM: Xid (PCI:0000:11:00): 79, GPU has fallen off the bus.\n")
    code, findings = replay("--replay", record, "--replay", log, capsys=capsys)
    assert code == 1
    assert findings["gpu.xid", "gpu0"]["status"] == "pass"
    assert findings["gpu.xid", "gpu1"]["value"] == 79
    assert ("gpu.temperature", "gpu0") in findings, (
        "a record is judged whole, with a text beside it as without"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\nworld\n", "no text that can be judged"),
        ("", "is empty"),
        ("# Out of bounds values : 0 OK\n# Avg bus bandwidth : 3 OK\n", "provcheck nccl"),
        ("RuntimeError: NCCL WARN something\n", "explain --symptom"),
        ("### /proc/driver/nvidia/gpus/0000:01:00.0/information\nModel: x\n", "shows nothing"),
        ("\x1f\x8bbroken", "damaged gzip"),
    ],
)
def test_a_text_of_no_known_form_is_refused_in_words(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "saved.txt"
    path.write_bytes(text.encode("latin1"))
    assert main(["gpus", "--replay", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    if said == "no text that can be judged":
        assert all(form.name in error for form in FORMS)


def test_an_empty_link_listing_is_no_dead_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nvlink-s.txt"
    path.write_text("")
    _, findings = replay("--replay", path, capsys=capsys)
    assert findings["nvlink.state", "gpu0"]["status"] == "skip"
