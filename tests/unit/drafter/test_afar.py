"""``--host``: the folders of another machine are judged there; ssh is a double that runs the command here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.cli import main
from tests.unit.drafter.makers import incident_pair, toy_pair

HERE = 'while [ "$1" != "--" ]; do shift; done; shift 2; exec sh -c "$1"'


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def install(script: str) -> None:
        (folder / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "ssh").chmod(0o755)

    return install


def call(root: Path, *more: str) -> list[str]:
    drafter, target = incident_pair().write(root) if "--write" in more else toy_pair().write(root)
    where = ["--target", str(target), "--engine", "vllm==0.20.1", "--host", "box", "--json"]
    return ["drafter", str(drafter), *where, *more]


def test_the_verdict_is_that_of_the_other_machine(
    ssh: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ssh(f"cd {tmp_path}; {HERE}")
    assert main(call(tmp_path / "m", "-k", "3")) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], report["facts"]["host"]) == ("warn", "box")


def test_bad_input_there_is_bad_input_here(
    ssh: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ssh(f"cd {tmp_path}; {HERE}")
    arguments = call(tmp_path / "m")
    (tmp_path / "m" / "target" / "config.json").write_text("[")
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("provcheck: box: ")


@pytest.mark.parametrize("script", ["exit 255", "echo hello", "echo '{\"report\": 5}'", "echo '[['; exit 0"])
def test_a_machine_that_gives_no_report_is_unknown(
    ssh: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    ssh(script)
    assert main(call(tmp_path / "m")) == 3
    assert json.loads(capsys.readouterr().out)["findings"][0]["id"] == "node.reachable"


def test_a_config_is_written_there(
    ssh: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ssh(f"cd {tmp_path}; {HERE}")
    arguments = call(tmp_path / "m", "--write", "--force")
    assert main(arguments) == 0
    assert (Path(arguments[1]) / "config.json.orig").exists()


@pytest.mark.parametrize(
    "request_text",
    ["", "{}", '{"nonsense": 1}', "[", '{"drafter": 5, "target": 5, "engine": "vllm==0.20.1"}'],
)
def test_the_far_end_refuses_a_request_that_is_none(
    capsys: pytest.CaptureFixture[str], request_text: str
) -> None:
    assert main(["_probe", "drafter", request_text]) == 2
    assert "Traceback" not in capsys.readouterr().err
