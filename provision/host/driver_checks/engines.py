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
    for where, engine in _engines(scene.machine):
        short = too_old_for(version, engine)
        cuda = cuda_of(engine)
        made_with = drivers.driver_of(cuda) if cuda else None
        if short:
            yield Refusal(
                f"{where}.engine",
                short,
                "the engine would end with 'CUDA driver version is insufficient' after everything else was done",
                f"pin a driver {drivers.floor_for(cuda).driver} or newer, or an engine of an older CUDA"  # type: ignore[arg-type,union-attr]
                if scene.driver
                else "install a newer driver on the machine, or use an engine of an older CUDA",
            )
        elif made_with and drivers.number(version) < drivers.number(made_with.driver):
            yield (
                f"{where}.engine: {engine.kind} {engine.version} brings CUDA {cuda}, made with driver "
                f"{made_with.driver}; {version} runs it by minor-version compatibility, without compiling its PTX"
            )


def _engines(machine: Machine) -> Iterator[tuple[str, Engine]]:
    for g, guest in enumerate(machine.guests):
        for s, service in enumerate(guest.services if guest.gpus else ()):
            where = f"machine.guests[{g}].services[{s}]"
            yield where, service.engine
            if service.candidate:
                yield f"{where}.candidate", service.candidate.engine
