"""The acts: one function for each kind of plan item. They carry out and decide nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyinfra.api.host import Host

from provision.acts import (
    assign,
    baseline,
    confirm,
    container,
    cutover,
    driver,
    driver_hold,
    driver_repository,
    engine,
    fetch,
    guests,
    kernel,
    load,
    nodes,
    reboot,
    release,
    stack,
    userspace,
    userspace_own,
)
from provision.acts.voice import Voice
from provision.plan import Item

Act = Callable[[Host, Any, Voice], None]
"""Takes the host, the item's payload and a voice for progress; raises ActFailed."""

ACTS: dict[str, Act] = {
    "assign.record": assign.record,
    "assign.rest": assign.rest,
    "assign.give": assign.give,
    "assign.list": assign.key,
    "assign.unlist": assign.key,
    "assign.wake": assign.wake,
    "release.files": release.edit_files,
    "release.regenerate": release.regenerate,
    "release.online": release.online,
    "driver.repository": driver_repository.add,
    "driver.install": driver.install,
    "driver.hold": driver_hold.hold,
    "kernel.hold": kernel.hold,
    "kernel.release": kernel.release,
    "guests.stop": guests.stop,
    "driver.load": load.load,
    "reboot": reboot.reboot,
    "reboot.confirm": confirm.confirm,
    "nodes.unit": nodes.unit,
    "nodes.make": nodes.make,
    "container.ids": container.give_ids,
    "container.create": container.create,
    "container.configure": container.configure,
    "container.start": container.start,
    "container.restart": container.restart,
    "userspace.host": userspace.host,
    "userspace.guest": userspace.guest,
    "userspace.own": userspace_own.give,
    "stack.base": stack.base,
    "stack.provcheck": stack.put_provcheck,
    "stack.uv": stack.put_uv,
    "stack.engine": engine.build_engine,
    "stack.model": stack.put_model,
    "stack.fetch": fetch.fetch,
    "stack.stage": stack.stage,
    "stack.stated": baseline.stated,
    "service.cutover": cutover.cutover,
    "service.measure": baseline.measure,
    "service.candidate": cutover.cutover,
}


def carry_out(host: Host, item: Item, voice: Voice) -> None:
    """Raises ActFailed when it did not succeed."""
    ACTS[item.kind](host, item.payload, voice)
