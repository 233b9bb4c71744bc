"""scripts/gpu-session: a summary always comes out, and what was not run or not as expected is never green."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.gpu.report import main, unmet

REPORT = '{"schema": "provcheck/1", "verdict": "fail", "findings": [%s]}'
LOST = '{"id": "gpu.lost", "subject": "gpu1", "status": "fail", "message": "gone"}'


@pytest.mark.parametrize(
    ("expectation", "met"),
    [
        ("verdict=fail", True),
        ("verdict=pass,warn", False),
        ("gpu.lost=fail", True),
        ("gpu.*=warn,fail", True),
        ("gpu.count|gpu.lost=fail", True),
        ("gpu.count|gpu.ecc=fail", False),
        ("gpu.lost=pass", False),
        ("node.shm=fail", False),
    ],
)
def test_an_expectation_is_met_by_id_and_status(expectation: str, met: bool) -> None:
    finding = {"id": "gpu.lost", "status": "fail"}
    assert (unmet({"verdict": "fail", "findings": [finding]}, [expectation]) == []) is met


def test_what_is_no_report_is_never_as_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "r.json"
    report.write_text(REPORT % LOST)
    assert main(str(report), "gpu.lost=fail") == 0
    assert main(str(report), "gpu.ecc=fail") == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "MISSING gpu.ecc=fail; verdict=fail of 1 findings; gpu.lost=fail"
    for text in ("", "[]", REPORT % "3"):
        report.write_text(text)
        assert main(str(report)) == 2


def session(repo_root: Path, folder: Path, seconds: str, *parts: str) -> tuple[int, str]:
    (folder / "carry/whl").mkdir(parents=True)
    done = subprocess.run(
        [repo_root / "scripts/gpu-session", folder / "carry", *parts],
        env={**os.environ, "OUT": str(folder / "out"), "KPRO_SESSION_S": seconds, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, (folder / "out/summary.txt").read_text()


def test_when_the_time_is_over_the_rest_is_named_as_not_run(repo_root: Path, tmp_path: Path) -> None:
    code, summary = session(repo_root, tmp_path, "3", "bare")
    assert code == 1
    for name in ("install", "bare-gpus", "bare-nccl"):
        assert f"\n{name} " in summary
    assert summary.count("NOT RUN") == len(summary.splitlines()) - 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "summary.txt",
        "logs.tar.gz",
        "records.tar.gz",
    }


def test_a_failed_step_stops_nothing(repo_root: Path, tmp_path: Path) -> None:
    code, summary = session(repo_root, tmp_path, "60", "none")
    assert code == 1
    assert "install " in summary
    assert "install-target " in summary
    assert "\nmachine " in summary
    assert not list(tmp_path.glob("kpro-session.*"))
