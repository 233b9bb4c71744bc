"""The driver that a machine serves with: its use is no problem, and whether it fits is said first."""

from __future__ import annotations

import pytest

from checks.snapshot import Section, Snapshot
from provision.inspect.examine import examine
from provision.inspect.report import Report
from provision.spec import Driver, Machine
from tests.unit.inspect.test_looked_at import seen, shown


def used(report: Report) -> str:
    (finding,) = [one for one in report.findings if one.id == "driver.in-use"]
    return finding.kind


def pinned(version: str, flavour: str = "open") -> Machine:
    return Machine(
        name="kpro5", driver=Driver.model_validate({"version": version, "flavour": flavour, "route": "run"})
    )


@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        (None, "note"),
        (pinned("580.159.04"), "note"),
        (pinned("595.91.07"), "problem"),
        (pinned("580.159.04", "proprietary"), "problem"),
    ],
)
def test_a_module_in_use_is_a_problem_only_where_another_is_wanted(
    machine: Machine | None, kind: str
) -> None:
    assert used(examine(seen("kpro5"), machine, recorded=True)) == kind


def test_a_module_in_use_is_a_problem_where_another_is_installed_for_the_running_kernel() -> None:
    snapshot = seen("kpro5")
    data = snapshot.sections["cmd", "driver-modules"].data or b""
    assert b"580.159.04" in data
    other = Section("cmd", "driver-modules", data.replace(b"580.159.04", b"595.91.07"))
    changed = Snapshot({**snapshot.sections, ("cmd", "driver-modules"): other})
    assert used(examine(changed, recorded=True)) == "problem"


def test_the_loaded_driver_is_told_first_and_whether_it_fits() -> None:
    report = examine(seen("kpro5"), recorded=True)
    first = (report.gpus or ())[0].drivers[0]
    assert (first["version"], first["state"], first["fits"]) == ("580.159.04", ["loaded"], True)
    assert "580.159.04 open (loaded) fits" in shown(report)


def test_a_pinned_driver_that_does_not_fit_is_told_first_too() -> None:
    report = examine(seen("kpro5-locked"), pinned("550.163.01"), recorded=True)
    first = (report.gpus or ())[0].drivers[0]
    assert (first["version"], first["state"], first["fits"]) == ("550.163.01", ["pinned"], False)
    lines = [line for line in shown(report).splitlines() if line.strip().startswith("fits")]
    assert "550.163.01 open (pinned): does not compile" in lines[0]


def test_without_a_driver_loaded_or_pinned_the_newest_that_fits_comes_first() -> None:
    report = examine(seen("kpro5-locked"), recorded=True)
    assert not any(row["state"] for gpu in report.gpus or () for row in gpu.drivers)
    assert all(gpu.drivers[0]["fits"] for gpu in report.gpus or ())
