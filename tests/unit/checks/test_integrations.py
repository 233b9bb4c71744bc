"""The shipped files are what their readers take: systemd's own verifier, doubles of scontrol, real parsers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from checks import pack
from checks.cli import COMMANDS
from checks.data.integrations import FILES, INTEGRATIONS, OPTIONS_FILE, SINGLE_FILE
from checks.gpus import node
from checks.group import LazyGroup
from checks.model import Finding, Report, Status
from checks.record import Section
from checks.report.exits import exit_code
from checks.serving import guard

TEXTS = {name: guard.text_of(f"integrations/{row.file}") for name, row in INTEGRATIONS.items()}


def commands() -> Iterator[list[str]]:
    """The words after the single file, in every form that these files have."""
    for text in TEXTS.values():
        for line in text.splitlines():
            if line.lstrip().startswith("#") or (
                "provcheck.pyz" not in line and "$PROVCHECK gpus" not in line
            ):
                continue
            rest = re.split(r"provcheck\.pyz|\$PROVCHECK", line)[1]
            words = re.findall(r"[A-Za-z0-9./=_-]+", rest.partition("2>&1")[0])
            if words:
                yield words


def test_every_file_of_the_folder_is_offered_and_is_there(repo_root: Path) -> None:
    there = {path.name for path in (repo_root / "templates/integrations").iterdir()}
    assert there == {row.file for row in INTEGRATIONS.values()}


def test_every_command_line_in_them_is_one_that_provcheck_takes() -> None:
    found = list(commands())
    assert len(found) >= 6
    group = LazyGroup(name="provcheck", table=COMMANDS)
    for words in found:
        command = group.get_command(click.Context(group), words[0])
        assert command is not None, words
        known = {name for option in command.params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= known, words


def test_each_is_printed_and_listed(provcheck: Callable[..., Any], tmp_path: Path) -> None:
    listed = provcheck("integrate", "--list")
    for name, text in TEXTS.items():
        assert provcheck("integrate", name).out == text
        assert name in listed.out
    script = tmp_path / "check.sh"
    assert provcheck("integrate", "slurm", "--output", script).code == 0
    assert script.stat().st_mode & 0o777 == 0o755
    refused = provcheck("integrate", "cron")
    assert refused.code == 2
    assert "there are systemd, slurm" in refused.err
    assert provcheck("integrate").code == 2


def test_they_travel_in_the_single_file(tmp_path: Path) -> None:
    pack.build(tmp_path / "provcheck.pyz")
    names = zipfile.ZipFile(tmp_path / "provcheck.pyz").namelist()
    assert {f"checks/{guard.PACKED}/{name}" for name in FILES} <= set(names)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_finds_nothing_wrong_with_units_and_drop_in(tmp_path: Path) -> None:
    units = tmp_path / "units"
    (units / "engine.service.d").mkdir(parents=True)
    (units / "engine.service").write_text("[Service]\nExecStart=/bin/true\nRestart=on-failure\n")
    (units / "engine.service.d/50-provcheck.conf").write_text(TEXTS["systemd"])
    (units / "provcheck-textfile.service").write_text(TEXTS["node-exporter"])
    (units / "provcheck-textfile.timer").write_text(TEXTS["node-exporter-timer"])
    for unit in ("engine.service", "provcheck-textfile.timer", "provcheck-textfile.service"):
        ran = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", unit],
            env={"SYSTEMD_UNIT_PATH": f"{units}:", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert str(tmp_path) not in ran.stderr, ran.stderr
        assert "provcheck" not in ran.stderr, ran.stderr


def test_a_gate_takes_less_time_than_systemd_gives_a_start() -> None:
    limit = re.search(r"timeout -k (\d+) (\d+) ", TEXTS["systemd"])
    assert limit
    assert int(limit[1]) + int(limit[2]) < 90


def test_npd_gets_its_form_and_its_exit_codes() -> None:
    whole = json.loads(TEXTS["npd"])
    assert (whole["plugin"], whole["pluginConfig"]["max_output_length"]) == ("custom", 80)
    types = {condition["type"] for condition in whole["conditions"]}
    for rule in whole["rules"]:
        assert rule["condition"] in types
        assert rule["type"] == "permanent"
        assert int(rule["timeout"].rstrip("s")) <= int(whole["pluginConfig"]["timeout"].rstrip("s"))
        assert "--exit-style npd" in rule["args"][1]


def from_yaml(text: str) -> Any:
    """By PyYAML of this environment, else by that of the distribution's Python (python3-yaml)."""
    convert = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))"
    for python in (sys.executable, "/usr/bin/python3"):
        if Path(python).exists():
            ran = subprocess.run(
                [python, "-c", convert], input=text, capture_output=True, text=True, check=False
            )
            if "ModuleNotFoundError" not in ran.stderr:
                assert ran.returncode == 0, ran.stderr
                return json.loads(ran.stdout)
    pytest.skip("no PyYAML here: apt install python3-yaml")


def test_the_pod_tests_with_the_engines_own_settings() -> None:
    spec = from_yaml(TEXTS["kubernetes"])["spec"]
    (engine,) = spec["containers"]
    assert {container["name"] for container in spec["initContainers"]} == {"gpus", "nccl"}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for container in spec["initContainers"]:
        for part in ("image", "env", "resources", "volumeMounts"):
            assert container[part] == engine[part], f"{container['name']}: {part}"
        assert all(isinstance(word, str) for word in container["command"])
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
    assert all(isinstance(variable["value"], str) for variable in engine["env"])
    wanted = spec["initContainers"][0]["command"]
    assert wanted[wanted.index("--expect") + 1] == str(engine["resources"]["limits"]["nvidia.com/gpu"])
    assert volumes["shm"]["emptyDir"]["medium"] == "Memory"


def test_of_an_option_given_twice_the_last_one_holds(provcheck: Callable[..., Any]) -> None:
    assert provcheck("gpus", "--expect", 8, "--expect", 0).code == 0


# ---------------------------------------------------------------- one place for the plan

ASKING = ("systemd", "slurm", "node-exporter", "npd")


@pytest.mark.parametrize("name", ASKING)
def test_every_integration_of_a_node_takes_the_options_of_one_file(name: str) -> None:
    text = TEXTS[name]
    assert OPTIONS_FILE in text
    asks = [line for line in re.split(r"(?<!\\)\n", text) if re.search(r"(pyz|\$PROVCHECK) gpus ", line)]
    assert [line for line in asks if "$PROVCHECK_OPTIONS" not in line.replace("PROVCHECK_OPTIONS=", "")] == []
    assert asks
    if name in ("systemd", "node-exporter"):
        assert "\nEnvironmentFile=-/etc/default/provcheck\n" in text, "one that is not there is no failure"


def test_the_file_of_options_is_one_that_a_shell_and_systemd_read_alike() -> None:
    given = [line for line in TEXTS["options"].splitlines() if line and not line.startswith("#")]
    assert given == ['PROVCHECK_OPTIONS=""']
    for example in re.findall(r'#\s+PROVCHECK_OPTIONS="([^"]*)"', TEXTS["options"]):
        command = LazyGroup(name="provcheck", table=COMMANDS).get_command(
            click.Context(click.Command("x")), "gpus"
        )
        assert command is not None
        known = {name for option in command.params for name in option.opts}
        assert {word for word in example.split() if word.startswith("--")} <= known


def test_npd_runs_what_the_file_of_options_says(tmp_path: Path) -> None:
    rule = json.loads(TEXTS["npd"])["rules"][0]
    script = rule["args"][1].replace("/usr/bin/python3 /opt/kpro/provcheck.pyz", "echo")
    for given, words in ((None, ""), ('PROVCHECK_OPTIONS="--expect 8 --mig"', " --expect 8 --mig")):
        if given:
            (tmp_path / "options").write_text(given)
        ran = subprocess.run(
            [rule["path"], rule["args"][0], script.replace(OPTIONS_FILE, str(tmp_path / "options"))],
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.strip() == f"gpus --deadline 20 --format nagios --exit-style npd{words}"


def test_what_npd_needs_and_what_unknown_is_there_is_said(
    repo_root: Path, provcheck: Callable[..., Any]
) -> None:
    listed = provcheck("integrate", "--list").out
    page = (repo_root / "docs/provcheck.md").read_text()
    for text in (listed, page):
        assert "libnvidia-ml.so.1" in text
    assert "`Unknown` for what could not be checked" in page
    hung = Report("gpus", (Finding("driver.responds", Status.UNKNOWN, "host", "NVML hung"),))
    assert exit_code(hung, "npd") == 2


def test_the_single_file_that_all_need_can_be_had(provcheck: Callable[..., Any], tmp_path: Path) -> None:
    for name, text in TEXTS.items():
        if name not in ("node-exporter-timer", "options"):
            assert SINGLE_FILE in text
    assert f"provcheck pack {SINGLE_FILE}" in provcheck("integrate", "--list").out
    assert " pack " in provcheck("--help").out
    file = tmp_path / "provcheck.pyz"
    assert provcheck("pack", file).code == 0
    assert file.stat().st_mode & 0o777 == 0o755
    ran = subprocess.run(
        [sys.executable, "-I", file, "gpus", "--expect", "0"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout[:5]) == (0, "pass:"), ran.stderr
    nowhere = provcheck("pack", tmp_path / "no" / "provcheck.pyz")
    assert nowhere.code == 2
    assert "mkdir -p" in nowhere.err


def test_a_pod_is_not_asked_for_what_it_may_not_read(
    healthy: Callable[..., Any], judged: Callable[..., Any]
) -> None:
    """An ordinary pod is root without CAP_SYSLOG: what is unknown for want of the kernel log alone is left out."""
    command = from_yaml(TEXTS["kubernetes"])["spec"]["initContainers"][0]["command"]
    left = set(command[command.index("--leave-out") + 1].split(","))
    switch = "0000:c0:00.0"
    bus = (
        Section("dir", node.PCI, f"{switch}\n".encode()),
        Section("file", f"{node.PCI}/{switch}/vendor", b"0x10de\n"),
        Section("file", f"{node.PCI}/{switch}/class", b"0x068000\n"),
    )
    closed = Section("log", "kernel", None, "Operation not permitted")
    seen, without = judged(healthy(2), (*bus, closed), 2), judged(healthy(2), bus, 2)
    unknown = {key[0] for key, one in seen.items() if one.status is Status.UNKNOWN}
    for_the_log = unknown - {key[0] for key, one in without.items() if one.status is Status.UNKNOWN}
    assert for_the_log == left
    assert "SYSLOG" in TEXTS["kubernetes"]
    assert "the node's own check" in TEXTS["kubernetes"]
