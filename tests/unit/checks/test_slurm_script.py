"""The script for Slurm drains a node with a reason, takes back only its own drain, and ends in time; scontrol is a
double that answers what it is documented to be asked, and ends with 99 on the rest."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.data.integrations import INTEGRATIONS
from checks.serving import guard

SCRIPT = guard.text_of(f"integrations/{INTEGRATIONS['slurm'].file}")

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
        text = re.sub(r"^PROVCHECK=.*$", f'PROVCHECK="{tmp_path}/bin/provcheck"', SCRIPT, flags=re.M)
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
    text = "\n".join(line for line in SCRIPT.splitlines() if not line.startswith("#"))
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
    quick = SCRIPT.replace("timeout -k 2 30", "timeout -k 1 0.3")
    monkeypatch.setattr(sys.modules[__name__], "SCRIPT", quick)
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
