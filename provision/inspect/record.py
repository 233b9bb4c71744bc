"""``provision record HOST DIR``: looks at a machine, and writes what it saw as a tree."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from checks.snapshot import CouldNotLook, Snapshot
from provision import inventory as inventories
from provision.host import view
from provision.host.observe import observe
from provision.inspect import recording
from provision.inspect.recording import free
from provision.inspect.requests import RECORDED, once, requests
from provision.inventory.here import as_far_as_here
from provision.plan import PHASES
from provision.planner import requests as planned
from provision.printable import say_on_stderr
from provision.run import runner
from provision.run.commands import Answer, finish
from provision.run.errors import EXIT_DONE, RunError
from provision.run.together import together
from provision.spec import Machine
from provision.spec_ssh import machine_name, ssh_of

LOCAL = "@local"


def record(host: str, target: Path, limit: Sequence[str], as_json: bool) -> int:
    """The exit code: 0, 1 when the machine cannot be looked at or the tree not be written, 2 for a wrong name."""
    return finish(lambda: _record(host, target, limit), "record", as_json)


def _record(host: str, target: Path, limit: Sequence[str]) -> Answer:
    together(lambda: free(target), lambda: meant(host, limit))
    with connected(host, limit) as (run, machine, known):
        metal = run.session.host(machine.host_name)
        first = observe(metal, once([*planned(machine), *requests(machine), *RECORDED]))
        second = observe(metal, _states(first))
        snapshot = Snapshot({**first.sections, **second.sections})
        guests, why = _guests(run, machine, snapshot) if known else ({}, [])
    done = recording.write(target, snapshot, guests)
    done = replace(done, lost=[*done.lost, *why])
    _say(machine, target, done)
    return Answer(
        EXIT_DONE,
        {
            "machine": machine.name,
            "folder": str(target),
            "files": done.files,
            "removed": dict(done.removed),
            "not_recorded": list(done.lost),
        },
    )


def meant(host: str, limit: Sequence[str]) -> None:
    """Raises InventoryRefused and ValueError where the word names no machine; nothing is connected to."""
    if _inventory(host, limit) is None:
        bare(host)


def _guests(run: runner.Run, machine: Machine, snapshot: Snapshot) -> tuple[dict[str, Snapshot], list[str]]:
    """What a plan looks at in the guests that run, and why it could not be."""
    running = []
    for guest in machine.guests:
        with suppress(CouldNotLook):
            running += [guest.name] if view.guest_state(snapshot, guest) == "running" else []
    if not running:
        return {}, []
    try:
        seen = run.session.observed(machine).guests
    except (RunError, ValueError, OSError) as error:
        return {}, [f"guests {', '.join(running)}: {error}"]
    return {name: one for name, one in seen.items() if one is not None}, []


def _say(machine: Machine, target: Path, done: recording.Recorded) -> None:
    removed = ", ".join(f"{number} x {kind}" for kind, number in done.removed.items()) or "nothing"
    say_on_stderr(f"{machine.name}: {done.files} files in {target}; taken out: {removed}")
    for line in done.lost:
        say_on_stderr(f"  not recorded: {line}")
    say_on_stderr(f"look at it with: provision inspect --sysroot {target}")


@contextmanager
def connected(host: str, limit: Sequence[str]) -> Iterator[tuple[runner.Run, Machine, bool]]:
    """The machine that a word means: one of an inventory of that name, else what ssh or this machine is. The last
    value: does an inventory describe it?"""
    loaded = _inventory(host, limit)
    if loaded is not None:
        machines = loaded.selected(limit).machines
        if len(machines) != 1:
            names = ", ".join(machine.name for machine in machines)
            raise ValueError(f"{host} has {len(machines)} machines ({names}): name one with --limit")
        # What is looked at in a guest goes by what would be done to it, and a look needs no file of that.
        machine = as_far_as_here(*machines)
        with _connected(loaded.path, machine, host) as run:
            yield run, machine, True
        return
    if limit:
        raise ValueError(f"--limit selects from an inventory, and {host} is none")
    machine = bare(host)
    with tempfile.TemporaryDirectory(prefix="kpro-record-") as folder:
        path = Path(folder) / "inventory.py"
        path.write_text(_inventory_text(machine))
        with _connected(path, machine, host) as run:
            yield run, machine, False


def _inventory(host: str, limit: Sequence[str]) -> inventories.Inventory | None:
    """None: no inventory is called so. Raises InventoryRefused for one that is wrong."""
    if host == LOCAL or "@" in host:
        return None
    try:
        inventories.find(host)
    except inventories.InventoryRefused:
        if host.endswith(".py") or "/" in host:
            raise
        return None
    return inventories.load(host, limit, files="none")


def bare(host: str) -> Machine:
    """A machine that no inventory describes: ``@local``, or ``[user@]host[:port]`` of ssh. Raises ValueError."""
    if host == LOCAL:
        return Machine(name="local", managed=True)
    ssh = ssh_of(host)
    if ssh is None:
        raise ValueError(
            f"{host!r} is no host: give an inventory's name, [user@]host[:port] for ssh, or {LOCAL}"
        )
    return Machine(name=machine_name(ssh.host), ssh=ssh)


def _inventory_text(machine: Machine) -> str:
    """What pyinfra reads in place of an inventory."""
    fields = [f"name={machine.name!r}"]
    if machine.ssh is not None:
        given = {"host": machine.ssh.host, "user": machine.ssh.user, "port": machine.ssh.port}
        fields.append(
            "ssh=Ssh(" + ", ".join(f"{key}={value!r}" for key, value in given.items() if value) + ")"
        )
    return (
        "from provision.spec import Machine, Ssh\n\n"
        f"metal, guests = Machine({', '.join(fields)}).pyinfra_groups()\n"
    )


@contextmanager
def _connected(path: Path, machine: Machine, host: str) -> Iterator[runner.Run]:
    with runner.connected(
        path,
        limit=[machine.host_name],
        phases=PHASES,
        reason=f"look at {host}",
        say=say_on_stderr,
        machines={machine.name: machine},
    ) as run:
        yield run


def _states(seen: Snapshot) -> list[str]:
    """What can be asked only once it is known which containers there are."""
    found = []
    for path in seen.paths("file"):
        proxmox = re.fullmatch(r"/etc/pve/(?:nodes/[^/]+/)?lxc/(\d+)\.conf", path)
        plain = re.fullmatch(r"/var/lib/lxc/([A-Za-z0-9][\w.-]*)/config", path)
        if proxmox:
            found.append(f"cmd:pct-status-{proxmox[1]}:pct status {proxmox[1]}")
        if plain:
            name = plain[1]
            found.append(f"cmd:lxc-info-{name}:lxc-info -n {name} -sH")
            found.append(f'cmd:lxc-config-{name}:cat "$(lxc-config lxc.lxcpath)/{name}/config"')
            found.append(f"file:/run/kpro/guests/{name}")
    return list(dict.fromkeys(found))
