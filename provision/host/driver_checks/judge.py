"""Everything beside the driver itself that speaks against an install or a reboot, all reasons at once. Pure."""

from __future__ import annotations

from collections.abc import Callable

from checks.snapshot import CouldNotLook, Snapshot
from provision.host.driver_checks import (
    archive,
    branch,
    engines,
    fabric,
    headers,
    holds,
    mixed,
    modules,
    secure_boot,
    seen,
)
from provision.host.driver_checks.scene import Said, Scene
from provision.plan import Plan, Refusal
from provision.spec import Machine

JUDGES: dict[str, Callable[[Scene], Said]] = {
    "branch": branch.judge,
    "archive": archive.judge,
    "engines": engines.judge,
    "secure boot": secure_boot.judge,
    "headers": headers.judge,
    "other modules": modules.judge,
    "mixed drivers": mixed.judge,
    "holds": holds.judge,
    "fabric manager": fabric.judge,
}
"""One question each; each answers for itself, so that one that cannot look hides none of the others."""

WITHOUT_A_PIN = ("other modules",)
"""What is judged before a reboot of a machine whose driver is not kpro's."""


def requests(machine: Machine) -> list[str]:
    """What the snapshot has to look at for these judges."""
    return list(seen.REQUESTS) if machine.managed else []


def checks_plan(machine: Machine, snapshot: Snapshot, driver: Plan, rebooting: bool) -> Plan:
    """What speaks against carrying out ``driver``, the plan of the driver itself, and against a reboot. What could not
    be looked at is refused where something is about to change, and told where nothing is."""
    if not machine.managed or (machine.driver is None and not rebooting):
        return Plan(machine.name)
    installing = any(item.kind == "driver.install" for item in driver.items) or bool(driver.refusals)
    scene = Scene(machine, snapshot, installing, rebooting)
    refusals: list[Refusal] = []
    notes: list[str] = []
    for name, judge in JUDGES.items():
        if machine.driver is None and name not in WITHOUT_A_PIN:
            continue
        try:
            for said in judge(scene):
                if isinstance(said, Refusal):
                    refusals.append(said)
                else:
                    notes.append(said)
        except CouldNotLook as error:
            if installing or rebooting:
                refusals.append(
                    Refusal(
                        f"machine {machine.name}",
                        f"{name}: {error}",
                        "what could not be looked at is never taken for well",
                        "make it readable for the user that kpro connects as, then run again",
                    )
                )
            else:
                notes.append(f"{name} could not be judged: {error}")
    return Plan(machine.name, (), tuple(refusals), tuple(notes))
