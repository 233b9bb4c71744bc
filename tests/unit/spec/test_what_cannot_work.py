"""Values that look well and cannot work, or would show or hide what they must not: refused at their field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from checks.errors import BadInput
from checks.report.silence import load
from provision.inventory import rules
from provision.spec import Baseline, Engine, Model, Service, Silence

COMMIT = "a" * 40
LONGEST = 131_071


def service(**values: Any) -> Service:
    usual: dict[str, Any] = {
        "name": "chat",
        "engine": Engine(kind="vllm", version="0.20.1"),
        "model": Model(repo="a/target", revision="1" * 40),
    }
    return Service(**usual | values)


def engine(repository: str) -> Engine:
    return Engine(kind="vllm", version="0.20.1", source="git", repository=repository, commit=COMMIT)


@pytest.mark.parametrize(
    "address",
    [
        "https://me:pass@host/x",
        "https://ghp_abcdefghij@host/x",
        "git://token@host/x",
        "ssh://me:pass@host/x",
        "ssh://-oProxyCommand=id/x",
    ],
)
def test_an_address_of_sources_holds_no_token_and_no_option(address: str) -> None:
    with pytest.raises(ValidationError) as told:
        engine(address)
    if "@" in address:
        assert "holds a password" in str(told.value)


@pytest.mark.parametrize("address", ["https://host/x", "ssh://git@host/x", "file:///srv/x", "git://host/a-b"])
def test_an_address_without_a_secret_is_taken(address: str) -> None:
    assert engine(address).repository == address


@pytest.mark.parametrize(
    "repo", ["../..", "a/..", "a/b--c", "a--b/c", "a/b..c", "\u00fcn/m", "a/" + "b" * 95, "a/-b", "a/b.", "a"]
)
def test_a_repository_is_one_that_the_hub_can_have_and_one_folder_is_one_repository(repo: str) -> None:
    with pytest.raises(ValidationError, match="is no repository"):
        Model(repo=repo, revision=COMMIT)


@pytest.mark.parametrize("repo", ["Qwen/Qwen3.6-27B", "z-lab/Qwen3-8B-DFlash-b16", "a/b", "a_b/c_d-e.f"])
def test_a_real_repository_is_taken(repo: str) -> None:
    assert Model(repo=repo, revision=COMMIT).directory == f"/srv/models/{repo.replace('/', '--')}@{COMMIT}"


@pytest.mark.parametrize("day", ["20270131", "2027-W05-7", "2027-1-31", "2027-02-30", ""])
def test_a_day_is_written_in_the_one_way_that_every_python_reads(day: str, tmp_path: Any) -> None:
    with pytest.raises(ValidationError, match="is no day like"):
        Silence(id="gpu.power_limit", owner="a", reason="b", until=day)
    file = tmp_path / "s.json"
    file.write_text(f'[{{"id": "gpu.power_limit", "owner": "a", "reason": "b", "until": "{day}"}}]')
    with pytest.raises(BadInput, match="until must be a date"):
        load(file)


def test_a_word_is_no_longer_than_a_program_can_be_given() -> None:
    good = service(flags=("x" * LONGEST,), environment={"A": "x" * (LONGEST - 2)})
    assert len(good.flags[0]) == LONGEST
    for longer in ({"flags": ("x" * (LONGEST + 1),)}, {"environment": {"A": "x" * (LONGEST - 1)}}):
        with pytest.raises(ValidationError, match="longer than the 131071 bytes"):
            service(**longer)
    with pytest.raises(ValidationError, match="longer than"):
        service(flags=("\u00fc" * (LONGEST // 2 + 1),))


@pytest.mark.parametrize("speed", [float("inf"), float("nan"), 0, -1])
def test_a_baseline_is_a_speed_that_something_can_have(speed: float) -> None:
    with pytest.raises(ValidationError):
        Baseline(decode_tok_s=speed, source="x")


def reasons(one: Service) -> dict[str, str]:
    return {".".join(map(str, where)): text for where, text in rules.of_service(one)}


def test_the_word_by_which_a_profile_is_known_is_no_variable_of_the_inventory() -> None:
    assert (
        "which profile runs" in reasons(service(environment={"KPRO_DIGEST": "1"}))["environment.KPRO_DIGEST"]
    )
    assert reasons(service(environment={"MY_DIGEST": "1"})) == {}


def test_a_model_is_no_drafter_of_its_own() -> None:
    same = Model(repo="a/target", revision="1" * 40)
    found = reasons(service(profile="draft-model", drafter=same))
    assert "is the model itself" in found["drafter"]
    assert "drafter" not in reasons(
        service(profile="draft-model", drafter=Model(repo="a/target", revision="2" * 40))
    )
