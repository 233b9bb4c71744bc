"""Which driver compiles on which kernel: what is reported, what follows from it, and what nobody knows."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.data import drivers, kernels
from provision.data.kernels import BUILDS, DOES_NOT_BUILD, known_failure, release, verdict

VERSIONS = sorted((row.version for row in drivers.DRIVERS), key=drivers.number)
ROWS = (*BUILDS, *DOES_NOT_BUILD)


@pytest.mark.parametrize(
    ("version", "kernel", "answer"),
    [
        ("550.163.01", "6.12.117+deb13-amd64", "fails"),
        ("550.163.01", "6.12.118+deb13-amd64", "fails"),
        ("550.163.01", "6.12.107+deb13-amd64", "works"),
        ("580.105.08", "6.12.117+deb13-amd64", "works"),
        ("550.163.01", "6.8.12-4-pve", "works"),
        ("550.54.14", "6.8.0-51-generic", "works"),
        ("535.261.03", "6.8.12-4-pve", "unknown"),
        ("535.261.03", "6.1.0-50-amd64", "works"),
        ("570.148.08", "6.14.11-4-pve", "unknown"),
        ("580.105.08", "6.14.11-4-pve", "works"),
        ("550.163.01", "6.17.13-2-pve", "fails"),
        ("555.58.02", "6.17.13-2-pve", "fails"),
        ("580.82.07", "6.17.13-2-pve", "fails"),
        ("580.95.05", "6.17.13-2-pve", "fails"),
        ("580.105.08", "6.17.13-2-pve", "works"),
        ("580.119.02", "6.17.2-1-pve", "works"),
        ("580.119.02", "7.0.9-1-cachyos", "fails"),
        ("580.105.08", "7.0.2-7-pve", "fails"),
        ("580.142", "7.0.12_1", "works"),
        ("580.178.04", "7.0.14-15-pve", "works"),
        ("590.48.01", "7.0.14-15-pve", "fails"),
        ("595.71.05", "7.0.14-15-pve", "unknown"),
        ("610.43.02", "7.0.2-7-pve", "works"),
        ("580.142", "7.1.2-1", "fails"),
        ("580.159.04", "7.1.2-1", "works"),
        ("590.48.01", "7.1.2-1", "fails"),
        ("580.173.02", "7.2.6-zen2", "fails"),
        ("580.178.04", "7.2.6-zen2", "works"),
        ("595.91.07", "7.2.0", "works"),
        ("610.43.02", "7.2.0-rc2", "fails"),
        ("610.57.04", "7.2.0", "works"),
        ("610.57.04", "7.3.4-bpo-amd64", "unknown"),
        ("550.163.01", "7.3.4-bpo-amd64", "fails"),
        ("580.178.04", "garbage", "unknown"),
    ],
)
def test_what_is_known_of_a_driver_on_a_kernel(version: str, kernel: str, answer: str) -> None:
    found = verdict(version, kernel)
    assert found.answer == answer, found
    assert (known_failure(version, kernel) is not None) == (answer == "fails")
    assert bool(found.instead) == (answer == "fails")


@given(
    st.sampled_from(VERSIONS), st.integers(1, 9), st.integers(0, 30), st.integers(0, 200), st.integers(0, 9)
)
def test_a_driver_that_a_kernel_broke_is_broken_on_every_later_series(
    version: str, major: int, minor: int, patch: int, more: int
) -> None:
    row = known_failure(version, f"{major}.{minor}.{patch}")
    if row is not None and row.kernel.count(".") == 1:
        assert known_failure(version, f"{major}.{minor + more}.0") or more == 0
        assert known_failure(version, f"{major + 1}.0.{patch}")


@given(st.sampled_from(VERSIONS), st.sampled_from([row.kernel for row in BUILDS]), st.integers(0, 3))
def test_what_compiles_on_a_kernel_compiles_on_an_older_one_unless_it_is_known_to_fail(
    version: str, kernel: str, back: int
) -> None:
    if verdict(version, f"{kernel}.0").answer == "works":
        major, minor = (int(part) for part in kernel.split("."))
        assert verdict(version, f"{major}.{max(minor - back, 0)}.0").answer != "unknown"


def test_no_pair_is_in_both_tables_for_the_same_kernel() -> None:
    for row in BUILDS:
        for failure in DOES_NOT_BUILD:
            if release(failure.kernel) == release(row.kernel):
                known = [version for version in VERSIONS if row.fits(version, row.kernel)]
                assert not [version for version in known if failure.fits(version, row.kernel)], (row, failure)


def test_every_row_has_a_source_and_names_kernels_and_drivers_in_their_forms() -> None:
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", kernels.CHECKED)
    for row in ROWS:
        assert len(row.source) > 10
        assert release(row.kernel), row
        assert drivers.number(row.first) <= drivers.number(row.last or "999.0"), row
    for failure in DOES_NOT_BUILD:
        named = re.findall(r"\d{3}\.[\d.]*\d", failure.instead)
        assert named, failure
        assert all(verdict(version, f"{failure.kernel}").answer == "works" for version in named), failure


def test_a_kernel_release_is_read_by_its_numbers() -> None:
    assert release("6.17.13-2-pve") == (6, 17, 13)
    assert release("6.8.0-51-generic") == (6, 8, 0)
    assert release("7.1") == (7, 1, 0)
    assert release("pve") is None
