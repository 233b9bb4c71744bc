"""Step 6 for a Proxmox container: made, configured, started, restarted, or left alone. Pure.

A container is ours to configure when the inventory names its id: what it lacks is added and shown, what stands there
is left. Lines that kpro put there are known from a record on the machine (``record_path``), for a comment beside them
would move to the top of the file with Proxmox's next write.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from checks.snapshot import CouldNotLook, Snapshot
from provision.guest.plain import reboots, stops
from provision.guest.proxmox import source, storage, wanted
from provision.guest.proxmox.create import Creation, creation
from provision.guest.proxmox.edit import Edited, edit
from provision.guest.proxmox.grammar import Conf, parse
from provision.guest.proxmox.judge import findings
from provision.guest.proxmox.judge import stops as stopping
from provision.guest.proxmox.text import is_normal
from provision.host import view
from provision.plan import Item, Plan, Refusal, Step
from provision.spec import Guest, Machine
from provision.stack.desired import sha256

AT_ONCE = ("onboot", "startup", "hostname", "tags", "swap", "memory", "cores")
"""A running container has these at once (PVE::LXC::Config, vmconfig_hotplug_pending)."""
HOTPLUG = (6, 0, 4)
"""The first pve-container that gives a new devN to a running container."""

DUE, STARTED = "configured", "started"
"""What the mark under /run says: configured and not started since, or started by kpro."""


@dataclass(frozen=True)
class ProxmoxContainer:
    """What the acts need. ``before`` is the sha256 of the file that was decided on. ``way``: with ``pct set`` and a
    raw edit of the rest, or all by ``write``, where Proxmox would re-order the file. ``restart``: a running container
    has it at its next start only. ``early``: decided while steps before were still to be done."""

    guest: Guest
    before: str | None = None
    edited: Edited | None = None
    way: Literal["set", "write"] = "set"
    restart: bool = False
    early: bool = False
    creation: Creation | None = None

    @property
    def path(self) -> str:
        return conf_path(self.guest.id)


def conf_path(id: str) -> str:
    return f"/etc/pve/lxc/{id}.conf"


def record_path(id: str) -> str:
    """The lines that kpro put into a container's configuration, as they stand there."""
    return f"/var/lib/kpro/guests/{id}"


def mark_path(id: str) -> str:
    return f"/run/kpro/guests/{id}"


def requests(machine: Machine) -> list[str]:
    """What the snapshot has to look at besides what every container needs."""
    guests = [guest for guest in machine.guests if guest.backend == "pct" and guest.managed]
    if not guests:
        return []
    found = [f"file:{storage.FILE}", "cmd:pve-container:dpkg-query -W -f '${Version}' pve-container"]
    found += wanted.requests(machine)
    for guest in guests:
        found += [f"file:{record_path(guest.id)}", f"file:{mark_path(guest.id)}", *source.requests(guest)]
    return found


def proxmox_plan(
    machine: Machine, guest: Guest, snapshot: Snapshot, state: str, where: str, metal: Sequence[Item]
) -> Plan:
    """What is to be done for the container, which is in this state. Raises CouldNotLook."""
    if state == "absent":
        return _absent(machine, guest, snapshot, where)
    text = snapshot.text(conf_path(guest.id))
    if text is None:
        raise CouldNotLook(f"{conf_path(guest.id)} is not there, though the container is {state}")
    conf = parse(text)
    refusals, notes = _judged(machine, guest, conf, snapshot, where)
    early = bool(guest.gpus) and any(item.step <= Step.REBOOT or _makes_nodes(item) for item in metal)
    needs = wanted.needs(machine, guest, snapshot, conf, where, early)
    ours = frozenset((_file(snapshot, record_path(guest.id)) or "").splitlines())
    edited = edit(text, needs.wanted, ours, guest.id)
    refusals += [*needs.refusals, *(Refusal(where, *wrong) for wrong in edited.wrong)]
    refusals += _protected(guest, conf, edited, where)
    notes += [*needs.notes, *(f"{guest.name}: {note}" for note in edited.notes)]
    way: Literal["set", "write"] = "set" if is_normal(text) else "write"
    restart = _restarts(edited, way, _hotplugs(snapshot))
    container = ProxmoxContainer(guest, sha256(text), edited, way, restart, not needs.exact)
    changed = edited.text != text or early
    items = _items(machine, guest, container, changed, state, metal)
    due = restart or early or edited.pending or _file(snapshot, mark_path(guest.id)) == f"{DUE}\n"
    if state == "running" and due and not stops(metal, guest):
        why = f"restart container {guest.id}: its configuration changed"
        items.append(Item(Step.SERVICE, "container.restart", machine.host_name, guest.name, why, container))
    return Plan(machine.name, tuple(items), tuple(refusals), tuple(notes))


def _items(
    machine: Machine,
    guest: Guest,
    container: ProxmoxContainer,
    changed: bool,
    state: str,
    metal: Sequence[Item],
) -> list[Item]:
    items = []
    if changed:
        text = f"configure container {guest.id}: {told(container)}"
        items.append(
            Item(Step.CONTAINER, "container.configure", machine.host_name, guest.name, text, container)
        )
    if state == "stopped" or reboots(metal) or stops(metal, guest):
        text = f"start container {guest.id}"
        items.append(Item(Step.CONTAINER, "container.start", machine.host_name, guest.name, text, container))
    return items


def told(container: ProxmoxContainer) -> str:
    """Every line that changes, in a few words."""
    edited = container.edited
    if container.early or edited is None:
        return "its device nodes, by the minors that its GPUs have then, its mounts and limits"
    changes = [f"{key} {value}" for key, value in edited.options.items()]
    changes += [f"{key} {value}" for key, value in edited.lines]
    changes += [f"without {key}" for key in (*edited.delete, *edited.dropped)]
    by_hand = (
        " (written to the file itself, for pct set would re-order it)" if container.way == "write" else ""
    )
    return "; ".join(changes) + by_hand


def _absent(machine: Machine, guest: Guest, snapshot: Snapshot, where: str) -> Plan:
    made = creation(guest)
    if made is None:
        bridge = guest.network.removeprefix("bridge:") if guest.network.startswith("bridge:") else "vmbr0"
        refusal = Refusal(
            where,
            f"Proxmox container {guest.id} does not exist",
            "the inventory does not say on which storage, from which template and with how much memory to make it",
            f"set proxmox=Proxmox(...) for it, or pct create {guest.id} <template> --hostname {guest.name} "
            f"--unprivileged {int(guest.unprivileged)} --features nesting=1 --rootfs <storage>:64 "
            f"--net0 name=eth0,bridge={bridge},ip=dhcp",
        )
        return Plan(machine.name, (), (refusal,))
    wrong = stopping(findings(parse(made.text)))
    refusals = [
        Refusal(f"{where}.proxmox", found.seen, found.why, "correct the inventory") for found in wrong
    ]
    refusals += wanted.weights(guest, parse(""), where)
    lacks, notes = source.missing(guest, snapshot, where)
    refusals += lacks
    container = ProxmoxContainer(guest, early=True, creation=made)
    texts = {
        "container.create": f"create container {guest.id}"
        f"{' (unprivileged)' if guest.unprivileged else ''} from {made.template} on {made.rootfs}",
        "container.configure": f"configure container {guest.id}: {told(container)}",
        "container.start": f"start container {guest.id}",
    }
    items = [
        Item(Step.CONTAINER, kind, machine.host_name, guest.name, text, container)
        for kind, text in texts.items()
    ]
    return Plan(machine.name, tuple(items), tuple(refusals), tuple(notes))


def _makes_nodes(item: Item) -> bool:
    return item.kind == "nodes.make"


def _judged(
    machine: Machine, guest: Guest, conf: Conf, snapshot: Snapshot, where: str
) -> tuple[list[Refusal], list[str]]:
    found = findings(conf, view.majors(snapshot))
    hard = stopping(found)
    path = conf_path(guest.id)
    refusals = [Refusal(f"{path}:{one.line}", one.seen, one.why, one.next_step) for one in hard]
    notes = [f"{path}:{one.line}: {one.seen}; {one.why}. {one.next_step}" for one in found if one not in hard]
    lacks = [key for key in ("arch", "ostype", "rootfs") if key not in conf.effective()]
    if lacks:
        # PVE::LXC, update_lxc_config: it dies of each.
        refusals.append(
            Refusal(
                path,
                f"it does not say {', '.join(lacks)}",
                "the container does not start without; a file that was cut short has lost more than that",
                f"look at it (pct config {guest.id}), and restore it",
            )
        )
    lock = conf.value("lock")
    if lock is not None:
        refusals.append(
            Refusal(
                path,
                f"container {guest.id} is locked ({lock})",
                "Proxmox is at work on it",
                f"wait until it is done, then run again (one that nobody holds any more: pct unlock {guest.id})",
            )
        )
    if conf.is_true("template"):
        refusals.append(
            Refusal(
                path, f"container {guest.id} is a template", "a template never starts", "choose another id"
            )
        )
    if conf.is_true("unprivileged") != guest.unprivileged:
        there, written = ("unprivileged", "privileged")[:: 1 if conf.is_true("unprivileged") else -1]
        refusals.append(
            Refusal(
                f"{where}.unprivileged",
                f"container {guest.id} is {there}, and {written} in the inventory",
                "it cannot be changed after it was made, for all its files belong to other ids",
                f"set unprivileged={conf.is_true('unprivileged')}, or choose another id",
            )
        )
    return refusals, notes


def _protected(guest: Guest, conf: Conf, edited: Edited, where: str) -> list[Refusal]:
    mounts = [key for key in edited.options if key.startswith("mp")]
    if not mounts or not conf.is_true("protection"):
        return []
    return [
        Refusal(
            where,
            f"container {guest.id} has protection: 1",
            f"Proxmox adds no mount point to it, and {', '.join(mounts)} is needed",
            f"pct set {guest.id} -protection 0",
        )
    ]


def _restarts(edited: Edited, way: str, hotplugs: bool) -> bool:
    """Does a running container get any of it at its next start only?"""
    for key in edited.options:
        if key in AT_ONCE and way == "set":
            continue
        new_device = re.fullmatch("dev[0-9]+", key) is not None and key not in edited.changed
        if key in ("onboot", "startup") or (new_device and hotplugs and way == "set"):
            continue
        return True
    return bool(edited.delete or edited.lines or edited.dropped)


def _hotplugs(snapshot: Snapshot) -> bool:
    try:
        code, output = snapshot.command("pve-container")
    except CouldNotLook:
        return False
    found = re.match(r"([0-9]+)\.([0-9]+)\.([0-9]+)", output.strip())
    return code == 0 and found is not None and tuple(map(int, found.groups())) >= HOTPLUG


def _file(snapshot: Snapshot, path: str) -> str | None:
    """What kpro itself keeps; nothing where it was not looked at: then no line counts as its own."""
    try:
        return snapshot.text(path)
    except CouldNotLook:
        return None
