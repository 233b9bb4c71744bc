"""Can the engines of the machine's guests run on the driver? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from provision.data import drivers
from provision.host import view
from provision.host.driver_checks.scene import Said, Scene
from provision.host.fitting import cuda_of, too_old_for
from provision.plan import Refusal
from provision.spec import Engine, Machine


def judge(scene: Scene) -> Said:
    """Judged is the pinned driver; without a pin the loaded one."""
    loaded = None if scene.driver else view.driver(scene.snapshot)
    version = scene.driver.version if scene.driver else loaded[0] if loaded else None
    if version is None or drivers.VERSION_FORM.fullmatch(version) is None:
        return
    for where, engine in engines_of(scene.machine):
        cuda = cuda_of(engine)
        floor, made_with = (drivers.floor_for(cuda), drivers.driver_of(cuda)) if cuda else (None, None)
        short = too_old_for(version, engine)
        if short and floor:
            newer = (
                f"pin a driver {floor.driver} or newer"
                if scene.driver
                else "install a newer driver on the machine"
            )
            yield Refusal(
                f"{where}.engine",
                short,
                "the engine would end with 'CUDA driver version is insufficient' after everything else was done",
                f"{newer}, or use an engine of an older CUDA",
            )
        elif made_with and drivers.number(version) < drivers.number(made_with.driver):
            yield (
                f"{where}.engine: {engine.kind} {engine.version} brings CUDA {cuda}, made with driver "
                f"{made_with.driver}; {version} runs it by minor-version compatibility, without compiling its PTX"
            )


def engines_of(machine: Machine) -> Iterator[tuple[str, Engine]]:
    """The engines of guests that have GPUs, candidates too, by the path of their field."""
    for g, guest in enumerate(machine.guests):
        for s, service in enumerate(guest.services if guest.gpus else ()):
            where = f"machine.guests[{g}].services[{s}]"
            yield where, service.engine
            if service.candidate:
                yield f"{where}.candidate", service.candidate.engine
