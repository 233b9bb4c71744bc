"""Steps 1-5 for a host: is the machine what the inventory says, and what makes its GPUs ready. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision import card_names
from provision.driver.archive import Prebuilt
from provision.driver.installer import Installer
from provision.host import view
from provision.host.driver import driver_plan
from provision.host.driver_checks.judge import checks_plan
from provision.host.moves import Reason
from provision.host.nodes import nodes_plan
from provision.host.reboot import reboot_plan
from provision.host.release.decide import metal_plan
from provision.host.swap import stops_plan, swapped
from provision.plan import RECORD_ANEW, Item, Plan, Refusal, Step, join, make_seen
from provision.spec import Machine

_CHECK = "correct the inventory, or look at the machine with: lspci -Dnn -d 10de:"


def host_plan(
    machine: Machine,
    snapshot: Snapshot,
    held: Sequence[Prebuilt | Installer] = (),
    more: Sequence[Reason] = (),
) -> Plan:
    """Steps 1-5: refusals, notes and, on a managed machine, what changes the metal. A machine that is not managed is
    only looked at: its GPUs must be ready. ``held`` are the drivers that the controller has prebuilt; ``more`` are
    further reasons to boot."""
    refusals: list[Refusal] = []
    notes: list[str] = []
    for part in (_root, _tools, _gpus, _driver, _mounts):
        try:
            part(machine, snapshot, refusals, notes)
        except CouldNotLook as error:
            refusals.append(_unseen(machine, error))
    plans = [Plan(machine.name, (), tuple(refusals), tuple(notes))]
    if machine.managed:
        reasons: tuple[Reason, ...] = ()
        exchange = False
        driver = driver_plan(machine, snapshot, held)
        plans.append(driver)
        try:
            released, reasons = metal_plan(machine, snapshot)
            exchange = swapped(released.items) is not None
            plans += [stops_plan(machine, snapshot, released.items), released]
        except CouldNotLook as error:
            if _unseen(machine, error) not in refusals:
                plans.append(Plan(machine.name, (), (_unseen(machine, error),)))
        reasons = (*reasons, *(reason for reason in more if reason not in reasons))
        plans.append(checks_plan(machine, snapshot, driver, bool(reasons)))
        plans += [nodes_plan(machine, snapshot, anew=exchange), reboot_plan(machine, snapshot, reasons)]
    else:
        plans.append(checks_plan(machine, snapshot, Plan(machine.name), False))
    return join(machine.name, plans)


def pending(plan: Plan) -> tuple[Item, ...]:
    """The items after which GPUs and device nodes are other than the snapshot says."""
    return tuple(item for item in plan.items if Step.RELEASE <= item.step <= Step.DEVICE_NODES)


def _unseen(machine: Machine, error: CouldNotLook) -> Refusal:
    return Refusal(
        f"machine {machine.name}",
        str(error),
        "what could not be looked at is never taken for absent",
        make_seen(error),
    )


def _root(machine: Machine, snapshot: Snapshot, refusals: list[Refusal], notes: list[str]) -> None:
    code, output = snapshot.command("id-u")
    if code != 0 or output.strip() != "0":
        refusals.append(
            Refusal(
                f"machine {machine.name}",
                f"the connection has user id {output.strip() or '?'}",
                "containers, units and /var/lib/kpro belong to root",
                "set ssh=Ssh(user='root', …), or run kpro as root for the machine itself",
            )
        )


def _tools(machine: Machine, snapshot: Snapshot, refusals: list[Refusal], notes: list[str]) -> None:
    missing = [tool for tool in view.TOOLS if not snapshot.has_tool(tool)]
    packages = {"flock": "util-linux"}
    if any(guest.backend == "lxc" for guest in machine.guests):
        missing += [tool for tool in view.LXC_TOOLS if not snapshot.has_tool(tool)]
        built = all(snapshot.data("stat", path) is not None for path in view.container_roots(machine))
        if not built and not snapshot.has_tool(view.ROOT_TOOL):
            missing.append(view.ROOT_TOOL)
            packages[view.ROOT_TOOL] = view.ROOT_TOOL
    if any(guest.backend == "pct" for guest in machine.guests) and not snapshot.has_tool("pct"):
        refusals.append(
            Refusal(
                f"machine {machine.name}",
                "the program pct is not there",
                "backend='pct' needs a Proxmox host",
                "use backend='lxc' on a plain Debian or Ubuntu host",
            )
        )
    if missing:
        names = sorted(
            {packages.get(tool, "lxc" if tool.startswith("lxc") else "coreutils") for tool in missing}
        )
        refusals.append(
            Refusal(
                f"machine {machine.name}",
                f"missing programs: {', '.join(missing)}",
                "containers are made and entered with them",
                f"apt-get install {' '.join(names)}",
            )
        )


def _gpus(machine: Machine, snapshot: Snapshot, refusals: list[Refusal], notes: list[str]) -> None:
    try:
        functions = view.pci_functions(snapshot)
    except CouldNotLook:
        if machine.gpus:
            raise
        notes.append("no PCI bus to read, and no GPU wanted")
        return
    there = {function.bdf: function for function in functions if function.is_gpu}
    models, names = view.models(snapshot), view.bus_names(snapshot)
    if machine.gpu_count is not None and machine.gpu_count != len(there):
        refusals.append(
            Refusal(
                "machine.gpu_count",
                f"the inventory says {machine.gpu_count} NVIDIA GPUs, the machine has {len(there)}"
                + (f" ({', '.join(map(str, there))})" if there else ""),
                "a GPU that is missing or not known of must not go unnoticed",
                _CHECK,
            )
        )
    for index, gpu in enumerate(machine.gpus):
        function = there.get(Bdf.parse(gpu.bdf))
        where = f"machine.gpus[{index}].bdf"
        if function is None:
            refusals.append(
                Refusal(
                    where,
                    f"no NVIDIA GPU at {gpu.bdf}"
                    + (f"; GPUs are at {', '.join(map(str, there))}" if there else ""),
                    "a wrong address would hand over another device",
                    _CHECK,
                )
            )
        elif function.driver != "nvidia" and not _is_made_ready(machine):
            refusals.append(
                Refusal(
                    where,
                    f"{gpu.bdf} is bound to {function.driver or 'no driver'}",
                    "only a GPU on the nvidia driver can be passed into a container, and this machine's "
                    "bindings are left as they are",
                    f"bind it to nvidia (it must not be in use by a virtual machine): "
                    f"lspci -Dnnk -s {gpu.bdf}",
                )
            )
        bdf = Bdf.parse(gpu.bdf)
        device = f"10de:{function.device.removeprefix('0x')}" if function is not None else None
        named = models.get(bdf) or names.get(bdf) or device
        if not card_names.fits(gpu.model, device, models.get(bdf), names.get(bdf)):
            refusals.append(
                Refusal(
                    f"machine.gpus[{index}].model",
                    f"{gpu.bdf} is a {named}, the inventory says {gpu.model}",
                    "what was measured on one kind of GPU says nothing about another",
                    _CHECK,
                )
            )
    spare = len(there) - sum(Bdf.parse(gpu.bdf) in there for gpu in machine.gpus)
    if spare:
        notes.append(f"{spare} NVIDIA GPU(s) of the machine are not in the inventory and stay as they are")


def _driver(machine: Machine, snapshot: Snapshot, refusals: list[Refusal], notes: list[str]) -> None:
    if machine.driver is None:
        return
    found = view.driver(snapshot)
    wanted = (machine.driver.version, machine.driver.flavour)
    if found != wanted and not _is_made_ready(machine):
        seen = (
            "no NVIDIA module is loaded" if found is None else f"the loaded module is {found[0]} ({found[1]})"
        )
        refusals.append(
            Refusal(
                "machine.driver",
                f"{seen}, the inventory pins {wanted[0]} ({wanted[1]})",
                "user space in the containers must equal the module to the last digit",
                f"install {wanted[0]} on the machine, or pin what runs there",
            )
        )
    if found == wanted:
        notes.append(f"driver {wanted[0]} ({wanted[1]}) is loaded, as pinned")


def _is_made_ready(machine: Machine) -> bool:
    """Are GPUs and driver brought to what the inventory says, and not only compared with it?"""
    return machine.managed and machine.driver is not None


def _mounts(machine: Machine, snapshot: Snapshot, refusals: list[Refusal], notes: list[str]) -> None:
    for g, guest in enumerate(machine.guests):
        for m, mount in enumerate(guest.mounts):
            status = snapshot.data("stat", mount.source)
            if status is None and not snapshot.shows(mount.source):
                refusals.append(
                    Refusal(
                        f"machine.guests[{g}].mounts[{m}].source",
                        f"the record does not show {mount.source}",
                        "what could not be looked at is never taken for a folder",
                        RECORD_ANEW,
                    )
                )
            elif status is None or b"directory" not in status:
                refusals.append(
                    Refusal(
                        f"machine.guests[{g}].mounts[{m}].source",
                        f"{mount.source} is no folder of the machine",
                        "the container would not start, or show an empty folder in its place",
                        f"mkdir -p {mount.source}, or correct the path",
                    )
                )
