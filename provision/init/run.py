"""Looks at a host over a connection of its own, describes it, writes the file."""

from __future__ import annotations

import contextlib
import datetime
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks import pack
from checks.snapshot import CouldNotLook, Snapshot
from provision.adopt import process
from provision.host import view
from provision.host.observe import observe
from provision.init import describe, host, measure
from provision.init.describe import Description
from provision.init.host import Container
from provision.init.write import inventory_text
from provision.listening import url
from provision.plan import PHASES
from provision.run import runner
from provision.run.errors import RunError
from provision.spec import Baseline, Guest, Machine, Ssh


@dataclass(frozen=True)
class Asked:
    """What ``provision init`` was asked for. ``ssh`` None: the machine that it runs on."""

    ssh: Ssh | None
    name: str
    output: Path
    baseline: bool


def init(asked: Asked, say: Callable[[str], None]) -> Description:
    """Raises RunError, CouldNotLook; FileExistsError when the file is there already."""
    if asked.output.exists():
        raise FileExistsError(f"{asked.output} is there already: remove it, or name another with --output")
    bare = Machine(name=asked.name, ssh=asked.ssh, managed=False)
    with _connected(bare, say) as run:
        metal = run.session.host(bare.host_name)
        snapshot = _metal(metal, bare)
        running = [one for one in host.containers(snapshot) if one.state == "running"]
    guests: dict[str, tuple[Snapshot, Snapshot]] = {}
    baselines: dict[tuple[str, str], Baseline] = {}
    entered = bare.model_copy(update={"guests": tuple(_spec(one, at) for at, one in enumerate(running))})
    with _connected(entered, say) as run:
        for guest, container in zip(entered.guests, running, strict=True):
            inside = run.session.host(entered.guest_host_name(guest))
            first = observe(inside, process.REQUESTS)
            guests[container.id] = first, observe(inside, describe.model_requests(first))
            if asked.baseline:
                for unit, rate in _measured(inside, container, first, say):
                    baselines[container.id, unit] = rate
    found = describe.describe(asked.name, asked.ssh, snapshot, guests, baselines)
    _write(asked.output, inventory_text(found, _docstring(found.machine)))
    return found


def _metal(metal: Any, machine: Machine) -> Snapshot:
    snapshot = observe(metal, host.requests(machine))
    code, output = snapshot.command("id-u")
    if code != 0 or output.strip() != "0":
        raise RunError(
            f"the connection to {machine.name} has user id {output.strip() or '?'}: containers can be looked into by "
            "root only; name the user, as in root@host"
        )
    return snapshot


def _spec(container: Container, at: int) -> Guest:
    return Guest(name=f"g{at}", backend=container.backend, id=container.id, managed=False)


def _measured(
    inside: Any, container: Container, first: Snapshot, say: Callable[[str], None]
) -> Iterator[tuple[str, Baseline]]:
    listening = view.listeners(first)
    for unit, started in describe.unit_of(container, first):
        if started.port not in listening:
            say(f"no baseline of {unit} in {container.id}: nothing listens on port {started.port} yet")
            continue
        say(f"measuring {unit} in {container.id}: a few requests to it, up to {measure.SECONDS} s")
        # One that listens on its guest's address alone is not to be found on loopback.
        rate = measure.decode_tok_s(inside, pack.cached(), url(started.listen, started.port), say)
        if rate is not None:
            today = datetime.datetime.now(datetime.UTC).date().isoformat()
            source = f"provcheck serve, one request at a time, by provision init on {today}"
            yield unit, Baseline(decode_tok_s=rate, source=source)


@contextlib.contextmanager
def _connected(machine: Machine, say: Callable[[str], None]) -> Iterator[runner.Run]:
    """A connection for a machine that no file describes: pyinfra wants one, so it gets one for as long as it lasts."""
    with tempfile.TemporaryDirectory(prefix="kpro-init-") as folder:
        path = Path(folder) / "inventory.py"
        path.write_text(inventory_text(Description(machine), "A look."))
        with runner.connected(path, phases=PHASES, reason=f"init {machine.name}", say=say) as run:
            yield run


def _docstring(machine: Machine) -> str:
    services = sum(len(guest.services) for guest in machine.guests)
    return (
        f"{machine.name}: as it was found; {len(machine.gpus)} GPU(s), {len(machine.guests)} container(s), "
        f"{services} engine service(s). Nothing of it is changed by kpro (managed=False)."
    )


def _write(path: Path, text: str) -> None:
    """In one step, and never over a file that came meanwhile. Raises RunError when it cannot be written."""
    try:
        path.parent.mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            path.hardlink_to(temporary)
        finally:
            Path(temporary).unlink()
    except FileExistsError as error:
        raise FileExistsError(f"{path} came meanwhile, and is left as it is") from error
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror or error}") from error


__all__ = ["Asked", "CouldNotLook", "init"]
