"""Step 3, the install: is the pinned driver in place for the kernel that runs and the one that will boot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.data import drivers
from provision.data.driver_routes import APT_ROUTES, ASKING_ROUTES
from provision.data.kernels import verdict
from provision.driver.archive import Prebuilt
from provision.driver.installer import Installer
from provision.host import (
    apt_asked,
    boot,
    driver_hold,
    driver_repository,
    driver_seen,
    kernels,
    view,
)
from provision.host.driver_against import ROUTES
from provision.host.driver_case import Case, cuda, in_place, installer
from provision.host.driver_foreign import foreign
from provision.host.flavour import flavour_refusals
from provision.plan import Item, Plan, Refusal, Step, make_seen
from provision.spec import Machine

WHERE = "machine.driver"


@dataclass(frozen=True)
class Install:
    """The driver to put in place for the ``kernels`` that lack it; ``archives`` (route prebuilt) are one for each of
    them; ``signed``: the kernel takes no module without a signature; ``trial``: those of the kernels of which nobody
    reported whether the driver compiles there; ``installer`` (route run) is the controller's."""

    route: str
    version: str
    flavour: str
    kernels: tuple[str, ...]
    archives: tuple[Prebuilt, ...] = ()
    signed: bool = False
    trial: tuple[str, ...] = ()
    installer: Installer | None = None


def requests(machine: Machine) -> list[str]:
    """What the snapshot has to look at for this machine's driver."""
    if machine.driver is None or not machine.managed:
        return []
    wanted = [*driver_seen.requests(), *kernels.REQUESTS]
    if machine.driver.route == "run":
        wanted.append(f"stat:{cuda(machine.driver)}")
    if machine.driver.route in ASKING_ROUTES:
        wanted += ["file:/etc/os-release", *apt_asked.requests(machine.driver)]
    return wanted


def driver_plan(machine: Machine, snapshot: Snapshot, held: Sequence[Prebuilt | Installer] = ()) -> Plan:
    """``driver.install`` where the pin is not in place, or every reason why it cannot be. ``held`` are the prebuilt
    archives of the controller."""
    driver = machine.driver
    if driver is None or not machine.managed:
        return Plan(machine.name)
    refusals: list[Refusal] = []
    missing: tuple[str, ...] = ()
    holding: list[Refusal] = []
    items: tuple[Item, ...] = ()
    case: Case | None = None
    try:
        wrong = drivers.wrong(driver.version)
        if wrong:
            refusals.append(
                Refusal(f"{WHERE}.version", wrong, "what is not known cannot be trusted", "correct the pin")
            )
        else:
            refusals += flavour_refusals(machine, view.pci_functions(snapshot) if machine.gpus else ())
        case = Case(
            machine,
            driver,
            snapshot,
            held,
            kernels.to_be_ready(snapshot),
            driver_seen.modules(snapshot),
            driver_seen.packages(snapshot),
        )
        missing = tuple(kernel for kernel in case.kernels if not in_place(case, kernel))
        if missing and not wrong:
            against, holding = _judged(case, missing)
            refusals += against
            missing = tuple(kernel for kernel in missing if not holding or kernel == case.kernels[0])
        if not refusals:
            items = (
                *_boots(case, holding),
                *((*_before(case), _item(case, missing)) if missing else _loose(case)),
            )
    except CouldNotLook as error:
        refusals.append(
            Refusal(
                f"machine {machine.name}",
                str(error),
                "a driver that could not be looked at is never taken for absent",
                make_seen(error),
            )
        )
    if case is None or refusals:
        return Plan(machine.name, (), tuple(refusals))
    notes = [
        f"kernel {case.kernels[-1]} is not booted yet, {wrong.seen}. Next: {wrong.next_step}"
        for wrong in holding
    ]
    if not boot.kernels(snapshot) and kernels.following(snapshot) is None:
        notes.append(
            f"which kernel boots next cannot be told: none is seen in /boot; the driver is looked after for "
            f"{case.kernels[0]} alone, which runs"
        )
    if not missing:
        ready = ", ".join(case.kernels[:1] if holding else case.kernels)
        notes.append(f"driver {case.pin} is in place for {ready} (route {driver.route})")
    return Plan(machine.name, tuple(sorted(items, key=_order)), (), tuple(notes))


def _order(item: Item) -> int:
    kinds = ("kernel.hold", "driver.repository", "driver.install", "driver.hold", "kernel.release")
    return kinds.index(item.kind)


def _before(case: Case) -> tuple[Item, ...]:
    """What has to be there before the packages can be asked for."""
    if case.driver.route != "nvidia" or not apt_asked.repository_is_unknown(case.snapshot):
        return ()
    return (driver_repository.item(case.machine, case.driver, case.snapshot),)


def _loose(case: Case) -> tuple[Item, ...]:
    """Packages of a driver in place that an upgrade would take along."""
    if case.driver.route not in APT_ROUTES:
        return ()
    loose = driver_hold.loose(case.driver, case.system, case.snapshot)
    return (driver_hold.item(case.machine, loose),) if loose else ()


def _judged(case: Case, missing: tuple[str, ...]) -> tuple[list[Refusal], list[Refusal]]:
    """What speaks against installing it, and what speaks only against a kernel that does not run yet: that one is not
    booted into until it has a driver."""
    running = tuple(kernel for kernel in missing if kernel == case.kernels[0])
    wrong = _against(case, missing)
    if not wrong or running == missing:
        return wrong, []
    now = _against(case, running) if running else []
    later = [refusal for refusal in wrong if refusal not in now]
    cannot = kernels.against_holding(case.snapshot)
    if now or not later or cannot is None:
        return now, later
    arriving = ", ".join(kernel for kernel in missing if kernel not in running)
    why = Refusal(
        f"machine {case.machine.name}",
        f"kernel {arriving} boots next, and {cannot}",
        "it would boot without a driver",
        "give it a driver as said, remove that kernel, or choose which one boots yourself",
    )
    return [*wrong, why], []


def _against(case: Case, wanted: tuple[str, ...]) -> list[Refusal]:
    route = case.driver.route
    return foreign(route, case.snapshot, case.modules, case.packages) + ROUTES[route](case, wanted)


def _boots(case: Case, holding: Sequence[Refusal]) -> tuple[Item, ...]:
    """What the boot loader has to be told. Raises CouldNotLook."""
    if holding:
        item = kernels.hold(case.machine, case.snapshot, ", ".join(case.kernels[1:]))
    else:
        item = kernels.release(case.machine, case.snapshot)
    return (item,) if item else ()


def _item(case: Case, missing: tuple[str, ...]) -> Item:
    driver = case.driver
    archives: tuple[Prebuilt, ...] = ()
    if driver.route == "prebuilt":
        archives = tuple(Prebuilt(driver.version, driver.flavour, kernel) for kernel in missing)
    compiled = driver.route in ("debian", "nvidia")
    trial = tuple(k for k in missing if compiled and verdict(driver.version, k).answer == "unknown")
    first = f", compiled on trial first for {', '.join(trial)}" if trial else ""
    return Item(
        Step.DRIVER,
        "driver.install",
        case.machine.host_name,
        case.pin,
        f"install driver {driver.version} ({driver.flavour}, route {driver.route}) for kernel "
        f"{', '.join(missing)}{first}",
        Install(
            driver.route,
            driver.version,
            driver.flavour,
            missing,
            archives,
            driver_seen.must_be_signed(case.snapshot),
            trial,
            installer(case) if driver.route == "run" else None,
        ),
    )
