"""The shipped files are what their readers take: systemd's own verifier, doubles of scontrol, real parsers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
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
NOT_HERE_YET = {"nccl", "load"} - set(COMMANDS)


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
        if words[0] in NOT_HERE_YET:
            continue
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


# ---------------------------------------------------------------- Slurm

SCONTROL = """#!/bin/sh
echo "$*" >>{log}
case "$1 $2 $3" in
    "show node "*) [ $# = 3 ] && [ "$3" = kpro5 ] || exit 99; cat {state} ;;
    "update NodeName=kpro5 State=DRAIN") case "$4" in Reason=?*) ;; *) exit 99 ;; esac; [ $# = 4 ] || exit 99 ;;
    "update NodeName=kpro5 State=RESUME") [ $# = 3 ] || exit 99 ;;
    *) exit 99 ;;
esac
"""
SHOWN = """NodeName=kpro5 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.10
   State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu
   Gres={gres}
{reason}"""
FAILED = "PROVCHECK CRITICAL: gpu3 gpu.lost: the GPU is 'lost'; ask=\"ops\" $(touch x) | 'gpu0.temp'=36"
OURS = "provcheck: gpu3 gpu.lost: the GPU is lost; askops $(touch x)"


@pytest.fixture
def slurm(tmp_path: Path) -> Callable[..., tuple[int, list[str], str]]:
    """``slurm(check, state, reason)`` runs the script; gives its code, the updates it asked for, and its words."""

    def run(
        check: str,
        state: str = "IDLE",
        reason: str = "",
        scontrol: str = SCONTROL,
        gres: str = "gpu:h100:8(S:0-1)",
        bus: tuple[tuple[str, str], ...] = (),
        options: str | None = None,
    ) -> tuple[int, list[str], str]:
        for number, (vendor, kind) in enumerate(bus):
            device = tmp_path / "bus" / f"0000:{number:02x}:00.0"
            device.mkdir(parents=True)
            (device / "vendor").write_text(f"{vendor}\n")
            (device / "class").write_text(f"{kind}\n")
        if options is not None:
            (tmp_path / "options").write_text(options)
        log, shown = tmp_path / "asked", tmp_path / "shown"
        log.write_text("")
        line = f"   Reason={reason} [root@2026-11-29T10:00:00]\n" if reason else ""
        shown.write_text(SHOWN.format(state=state, reason=line, gres=gres))
        (tmp_path / "bin").mkdir(exist_ok=True)
        for name, text in (
            ("scontrol", scontrol.format(log=log, state=shown)),
            ("provcheck", f"#!/bin/sh\n{check}\n"),
        ):
            (tmp_path / "bin" / name).write_text(text)
            (tmp_path / "bin" / name).chmod(0o755)
        script = tmp_path / "check.sh"
        text = re.sub(r"^PROVCHECK=.*$", f'PROVCHECK="{tmp_path}/bin/provcheck"', TEXTS["slurm"], flags=re.M)
        text = re.sub(r"^PATH=.*$", f"PATH={tmp_path}/bin:/usr/bin:/bin", text, flags=re.M)
        text = re.sub(r"^OPTIONS=.*$", f"OPTIONS={tmp_path}/options", text, flags=re.M)
        text = re.sub(r"^BUS=.*$", f"BUS={tmp_path}/bus", text, flags=re.M)
        script.write_text(text)
        env = {"SLURMD_NODENAME": "kpro5", "PATH": "/usr/bin:/bin"}
        ran = subprocess.run(
            ["sh", str(script)], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        asked = log.read_text().splitlines()
        return ran.returncode, [line for line in asked if not line.startswith("show ")], ran.stderr

    return run


Slurm = Callable[..., tuple[int, list[str], str]]


def check(code: int, said: str = "") -> str:
    return f"cat <<'END'\n{said}\nEND\nexit {code}"


def test_a_healthy_node_is_left_alone(slurm: Slurm) -> None:
    assert slurm(check(0, "PROVCHECK OK: 30 pass")) == (0, [], "")


def test_a_failure_drains_with_the_reason_and_no_quote_escapes(slurm: Slurm, tmp_path: Path) -> None:
    code, asked, _ = slurm(check(1, FAILED))
    assert (code, asked) == (0, [f"update NodeName=kpro5 State=DRAIN Reason={OURS}"])
    assert not (tmp_path / "x").exists()


def test_what_could_not_be_checked_drains_too(slurm: Slurm) -> None:
    _, asked, _ = slurm(check(3, "PROVCHECK UNKNOWN: host driver.responds: NVML hung"))
    assert asked == ["update NodeName=kpro5 State=DRAIN Reason=provcheck: host driver.responds: NVML hung"]


def test_a_drain_of_ours_is_taken_back_when_all_is_well(slurm: Slurm) -> None:
    _, asked, _ = slurm(check(0), "IDLE+DRAIN", OURS)
    assert asked == ["update NodeName=kpro5 State=RESUME"]


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_drain_of_somebody_else_is_never_touched(slurm: Slurm, code: int) -> None:
    ended, asked, _ = slurm(check(code, FAILED), "IDLE+DRAIN", "fan is being replaced")
    assert (ended, asked) == (0, [])


def test_a_reason_of_ours_without_a_drain_resumes_nothing(slurm: Slurm) -> None:
    assert slurm(check(0), "IDLE", OURS)[1] == []


def test_the_same_reason_is_not_written_again_and_another_one_is(slurm: Slurm) -> None:
    assert slurm(check(1, FAILED), "IDLE+DRAIN", OURS)[1] == []
    assert len(slurm(check(1, FAILED), "IDLE+DRAIN", "provcheck: something else")[1]) == 1


@pytest.mark.parametrize("code", [2, 126, 127])
def test_a_check_that_is_not_installed_drains_no_cluster(slurm: Slurm, code: int) -> None:
    ended, asked, said = slurm(check(code, "python3: can't open file"))
    assert (ended, asked) == (1, [])
    assert f"exit {code}" in said


def test_without_an_answer_of_scontrol_nothing_is_changed(slurm: Slurm) -> None:
    ended, asked, said = slurm(check(1, FAILED), scontrol='#!/bin/sh\necho "$*" >>{log}\nexit 1\n# {state}')
    assert (ended, asked) == (1, [])
    assert "nothing is changed" in said


def test_all_time_outs_together_are_less_than_the_60_seconds_that_slurm_gives() -> None:
    text = "\n".join(line for line in TEXTS["slurm"].splitlines() if not line.startswith("#"))
    limits = {
        int(limit) + int(kill): word
        for kill, limit, word in re.findall(r"timeout -k (\d+) (\d+) (\S+)", text)
    }
    assert set(limits.values()) == {"$PROVCHECK", "scontrol"}
    of_check, of_slurm = sorted(limits, reverse=True)
    assert of_check + 3 * of_slurm < 55, "two looks at the node and one update"
    assert len(re.findall(r"^\s*(?:shown=\$\()?slurm ", text, re.M)) == 3, "and of two updates one is run"
    assert len(re.findall(r"^if ! seen", text, re.M)) == 2


def test_a_check_that_hangs_drains_the_node(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TEXTS, "slurm", TEXTS["slurm"].replace("timeout -k 2 30", "timeout -k 1 0.3"))
    start = time.monotonic()
    _, asked, _ = slurm("trap '' TERM; sleep 20 & wait; sleep 20")
    assert asked == ["update NodeName=kpro5 State=DRAIN Reason=provcheck: the check itself hung"]
    assert time.monotonic() - start < 15


WORDS = 'echo "$*" >>"${0%/*}/../words"; '


@pytest.mark.parametrize("bus", [(), (("0x8086", "0x030000"),), (("0x10de", "0x020000"),)])
@pytest.mark.parametrize("gres", ["(null)", "shard:8", "bandwidth:lustre:4"])
def test_a_node_without_gpus_is_none_of_its_business(
    gres: str, bus: tuple[tuple[str, str], ...], slurm: Slurm, tmp_path: Path
) -> None:
    told = slurm(f"{WORDS}{check(3, 'PROVCHECK UNKNOWN: host driver.loaded: no')}", gres=gres, bus=bus)
    assert told == (0, [], "")
    assert not (tmp_path / "words").exists(), "nothing was looked at"


@pytest.mark.parametrize(
    ("gres", "bus"),
    [("gpu:8", ()), ("gpu", ()), ("shard:4,gpu:h100:8(S:0-1)", ()), ("(null)", (("0x10de", "0x030200"),))],
)
def test_a_node_with_gpus_in_its_plan_or_on_its_bus_is_drained(
    gres: str, bus: tuple[tuple[str, str], ...], slurm: Slurm
) -> None:
    said = "PROVCHECK UNKNOWN: host driver.loaded: the module is not loaded"
    assert slurm(check(3, said), gres=gres, bus=bus)[1] == [
        "update NodeName=kpro5 State=DRAIN Reason=provcheck: host driver.loaded: the module is not loaded"
    ]


@pytest.mark.parametrize(
    ("gres", "options", "words"),
    [
        ("gpu:8", None, "--expect 8"),
        ("gpu", None, "--expect 1"),
        ("gpu:h100:4(S:0-1),gpu:a100:2(S:2,3),shard:32", None, "--expect 6"),
        (
            "gpu:8",
            'PROVCHECK_OPTIONS="--expect 4 --leave-out gpu.mig"',
            "--expect 8 --expect 4 --leave-out gpu.mig",
        ),
        ("gpu:1g.10gb:7", None, "--mig"),
        ("gpu:a100_3g.20gb:4,gpu:a100_1g.5gb:2", None, "--mig"),
        ("gpu:14", 'PROVCHECK_OPTIONS="--mig"', "--mig"),
    ],
)
def test_the_plan_is_that_of_slurm_unless_the_options_say_other(
    gres: str, options: str | None, words: str, slurm: Slurm, tmp_path: Path
) -> None:
    slurm(WORDS + check(0), gres=gres, options=options)
    asked = (tmp_path / "words").read_text().strip()
    assert asked == f"gpus --deadline 20 --format nagios --exit-style provcheck {words}"


def test_a_drain_that_came_during_the_check_is_left_alone(slurm: Slurm, tmp_path: Path) -> None:
    meanwhile = f"sed -i 's/State=IDLE/State=IDLE+DRAIN/; s/Gres=/Reason=fan [ops@2026]\\n   Gres=/' {tmp_path}/shown; "
    assert slurm(meanwhile + check(1, FAILED))[1] == []


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
