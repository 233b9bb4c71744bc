"""The guard's units are what systemd takes, and the alert rules speak of series that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from checks import pack
from checks.cli import main
from checks.data.metric_names import METRICS, PER_POSITION
from checks.serving import guard
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


@pytest.mark.parametrize("kind", ["service", "timer"])
@pytest.mark.parametrize("baseline", [None, "/b.json"])
@pytest.mark.parametrize("key", [None, "/etc/kpro/key"])
def test_the_printed_guard_fills_the_templates_as_jinja_does(
    kind: str, baseline: str | None, key: str | None
) -> None:
    values = {"name": "chat", "url": "http://127.0.0.1:8000", "baseline": baseline, "key_file": key}
    name = f"kpro-guard.{kind}.j2"
    assert guard.filled(guard.text_of(name), values) == render(name, **values)


def _printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["serve", "http://127.0.0.1:8000", "--print-guard", "chat", *args]) == 0
    return capsys.readouterr().out


def _installed(script: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Runs the script with every absolute path of the host moved below ``root`` and systemctl replaced by a list."""
    (root / "bin").mkdir(parents=True)
    for name, text in (("systemctl", f'echo "$@" >>{root}/calls'), ("id", "exit 0")):
        (root / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (root / "bin" / name).chmod(0o755)
    (root / "opt" / "kpro").mkdir(parents=True)
    (root / "opt" / "kpro" / "provcheck.pyz").write_text("")
    moved = re.sub(r"(?m)^(put |\[ -r )/", rf"\1{root}/", script)
    return subprocess.run(
        ["/bin/sh"], input=moved, capture_output=True, text=True, env={"PATH": f"{root}/bin:/usr/bin:/bin"}
    )


def test_the_printed_script_installs_units_and_rules_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = _installed(_printed(capsys, "--baseline", "/b.json"), tmp_path)
    assert ran.returncode == 0, ran.stderr
    for kind in ("service", "timer"):
        text = (tmp_path / f"etc/systemd/system/kpro-guard-chat.{kind}").read_text()
        values = {**VALUES, "baseline": "/b.json"}
        assert text == render(f"kpro-guard.{kind}.j2", **values)
    assert (tmp_path / "etc/kpro/kpro-alerts.yml").read_text() == guard.text_of(guard.ALERTS)
    assert (tmp_path / "calls").read_text() == "daemon-reload\nenable --now kpro-guard-chat.timer\n"


def test_without_the_single_file_nothing_is_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = _printed(capsys).replace("/opt/kpro/provcheck.pyz ]", "/nowhere/provcheck.pyz ]")
    ran = _installed(script, tmp_path)
    assert ran.returncode == 1
    assert "provcheck.pyz" in ran.stderr
    assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize(
    "args",
    [
        ["http://127.0.0.1:8000", "--print-guard", "a b"],
        ["http://127.0.0.1:8000", "--print-guard", "../x"],
        ["http://127.0.0.1:8000", "--print-guard", "chat", "--baseline", "good.json"],
        ["http://127.0.0.1:8000", "--print-guard", "chat", "--baseline", "/a b.json"],
        ["http://127.0.0.1:8000", "--print-guard", "chat", "--baseline", "/%n"],
        ["http://127.0.0.1:8000/$(x)", "--print-guard", "chat"],
        ["http://127.0.0.1:8000", "--print-guard", "chat", "--api-key-file", "key"],
        ["--print-guard", "chat"],
    ],
)
def test_what_a_unit_or_a_shell_would_read_differently_is_refused(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *args]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1


def test_the_single_file_brings_what_it_hands_out(tmp_path: Path) -> None:
    path = tmp_path / "provcheck.pyz"
    pack.build(path)
    with zipfile.ZipFile(path) as archive:
        for name in guard.FILES:
            assert archive.read(f"checks/{guard.PACKED}/{name}").decode() == guard.text_of(name)
    ran = subprocess.run(
        [sys.executable, "-I", path, "serve", "http://[::1]:8000", "--print-guard", "chat"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (ran.returncode, "kpro-guard-chat.timer" in ran.stdout) == (0, True), ran.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _installed(_printed(capsys, "--baseline", "/b.json"), tmp_path).returncode == 0
    units = [str(tmp_path / f"etc/systemd/system/kpro-guard-chat.{kind}") for kind in ("service", "timer")]
    ran = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=60)
    ours = [line for line in ran.stderr.splitlines() if "kpro-guard" in line]
    assert ours == []
    broken = Path(units[0])
    broken.write_text(broken.read_text().replace("Type=oneshot", "Type=sometimes\nExecStat=/x"))
    ran = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=60)
    assert any("kpro-guard" in line for line in ran.stderr.splitlines())


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
