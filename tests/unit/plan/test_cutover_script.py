"""The script that a guest is given for a cut-over, for every shape of one."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from provision.acts.cutover import _last_words, gate_seconds, mending, script
from provision.host.transport import Completed
from provision.stack.cutover import Cutover
from provision.stack.desired import DesiredService

MODES = ("first", "again", "beside", "swap")


def shapes(desired: DesiredService) -> list[Cutover]:
    trial = desired.trial
    assert trial is not None
    keyed = replace(desired, service=desired.service.model_copy(update={"api_key_file": "/x"}))
    gate = ("--limit", "speed_fail=0.5", "--baseline", "/var/lib/kpro/baselines/tiny/it's.json")
    return [
        *(Cutover(desired, None, mode) for mode in MODES),
        *(Cutover(desired, None, mode, gate, 1.1, "/x/fresh.json", candidate=True) for mode in MODES),
        *(Cutover(keyed, trial, mode, gate, 1.1, "/x/y z.json") for mode in ("beside", "swap")),
    ]


def test_every_shape_is_a_script_that_a_shell_can_read(desired: DesiredService) -> None:
    for asked in shapes(desired):
        text = script(asked)
        done = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, (asked.mode, done.stderr)
        # A script that was cut off while it was sent does nothing.
        assert text.rstrip().splitlines()[-1] == "main"


def test_no_secret_is_in_the_script(desired: DesiredService) -> None:
    secret = replace(desired, key="must-not-be-seen", environment='VLLM_API_KEY="must-not-be-seen"\n')
    assert "must-not-be-seen" not in script(Cutover(secret, replace(secret), "swap"))


def test_a_candidate_has_to_beat_the_baseline_of_its_own_gate(desired: DesiredService) -> None:
    asked = Cutover(desired, desired.trial, "swap", ("--baseline", "/b.json"), 1.25, candidate=True)
    assert f"--beats 1.25 --baseline /b.json --profile {desired.digest}" in script(asked)
    assert "/var/lib/kpro/trials/tiny.json --keep /var/lib/kpro/trials/tiny.accepted.json" in script(asked)
    own = script(replace(asked, candidate=False, beats=None))
    assert "--beats" not in own
    assert "/var/lib/kpro/trials/tiny.service.json" in own


def test_what_was_refused_is_the_profile_and_never_the_unit_that_serves(desired: DesiredService) -> None:
    told = script(Cutover(desired, desired.trial, "beside", ("--seconds", "1")))
    (line,) = [line for line in told.splitlines() if "was refused:" in line]
    assert "the profile that was tried for %s was refused:" in line
    assert '"$name"' in line
    assert "$unit" not in line
    # It is where the words of the error begin.
    said = ["before", "the profile that was tried for tiny was refused:", "slow"]
    assert _last_words(said, Completed(1, b"", b"", True)) == said[1:]


def test_a_fresh_reading_that_a_killed_run_left_is_removed_before_another_is_taken(
    desired: DesiredService,
) -> None:
    begins = script(Cutover(desired, None, "swap")).split("prepare() {")[1].split("\n}")[0]
    assert '"/var/lib/kpro/baselines/$name"/*.fresh' in begins


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ((), 540),
        (("--seconds", "10"), 320),
        (("--seconds=10",), 320),
        (("--seconds", "10", "--concurrency", "4,16"), 340),
    ],
)
def test_a_measurement_has_a_deadline_that_goes_by_its_window(words: tuple[str, ...], seconds: int) -> None:
    assert gate_seconds(words) == seconds


def test_what_mends_it_is_a_script_for_every_shape_and_holds_no_secret(desired: DesiredService) -> None:
    for asked in shapes(
        replace(desired, key="must-not-be-seen", environment='VLLM_API_KEY="must-not-be-seen"\n')
    ):
        text = mending(asked)
        done = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, (asked.mode, done.stderr)
        assert "must-not-be-seen" not in text


@pytest.mark.parametrize("kind", ["standin", "sglang"])
def test_what_serves_is_asked_with_its_key_whatever_takes_its_place(
    desired: DesiredService, kind: str, tmp_path: Path
) -> None:
    engine = desired.service.engine.model_copy(update={"kind": kind})
    other = replace(desired, service=desired.service.model_copy(update={"engine": engine}))
    for text in (script(Cutover(other, None, "swap")), mending(Cutover(other, None, "swap"))):
        key_of = "key_of() {" + text.split("key_of() {")[1].split("\n}")[0] + "\n}\n"
        (tmp_path / "env").write_text('A="1"\nVLLM_API_KEY="a\\"b\\\\c"\nNOT_VLLM_API_KEY="2"\n')
        subprocess.run(["sh", "-c", f"{key_of}key_of env key"], cwd=tmp_path, check=True)
        assert (tmp_path / "key").read_text() == 'a"b\\c\n'
        (tmp_path / "env").write_text('A="1"\n')
        subprocess.run(["sh", "-c", f"{key_of}key_of env key"], cwd=tmp_path, check=True)
        assert (tmp_path / "key").read_text() == ""
