"""Engines, profiles and drivers are rows with a source; every profile can be rendered for every version."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.data import drivers, engines, profiles
from provision.spec import Engine, Model, Service

ROWS = [
    *engines.KINDS,
    *engines.RELEASES,
    *profiles.PROFILES,
    *(flag for profile in profiles.PROFILES for flag in profile.flags),
    *(setting for profile in profiles.PROFILES for setting in profile.settings),
    *(setting for kind in engines.KINDS for setting in kind.environment),
    *drivers.BRANCHES,
    *drivers.DRIVERS,
    *drivers.DEBIAN,
    *drivers.CUDA_FLOORS,
]
DRAFTER = Model(repo="z-lab/drafter", revision="2" * 40)


def service(kind: str, version: str, profile: str = "plain", **other: Any) -> Service:
    found = profiles.find(profile, kind)
    if found and found.drafter:
        other.setdefault("drafter", DRAFTER)
    return Service(
        name="qwen",
        engine=Engine(kind=kind, version=version),
        model=Model(repo="Qwen/Qwen3.6-27B", revision="1" * 40),
        profile=profile,
        **other,
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_every_row_has_a_source(row: Any) -> None:
    assert len(row.source.strip()) > 5
    for field in dataclasses.fields(row):
        if field.name == "why":
            assert len(row.why.strip()) > 5


@pytest.mark.parametrize(
    "keys",
    [
        [row.kind for row in engines.KINDS],
        [(row.kind, row.version) for row in engines.RELEASES],
        [(row.name, row.engine) for row in profiles.PROFILES],
        [row.version for row in drivers.DRIVERS],
        [row.branch for row in drivers.BRANCHES],
    ],
    ids=["kinds", "releases", "profiles", "drivers", "branches"],
)
def test_no_two_rows_are_about_the_same_thing(keys: list[Any]) -> None:
    assert len(set(keys)) == len(keys)


def test_every_release_is_of_a_kind_and_every_kind_has_a_plain_profile_and_a_release() -> None:
    kinds = {row.kind for row in engines.KINDS}
    assert {row.kind for row in engines.RELEASES} == kinds
    assert {row.engine for row in profiles.PROFILES} == kinds
    for kind in kinds:
        assert profiles.find("plain", kind) is not None
    for release in engines.RELEASES:
        assert Version(release.version)
        assert SpecifierSet(release.python)
        assert release.cuda is None or drivers.floor_for(release.cuda) is not None


RENDERED = [
    (profile, release)
    for profile in profiles.PROFILES
    for release in engines.RELEASES
    if profile.engine == release.kind and profile.fits(release.version)
]


@pytest.mark.parametrize(
    ("profile", "release"),
    RENDERED,
    ids=[f"{row.name}-{release.kind}-{release.version}" for row, release in RENDERED],
)
def test_every_profile_renders_for_every_version_that_can_do_it(
    profile: profiles.Profile, release: engines.Release
) -> None:
    made = service(release.kind, release.version, profile.name)
    command = engines.command(made, "/opt/kpro/envs/x")
    assert command[0].startswith("/opt/kpro/envs/x/bin/")
    assert "/srv/models/Qwen--Qwen3.6-27B@" + "1" * 40 in command
    assert command[command.index("--port") + 1] == "8000"
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--served-model-name") + 1] == "qwen"
    assert not [word for word in command if re.search(r"\{(model|host|port|name|drafter|cache)\}", word)]
    assert any(DRAFTER.directory in word for word in command) == profile.drafter
    for index, word in enumerate(command):
        if word == "--speculative-config":
            assert json.loads(command[index + 1])["method"]
    for name, value in engines.environment(made).items():
        assert re.fullmatch(r"[A-Z0-9_]+", name)
        assert "{" not in value


def test_every_profile_can_be_had_with_some_version() -> None:
    assert {id(profile) for profile, _ in RENDERED} == {id(profile) for profile in profiles.PROFILES}


def test_a_renamed_flag_is_spelled_as_the_version_knows_it() -> None:
    old = engines.command(service("sglang", "0.5.11", "sglang-mtp"), "/e")
    new = engines.command(service("sglang", "0.5.23", "sglang-mtp"), "/e")
    assert "--mamba-scheduler-strategy" in old
    assert "--mamba-radix-cache-strategy" not in old
    assert "--mamba-radix-cache-strategy" in new
    assert "--mamba-scheduler-strategy" not in new


def test_a_switch_of_an_old_version_is_set_for_that_version_only() -> None:
    for version, value in (("0.5.10.post1", "1"), ("0.5.11", None), ("0.5.23", None)):
        made = engines.environment(service("sglang", version, "sglang-mtp"))
        assert made.get("SGLANG_ENABLE_SPEC_V2") == value


def test_flags_of_the_service_come_last_and_its_variables_win() -> None:
    made = service(
        "vllm", "0.20.1", flags=("--x", "1"), environment={"HF_HUB_OFFLINE": "0", "NCCL_P2P_DISABLE": "1"}
    )
    assert engines.command(made, "/e/")[-2:] == ["--x", "1"]
    assert engines.command(made, "/e/")[0] == "/e/bin/vllm"
    assert engines.environment(made)["HF_HUB_OFFLINE"] == "0"
    assert engines.environment(made)["NCCL_P2P_DISABLE"] == "1"


def test_nothing_is_said_to_nccl_unless_the_inventory_does() -> None:
    for release in engines.RELEASES:
        assert not [
            name for name in engines.environment(service(release.kind, release.version)) if "NCCL" in name
        ]


def test_a_key_is_never_part_of_the_command() -> None:
    for row in engines.KINDS:
        assert not [word for word in row.program if "key" in word]
        assert "--api-key" in row.reserved
        assert (row.key_variable is None) == bool(row.key_reason)


def test_compiled_code_is_shared_by_equal_configurations_only() -> None:
    made = service("vllm", "0.20.1", "vllm-dflash")
    digest = engines.profile_digest(made)
    assert re.fullmatch(r"[0-9a-f]{12}", digest)
    assert engines.environment(made)["VLLM_CACHE_ROOT"] == f"/var/cache/kpro/{digest}/vllm"
    same = made.model_copy(update={"port": 9000, "name": "other"})
    assert engines.profile_digest(same) == digest
    for other in (
        service("vllm", "0.33.0", "vllm-dflash"),
        service("vllm", "0.20.1", "vllm-dflash", drafter=Model(repo="z-lab/drafter", revision="3" * 40)),
        service("vllm", "0.20.1", "vllm-dflash", flags=("--enforce-eager",)),
        service("vllm", "0.20.1"),
    ):
        assert engines.profile_digest(other) != digest


@pytest.mark.parametrize(
    ("kind", "version", "profile", "words"),
    [
        ("vlm", "0.20.1", "plain", "no engine 'vlm' is known; there are vllm"),
        ("vllm", "0.20.2", "plain", "no vllm '0.20.2' is known; there are 0.20.1, 0.33.0"),
        ("vllm", "0.20.1", "sglang-mtp", "is for sglang, not for vllm"),
        ("vllm", "0.20.1", "vllm-dflsh", "did you mean 'vllm-dflash'?"),
    ],
)
def test_what_has_no_row_is_not_started(kind: str, version: str, profile: str, words: str) -> None:
    with pytest.raises(engines.UnknownEngine, match=re.escape(words)):
        engines.command(service(kind, version, profile), "/e")


def test_a_profile_that_a_version_cannot_do_is_not_rendered() -> None:
    with pytest.raises(ValueError, match=r"needs sglang >=0\.5\.11"):
        engines.command(service("sglang", "0.5.10.post1", "sglang-dflash"), "/e")
    with pytest.raises(ValueError, match="drafts with a second model"):
        engines.command(service("vllm", "0.20.1", "vllm-dflash", drafter=None), "/e")


def test_every_known_driver_belongs_to_a_known_branch_and_has_the_form_of_a_version() -> None:
    for row in drivers.DRIVERS:
        assert drivers.VERSION_FORM.fullmatch(row.version)
        assert drivers.branch_of(row.version) is not None
        assert drivers.wrong(row.version) is None
    for carried in drivers.DEBIAN:
        assert drivers.known(carried.version)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("580.159.40", "did you mean '580.159.04'?"),
        ("580.1.1", "has not the form"),
        ("580", "has not the form"),
        ("", "has not the form"),
        ("470.256.02", "the known branches are 535"),
        ("580.200.01", "a newer one is one row with its source"),
    ],
)
def test_a_driver_without_a_row_is_refused_with_what_is_known(version: str, words: str) -> None:
    why = drivers.wrong(version)
    assert why is not None
    assert words in why


def test_versions_of_two_and_three_parts_compare_as_numbers() -> None:
    order = ["535.261.03", "550.78", "550.163.01", "580.65.06", "580.142", "580.159.04", "595.84"]
    assert sorted(order[3:] + order[:3], key=drivers.number) == order


def test_cuda_13_needs_driver_580() -> None:
    floor = drivers.floor_for("13.0")
    assert floor is not None
    assert drivers.number("580.65.06") >= drivers.number(floor.driver) > drivers.number("575.51.03")
    assert drivers.floor_for("99.0") is None
