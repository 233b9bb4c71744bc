"""Step 6 for a plain LXC container: made, configured, started, restarted, or left alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.guest import idmap, ours, reach
from provision.guest.idmap import Ids, Mapped
from provision.guest.lxc_config import Wanted, wanted_config
from provision.guest.mounts import mounts
from provision.plan import Item, Plan, Refusal, Step
from provision.spec import Guest, Machine
from provision.stack.desired import sha256


@dataclass(frozen=True)
class Container:
    """What the acts of step 6 need: where the container lies, what its configuration is to be, whose its files are
    (``ids`` None: the machine's own root) and which folder is made for models. ``early``: it was decided while steps
    before were still to be done, and is not the configuration yet."""

    guest: Guest
    lxcpath: str
    config: str
    early: bool = False
    ids: Ids | None = None
    models: str | None = None

    @property
    def folder(self) -> str:
        return f"{self.lxcpath}/{self.guest.id}"


def lxc_plan(
    machine: Machine, guest: Guest, snapshot: Snapshot, state: str, where: str, metal: Sequence[Item]
) -> Plan:
    """What is to be done for the container, which is in this state. Raises CouldNotLook."""
    host = machine.host_name
    refusals: list[Refusal] = []
    mapped = _mapped(machine, guest, snapshot, refusals, where)
    early = bool(metal and guest.gpus)
    wanted = Wanted(machine, guest, _lxcpath(snapshot), mapped.ids if mapped else None)
    config, notes = wanted_config(wanted, snapshot, [] if early else refusals, where)
    models = machine.models if mounts(machine, guest) != guest.mounts else None
    container = Container(guest, wanted.lxcpath, config, early, wanted.ids, models)
    items: list[Item] = []

    def add(step: Step, kind: str, text: str) -> None:
        items.append(Item(step, kind, host, guest.name, text, container))

    if mapped and mapped.missing:
        text = f"give root the ids {mapped.ids} in {' and '.join(mapped.missing)}, for container {guest.id}"
        grant = idmap.GrantIds(mapped.ids.line, mapped.missing)
        items.append(Item(Step.CONTAINER, "container.ids", host, guest.name, text, grant))
    if state == "absent":
        add(
            Step.CONTAINER,
            "container.create",
            f"create container {guest.id} ({guest.suite}{', unprivileged' if mapped else ''}) in {container.folder}",
        )
        add(Step.CONTAINER, "container.start", f"start container {guest.id}")
        return Plan(machine.name, tuple(items), tuple(refusals), notes)
    code, current = snapshot.command(f"lxc-config-{guest.id}")
    if code != 0:
        raise CouldNotLook(
            f"the configuration of container {guest.id} cannot be read: {current.strip()[:200]}"
        )
    if not current.startswith(ours.mark(machine, guest)):
        refusals.append(
            Refusal(
                f"{where}.id",
                f"container {guest.id} exists and was not made for {machine.name}/{guest.name}",
                "a container that somebody else configured is not touched",
                "choose another id, or remove that container yourself",
            )
        )
        return Plan(machine.name, (), tuple(refusals))
    if _is_unprivileged(current) != guest.unprivileged:
        refusals.append(_other_owners(guest, where))
        return Plan(machine.name, (), tuple(refusals))
    if early or current != container.config:
        add(Step.CONTAINER, "container.configure", f"write the configuration of container {guest.id}")
    if state == "stopped" or reboots(metal) or stops(metal, guest):
        add(Step.CONTAINER, "container.start", f"start container {guest.id}")
    stale = (
        early or current != container.config or _started_with(snapshot, guest) not in (None, sha256(current))
    )
    if state == "running" and stale and not stops(metal, guest):
        add(Step.SERVICE, "container.restart", f"restart container {guest.id}: its configuration changed")
    return Plan(machine.name, tuple(items), tuple(refusals), notes)


def reboots(metal: Sequence[Item]) -> bool:
    """A container that does not start by itself is to be started again then."""
    return any(item.step is Step.REBOOT for item in metal)


def stops(metal: Sequence[Item], guest: Guest) -> bool:
    """An exchange of the driver stops it: it is started again, with what it is to be configured as then."""
    return any(item.kind == "guests.stop" and item.subject == guest.name for item in metal)


def _mapped(
    machine: Machine, guest: Guest, snapshot: Snapshot, refusals: list[Refusal], where: str
) -> Mapped | None:
    if not idmap.is_mapped(guest):
        return None
    if not snapshot.has_tool("lxc-usernsexec"):
        refusals.append(
            Refusal(
                f"{where}.unprivileged",
                "the program lxc-usernsexec is not there",
                "the container's files are unpacked with it, so that they belong to the container's own ids",
                "apt-get install lxc, or set unprivileged=False",
            )
        )
    mapped = idmap.mapped(machine, guest, snapshot, refusals, where)
    refusals += reach.unreachable(machine, guest, mapped.ids, snapshot, where)
    return mapped


def _is_unprivileged(config: str) -> bool:
    return any(line.split("=")[0].strip() == "lxc.idmap" for line in config.splitlines())


def _other_owners(guest: Guest, where: str) -> Refusal:
    there, wanted = "privileged", "unprivileged"
    if not guest.unprivileged:
        there, wanted = wanted, there
    return Refusal(
        f"{where}.unprivileged",
        f"container {guest.id} is {there}, and wanted {wanted}",
        "all its files belong to other ids, so it cannot become the other kind in place",
        f"choose another id for the new container, or remove this one first: lxc-destroy -n {guest.id}",
    )


def _lxcpath(snapshot: Snapshot) -> str:
    code, output = snapshot.command("lxc-path")
    if code != 0 or not output.strip().startswith("/"):
        raise CouldNotLook(f"lxc-config lxc.lxcpath ended with {code}: {output.strip()[:200]}")
    return output.strip()


def _started_with(snapshot: Snapshot, guest: Guest) -> str | None:
    text = snapshot.text(f"/run/kpro/guests/{guest.id}")
    return text.strip() if text else None
