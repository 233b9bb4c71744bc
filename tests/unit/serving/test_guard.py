"""The guard's units are what systemd takes, and the alert rules speak of series that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from checks.cli import main
from checks.data.metric_names import METRICS, PER_POSITION
from provision.templates import render

VALUES = {
    "name": "chat",
    "url": "http://127.0.0.1:8000",
    "baseline": "/var/lib/kpro/baselines/chat.json",
    "key_file": None,
}
OTHERS = {"provcheck_verdict", "provcheck_finding", "node_textfile_mtime_seconds"}


def _command(text: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    return line.removeprefix("ExecStart=").split()


def test_the_guards_command_line_is_one_that_provcheck_takes(tmp_path: Path) -> None:
    words = _command(render("kpro-guard.service.j2", **VALUES))
    assert words[:2] == ["/usr/bin/python3", "/opt/kpro/provcheck.pyz"]
    args = [word.replace("/var/lib/kpro-guard", str(tmp_path)) for word in words[2:]]
    at = args.index("--baseline")
    args[at + 1] = str(tmp_path / "baseline.json")
    (tmp_path / "baseline.json").write_text('{"schema": "provcheck-baseline/1"}')
    args[args.index("http://127.0.0.1:8000")] = "http://127.0.0.1:1"
    assert main(args) == 3
    assert 'provcheck_verdict{command="serve"' in (tmp_path / "chat.prom").read_text()


def test_a_service_without_baseline_or_key_gets_neither_option() -> None:
    text = render(
        "kpro-guard.service.j2", name="chat", url="http://127.0.0.1:8000", baseline=None, key_file=None
    )
    assert "--baseline" not in text
    assert "--api-key-file" not in text
    assert "--api-key-file /etc/kpro/key" in render(
        "kpro-guard.service.j2", **{**VALUES, "key_file": "/etc/kpro/key"}
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for kind in ("service", "timer"):
        text = render(f"kpro-guard.{kind}.j2", **VALUES)
        (tmp_path / f"kpro-guard-chat.{kind}").write_text(text)
    units = [str(tmp_path / f"kpro-guard-chat.{kind}") for kind in ("service", "timer")]
    ran = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=30)
    ours = [line for line in ran.stderr.splitlines() if "kpro-guard" in line]
    assert ours == []


def test_the_alert_rules_use_only_series_that_the_engines_or_the_guard_publish(repo_root: Path) -> None:
    lines = (repo_root / "templates" / "alerts.yml").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    known = {name for row in METRICS for name in (row.vllm, row.sglang) if name} | {PER_POSITION} | OTHERS
    used = set(re.findall(r"\b(?:vllm|sglang):[a-z_]+|\b(?:provcheck|node)_[a-z_]+\b", text))
    assert used - known == set()
    assert len(re.findall(r"- alert: (\w+)", text)) == len(set(re.findall(r"- alert: (\w+)", text))) >= 6


def test_every_alert_has_an_expression_a_delay_a_severity_and_says_what_to_do(repo_root: Path) -> None:
    rules = (repo_root / "templates" / "alerts.yml").read_text().split("- alert: ")[1:]
    for rule in rules:
        for part in ("expr:", "for:", "severity:", "summary:", "description:"):
            assert part in rule, rule[:60]
        assert rule.count("(") == rule.count(")"), rule[:60]
