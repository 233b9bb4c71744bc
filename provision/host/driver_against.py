"""What speaks against putting a driver in place by its route, for the kernels that lack it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from checks.snapshot import Snapshot
from provision.data import drivers
from provision.data.kernels import known_failure
from provision.driver.archive import Prebuilt
from provision.host import apt_asked, driver_repository, driver_seen
from provision.host.driver_case import Case, installer
from provision.host.driver_seen import os_release
from provision.plan import Refusal

WHERE = "machine.driver"


def _does_not_build(case: Case, kernels: Sequence[str]) -> list[Refusal]:
    rows = [(kernel, known_failure(case.driver.version, kernel)) for kernel in kernels]
    return [
        Refusal(
            f"{WHERE}.version",
            f"driver {case.driver.version} does not compile on kernel {kernel}: {row.why} ({row.source})",
            "the kernel would boot without a driver",
            f"use {row.instead}",
        )
        for kernel, row in rows
        if row
    ]


def _prebuilt(case: Case, missing: Sequence[str]) -> list[Refusal]:
    there = {*case.held, *driver_seen.archives(case.snapshot)}
    refusals = []
    if not case.snapshot.has_tool("zstd"):
        refusals.append(
            Refusal(
                f"machine {case.machine.name}",
                "the program zstd is not there",
                "a prebuilt driver is a zstd archive",
                "apt-get install zstd",
            )
        )
    for kernel in missing:
        if Prebuilt(case.driver.version, case.driver.flavour, kernel) in there:
            continue
        known = _does_not_build(case, (kernel,))
        refusals += known or [
            Refusal(
                f"{WHERE}.route",
                f"there is no prebuilt driver {case.pin} for kernel {kernel}",
                "this route compiles nothing on the machine",
                f"provision build-driver --driver {case.driver.version} --kernel {kernel} "
                f"--flavour {case.driver.flavour}{_suite(case.snapshot)}",
            )
        ]
    return refusals


def _suite(snapshot: Snapshot) -> str:
    name = codename(snapshot)
    return f" --suite {name}" if name in {row.suite for row in drivers.DEBIAN} else ""


def codename(snapshot: Snapshot) -> str:
    """VERSION_CODENAME of /etc/os-release."""
    return os_release(snapshot).get("VERSION_CODENAME", "")


def _debian(case: Case, missing: Sequence[str]) -> list[Refusal]:
    return _does_not_build(case, missing) + apt_asked.refusals(case.snapshot, case.driver)


def _nvidia(case: Case, missing: Sequence[str]) -> list[Refusal]:
    return [
        *_does_not_build(case, missing),
        *driver_repository.refusals(case.snapshot),
        *apt_asked.refusals(case.snapshot, case.driver),
    ]


def _ubuntu(case: Case, missing: Sequence[str]) -> list[Refusal]:
    """Nothing is compiled: which kernels have modules is what apt says."""
    if case.system != "ubuntu":
        return [
            Refusal(
                f"{WHERE}.route",
                f"route 'ubuntu' takes the modules that Ubuntu signed, and this machine is {case.system or 'unknown'}",
                "they are built for Ubuntu's kernels alone",
                "use route='nvidia' or 'debian'",
            )
        ]
    return apt_asked.refusals(case.snapshot, case.driver)


def _run(case: Case, missing: Sequence[str]) -> list[Refusal]:
    wrong = [Refusal(f"{WHERE}.installer", *reason) for reason in installer(case).wrong()]
    return [*wrong, *_does_not_build(case, missing), *apt_asked.refusals(case.snapshot, case.driver)]


ROUTES: dict[str, Callable[[Case, Sequence[str]], list[Refusal]]] = {
    "debian": _debian,
    "nvidia": _nvidia,
    "prebuilt": _prebuilt,
    "run": _run,
    "ubuntu": _ubuntu,
}
"""The routes that kpro installs by: each says what speaks against an install for the kernels that lack the driver."""
