"""The profiles that kpro ships, against the tables: every line it would write is one that the version takes."""

from __future__ import annotations

import pytest

from checks.flags.assess import report
from checks.flags.table import history
from checks.model import Status
from provision.data.engines import RELEASES
from provision.data.profiles import PROFILES, Profile

LINES = [
    (profile, release.version)
    for profile in PROFILES
    for release in RELEASES
    if release.kind == profile.engine
    and profile.engine in ("vllm", "sglang")
    and release.version in history(profile.engine).versions
    and profile.fits(release.version)
]


@pytest.mark.parametrize(("profile", "version"), LINES, ids=[f"{p.name}-{p.engine}-{v}" for p, v in LINES])
def test_a_profile_is_a_line_that_its_engine_version_takes(profile: Profile, version: str) -> None:
    variables = [f"{setting.name}=x" for setting in profile.variables(version)]
    model = ["--model-path", "m"] if profile.engine == "sglang" else ["m"]
    line = [*variables, profile.engine, "serve", *model, *profile.words(version, "/drafter")]
    findings = report(f"{profile.engine}=={version}", line, parser="table").findings
    assert [f.message for f in findings if f.status is not Status.PASS] == []


def test_profiles_of_both_engines_and_of_several_versions_are_judged() -> None:
    assert {profile.engine for profile, _ in LINES} == {"vllm", "sglang"}
    assert len({version for _, version in LINES}) >= 4
