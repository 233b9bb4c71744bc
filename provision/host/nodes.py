"""Step 5: what every boot does for the GPUs, and their device nodes now. Pure."""

from __future__ import annotations

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.host import assigned, view
from provision.host.moves import Edits, FileEdit
from provision.host.release.state import hands
from provision.plan import Item, Plan, Refusal, Step, make_seen
from provision.spec import Machine
from provision.stack.desired import sha256
from provision.templates import render

SERVICE = "kpro-devices.service"
UNIT = f"/etc/systemd/system/{SERVICE}"
LINK = f"/etc/systemd/system/multi-user.target.wants/{SERVICE}"
SCRIPT = "/var/lib/kpro/devices.sh"
NODES = "/dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools"


def requests(machine: Machine) -> list[str]:
    """What the snapshot has to look at for this step."""
    return [
        f"file:{UNIT}",
        f"file:{SCRIPT}",
        f"link:{LINK}",
        # A pattern that matches nothing stays as it is, and stat says that it is not there.
        f'cmd:device-nodes:stat -c "%n %t %T %F" {NODES} 2>/dev/null; :',
    ]


def nodes_plan(machine: Machine, snapshot: Snapshot, *, anew: bool = False) -> Plan:
    """The boot unit as it must be, enabled; every node of the machine's GPUs a device with the right numbers. ``anew``:
    another driver comes before, which may count otherwise."""
    if not machine.managed:
        return Plan(machine.name)
    try:
        if not machine.gpus and not assigned.read(snapshot):
            return Plan(machine.name)
        items = [item for item in (_unit(machine, snapshot), _make(machine, snapshot, anew)) if item]
        return Plan(machine.name, tuple(items), tuple(_files_in_the_way(machine, snapshot)))
    except CouldNotLook as error:
        refusal = Refusal(
            f"machine {machine.name}",
            str(error),
            "what every boot does for the GPUs cannot be told",
            make_seen(error),
        )
        return Plan(machine.name, (), (refusal,))


def kept(machine: Machine, snapshot: Snapshot) -> tuple[Bdf, ...]:
    """GPUs that the driver must not take: the inventory does not name them, and they are not the driver's now or stay
    with virtual machines. Raises CouldNotLook."""
    return tuple(sorted(hands(machine, snapshot).aside))


def _unit(machine: Machine, snapshot: Snapshot) -> Item | None:
    files = []
    script = render(
        "kpro-devices.sh.j2",
        machine=machine.name,
        wanted=" ".join(str(Bdf.parse(gpu.bdf)) for gpu in machine.gpus),
        kept=" ".join(map(str, kept(machine, snapshot))),
        root="",
    )
    unit = render("kpro-devices.service.j2", machine=machine.name, script=SCRIPT)
    for path, text, mode in ((SCRIPT, script, "700"), (UNIT, unit, "644")):
        now = snapshot.file(path)
        if now != text.encode():
            before = None if now is None else sha256(now)
            files.append(FileEdit(path, before, text.encode(), "what every boot does for the GPUs", mode))
    enabled = snapshot.data("link", LINK) is not None
    if enabled and not files:
        return None
    return Item(
        Step.DEVICE_NODES,
        "nodes.unit",
        machine.host_name,
        SERVICE,
        f"{SERVICE}: device nodes at every boot, before guests start",
        Edits(tuple(files)),
    )


def _make(machine: Machine, snapshot: Snapshot, anew: bool) -> Item | None:
    """Planned too when the nodes cannot be looked at: making them again harms nothing."""
    if not machine.gpus:
        return None
    try:
        if not anew and _all_there(machine, snapshot):
            return None
    except CouldNotLook:
        pass
    return Item(
        Step.DEVICE_NODES,
        "nodes.make",
        machine.host_name,
        "/dev/nvidia*",
        "make the device nodes of the GPUs",
    )


def _all_there(machine: Machine, snapshot: Snapshot) -> bool:
    minors, majors = view.minors(snapshot), view.majors(snapshot)
    main, uvm = majors.get("nvidia") or majors.get("nvidia-frontend"), majors.get("nvidia-uvm")
    bdfs = [Bdf.parse(gpu.bdf) for gpu in machine.gpus]
    if main is None or uvm is None or any(bdf not in minors for bdf in bdfs):
        return False
    needed = {f"/dev/nvidia{minors[bdf]}": (main, minors[bdf]) for bdf in bdfs}
    needed |= {"/dev/nvidiactl": (main, 255), "/dev/nvidia-uvm": (uvm, 0), "/dev/nvidia-uvm-tools": (uvm, 1)}
    there = {path: numbers for path, numbers, kind in _nodes(snapshot) if kind == "character special file"}
    return all(there.get(path) == numbers for path, numbers in needed.items())


def _nodes(snapshot: Snapshot) -> list[tuple[str, tuple[int, int], str]]:
    """Path, major and minor, kind of file. Raises CouldNotLook when it was not looked at."""
    output = snapshot.command("device-nodes")[1]
    lines = [line.split(" ", 3) for line in output.splitlines() if line.startswith("/dev/")]
    return [
        (path, (int(major, 16), int(minor, 16)), kind)
        for path, major, minor, kind in (line for line in lines if len(line) == 4)
    ]


def _files_in_the_way(machine: Machine, snapshot: Snapshot) -> list[Refusal]:
    """A container's bind mount, or a touch, can leave a plain file where the device belongs."""
    try:
        nodes = _nodes(snapshot)
    except CouldNotLook:
        return []
    return [
        Refusal(
            path,
            f"a {kind} is where the device node belongs",
            "containers would be given it in place of the GPU",
            f"find out who made it, then: rm {path}",
        )
        for path, _, kind in nodes
        if kind.startswith("regular")
    ]
