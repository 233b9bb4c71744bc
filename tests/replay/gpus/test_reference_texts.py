"""Texts of real machines and public reports that may lie beside the checkout, each held against its index."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from checks.data.symptoms import explain
from checks.nccl_tests import footers

EIGHT = [f"gpu{n}" for n in range(8)]
Findings = dict[tuple[str, str], dict[str, Any]]

# file -> exit code, findings and their status (all that are not green must be among them)
CASES: dict[str, tuple[int, dict[tuple[str, str], str]]] = {
    "azure/bad_nvsmi8_output.txt": (
        1,
        {
            **{("gpu.retired_pages", f"gpu{n}"): "fail" for n in (0, 1, 3, 5, 7)},
            **{("gpu.retired_pages", f"gpu{n}"): "pass" for n in (2, 4, 6)},
            ("gpu.count", "host"): "pass",
        },
    ),
    "gpud/fabricmanager.log": (0, {("fabric.sxid", "host"): "warn"}),
    "gpud/kmsg.2.peermem.log": (0, {("driver.peermem", "host"): "warn", ("gpu.xid", "host"): "pass"}),
    "gpud/lspci-vvv.gz": (
        0,
        {
            ("pcie.acs", "host"): "pass",
            ("gpu.count", "host"): "pass",
            **{("gpu.pcie_width", gpu): "pass" for gpu in EIGHT},
        },
    ),
    "gpud/lspci.nn.a100": (0, {("gpu.count", "host"): "pass", ("fabric.manager", "host"): "skip"}),
    "gpud/nvidia-smi.nvlink.status.a100": (0, {("nvlink.state", gpu): "pass" for gpu in EIGHT}),
    "text/dmesg_xid_lines.txt": (
        1,
        {
            ("gpu.xid", "0000:0f:00.0"): "fail",
            ("gpu.xid", "0000:9b:00.0"): "fail",
            ("gpu.xid", "0000:3b:00.0"): "fail",
            ("gpu.xid", "0000:44:00.0"): "fail",
            ("gpu.xid", "0000:b3:00.0"): "fail",
            ("gpu.xid", "0018:01:00.0"): "warn",
            ("gpu.xid", "0000:00:00.0"): "fail",
            ("gpu.xid", "0000:01:00.0"): "warn",
            ("gpu.xid", "0000:61:00.0"): "warn",
            ("fabric.sxid", "host"): "warn",
            ("driver.log", "host"): "warn",
            ("node.nccl_crash", "host"): "warn",
            ("driver.peermem", "host"): "warn",
        },
    ),
    "text/fabric_bad_status.txt": (1, {("fabric.state", "gpu0"): "fail"}),
    "text/nvlink_partial_inactive.txt": (1, {("nvlink.state", "gpu3"): "fail"}),
    "real_h200_x1/nvidia-smi-q.txt": (
        0,
        {
            ("fabric.state", "gpu0"): "skip",
            **{
                (f"gpu.{what}", "gpu0"): "pass"
                for what in ("ecc", "row_remap", "recovery", "pcie_width", "throttle")
            },
            **{
                (f"gpu.{what}", "gpu0"): "pass"
                for what in ("persistence", "temperature", "power_limit", "identity")
            },
        },
    ),
    "real_h200_x1/topo-m.txt": (0, {("gpu.count", "host"): "pass", ("pcie.p2p", "host"): "skip"}),
    "real_h200_x1/nvlink-s.txt": (3, {("nvlink.state", "gpu0"): "skip"}),
    "real_h200_x1/sys_pci.txt": (0, {("gpu.pcie_width", "gpu0"): "pass", ("node.iommu", "host"): "skip"}),
    "real_h200_x1/proc.txt": (0, {("driver.loaded", "host"): "pass"}),
    "real_h200_x1/dmesg_nvrm.txt": (0, {("gpu.xid", "host"): "pass"}),
    "real_h200_x1/dmesg_xid43_bad_drafter.txt": (0, {("gpu.xid", "0000:00:06.0"): "warn"}),
    "real_h200_x1/dev_ls.txt": (0, {("node.device_nodes", "host"): "pass"}),
    "real_h200_x2/topo.txt": (0, {("pcie.p2p", "pair 0-1"): "pass"}),
    "real_h200_x2/p2p.txt": (0, {("pcie.p2p", "pair 0-1"): "pass"}),
    "real_h200_x2/nvlink.txt": (0, {("nvlink.state", "gpu0"): "pass", ("nvlink.state", "gpu1"): "pass"}),
}
ELSEWHERE = {"text/nccl_tests_footer.txt", "text/symptoms.txt"}


def judged(path: Path, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, Findings]:
    code = main(["gpus", "--json", "--replay", str(path), *args])
    return code, {(f["id"], f["subject"]): f for f in json.loads(capsys.readouterr().out)["findings"]}


@pytest.mark.parametrize("name", CASES)
def test_a_reference_text_leads_to_what_its_index_says(
    name: str, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, wanted = CASES[name]
    seen, findings = judged(shared / "fixtures/health" / name, capsys)
    assert {key: findings[key]["status"] for key in wanted} == wanted
    assert {k for k, f in findings.items() if f["status"] in ("fail", "warn", "unknown")} <= wanted.keys()
    assert seen == code


def test_every_text_of_the_index_has_its_case(shared: Path) -> None:
    lines = (shared / "fixtures/health/INDEX.tsv").read_text().splitlines()[1:]
    texts = {line.split("\t")[0] for line in lines if not line.split("\t")[0].endswith(".json")}
    assert texts == CASES.keys() | ELSEWHERE


def test_full_tables_ask_for_a_new_board_and_pending_ones_for_a_reset(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, findings = judged(shared / "fixtures/health/azure/bad_nvsmi8_output.txt", capsys)
    fixes = {
        subject: f["fix"] or ""
        for (identity, subject), f in findings.items()
        if identity == "gpu.retired_pages"
    }
    assert all("replaced" in fixes[gpu] for gpu in ("gpu1", "gpu5", "gpu7"))
    assert "reset" in fixes["gpu3"]
    assert "replaced" not in fixes["gpu3"]


def test_switches_are_counted_apart_from_gpus(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, findings = judged(shared / "fixtures/health/gpud/lspci.nn.a100", capsys)
    assert findings["gpu.count", "host"]["value"] == 8
    assert "6 NVSwitches" in findings["fabric.manager", "host"]["message"]
    assert "fabricmanager" in findings["fabric.manager", "host"]["message"]


def test_a_draft_model_s_bad_token_is_no_reason_for_a_reset(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, findings = judged(shared / "fixtures/health/real_h200_x1/dmesg_xid43_bad_drafter.txt", capsys)
    finding = findings["gpu.xid", "0000:00:06.0"]
    assert "mask_token_id" in finding["cause"]
    assert finding["fix"].startswith("no GPU reset")


def test_serial_numbers_of_a_log_go_nowhere(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shared / "fixtures/health/real_h200_x1/dmesg_xid43_bad_drafter.txt"
    serial = re.search(r"Serial Number: (\d+)", path.read_text())
    assert serial
    main(["gpus", "--json", "--replay", str(path)])
    assert serial[1] not in capsys.readouterr().out


def test_each_line_of_the_xid_lines_alone_gives_its_own_verdict(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (shared / "fixtures/health/text/dmesg_xid_lines.txt").read_text().splitlines()[1:]
    wanted = [
        *("warn", "fail", "warn", "unknown", "fail", "fail", "fail", "fail"),
        *("warn", "warn", "fail", "warn", "warn", "unknown", "warn"),
    ]
    seen = []
    for line in lines:
        one = tmp_path / "one.txt"
        one.write_text(line.split("\t")[0] + "\n")
        _, findings = judged(one, capsys)
        ranks = [f["status"] for f in findings.values()]
        seen.append(next(s for s in ("fail", "unknown", "warn", "pass") if s in ranks))
    assert seen == wanted


def test_every_symptom_of_the_index_is_explained_first_by_its_own_row(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (shared / "fixtures/health/text/symptoms.txt").read_text().splitlines()[1:]
    wanted = [
        *(
            "driver-mismatch",
            "cgroup-lost",
            "nvlinks-all-down",
            "fabric-not-ready",
            "shm-too-small",
            "shm-too-small",
        ),
        *(
            "memlock",
            "p2p-disabled-over-nvlink",
            "nvls",
            "memory-not-supported",
            "pynvml-version",
            "uncorrectable-ecc",
        ),
    ]
    assert [explain(line.split(" | ")[0])[0].name for line in lines] == wanted
    for line in lines:
        assert main(["explain", "--symptom", line.split(" | ")[0]]) == 0
        said = capsys.readouterr().out
        assert "cause:" in said
        assert "next:" in said


def test_the_footers_of_nccl_tests_are_read_block_by_block(shared: Path) -> None:
    first, second, third = footers((shared / "fixtures/health/text/nccl_tests_footer.txt").read_text())
    assert (first.sums_right, first.busbw_passed) == (True, True)
    assert (second.sums_right, second.wrong) == (False, 3)
    assert (third.sums_right, third.busbw_passed, third.busbw) == (True, False, 21.4)
