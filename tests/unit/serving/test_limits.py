"""Thresholds have usual values, and a service may have its own."""

from __future__ import annotations

import pytest

from checks.cli import main
from checks.errors import BadInput
from checks.serving.baseline import Baseline
from checks.serving.limits import Limits, overridden
from checks.serving.observation import Observation
from checks.serving.report import report

PAGE = (
    'vllm:generation_tokens_total{e="0"} 1010\nvllm:request_decode_time_seconds_sum{e="0"} 10\n'
    'vllm:request_decode_time_seconds_count{e="0"} 10\n'
)
SEEN = Observation(after=PAGE)


def _speed(rate: float, limits: Limits | None = None) -> str:
    found = report(SEEN, (Baseline("b", tok_s=rate),), None, limits)
    return next(finding.status.value for finding in found.findings if finding.id == "serve.speed")


@pytest.mark.parametrize(
    ("rate", "status"), [(100, "pass"), (111, "pass"), (112, "warn"), (124, "warn"), (126, "fail")]
)
def test_speed_against_a_baseline(rate: float, status: str) -> None:
    assert _speed(rate) == status


def test_a_service_may_have_its_own_limit() -> None:
    assert _speed(126, overridden(["speed_fail=0.7"])) == "warn"
    assert _speed(126, overridden(["speed_fail=0.7", "speed_warn=0.75"])) == "pass"


@pytest.mark.parametrize(
    "pair", ["speed=0.7", "speed_fail", "speed_fail=x", "speed_fail=-1", "speed_fail=nan", "=1"]
)
def test_a_limit_that_is_none_is_refused_with_the_list(pair: str) -> None:
    with pytest.raises(BadInput, match="speed_fail"):
        overridden([pair])


def _with(length: float, prompts: str | None, window: dict[str, object] | None) -> str | None:
    accepted = round((length - 1) * 1000)
    page = (
        'vllm:spec_decode_num_drafts_total{e="0"} 1000\nvllm:spec_decode_num_draft_tokens_total{e="0"}'
        ' 7000\nvllm:spec_decode_num_accepted_tokens_total{e="0"}'
        f' {accepted}\nvllm:generation_tokens_total{{e="0"}} {1000 + accepted}\n'
    )
    base = Baseline("b", engine="vllm", method="unknown", length=4.0, prompts=prompts)
    log = "INFO non-default args: {'speculative_config': {'method': 'unknown', 'num_speculative_tokens': 7}}"
    found = report(Observation(after=page, window=window, log=log), (base,))
    return next((f.status.value for f in found.findings if f.id == "serve.acceptance_baseline"), None)


def test_lengths_are_held_against_lengths_of_the_same_prompts() -> None:
    ours = {"prompts": "shipped", "prompts_version": 1}
    assert _with(3.7, "shipped/1", ours) == "pass"
    assert _with(3.5, "shipped/1", ours) == "warn"
    assert _with(3.1, "shipped/1", ours) == "fail"
    assert _with(3.1, None, None) == "fail"
    assert _with(3.1, "shipped/2", ours) == "skip"


def test_live_traffic_against_fixed_prompts_warns_late_and_never_fails() -> None:
    assert _with(3.5, "shipped/1", None) == "pass"
    assert _with(2.5, "shipped/1", None) == "warn"


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["http://127.0.0.1:1", "--replay", "x"],
        ["--replay", "x", "--passive"],
        ["--replay", "x", "--record", "y"],
        ["--replay", "x", "--host", "kpro5"],
        ["--replay", "/nowhere/at/all"],
        ["http://127.0.0.1:1", "--since", "x"],
        ["http://127.0.0.1:1", "--log", "a", "--unit", "b"],
        ["http://127.0.0.1:1", "--unit", "-x;reboot", "--wait", "0"],
        ["http://127.0.0.1:1", "--concurrency", "4,many"],
        ["http://127.0.0.1:1", "--limit", "speed=1"],
        ["http://user:pw@127.0.0.1:1"],
        ["ftp://127.0.0.1"],
    ],
)
def test_a_wrong_call_is_one_line_a_mistake_and_exit_2(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *args]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    # A record "x" is not there either.
    assert len(lines) == (2 if "--replay" in args and "x" in args else 1)
    assert all(line.startswith("provcheck: ") for line in lines)
