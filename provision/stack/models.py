"""Step 8, model files: are they there, whole, and where do they go. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from checks.snapshot import Snapshot
from provision.guest.mounts import MODELS, models, mounts, on_machine
from provision.plan import Item, Refusal, Step
from provision.spec import Guest, Machine
from provision.stack import fetching
from provision.stack.desired import MANIFEST, DesiredModel, DesiredService
from provision.stack.fetching import Answers

_SIZES = "find . -type f -printf '%s %P\\n'"
_OWN_ROOT = f"cmd:models-device:stat -c %d / {MODELS}"


@dataclass(frozen=True)
class ModelPut:
    """What the act of putting a model needs; ``directory``: where, on the host that the item names."""

    model: DesiredModel
    directory: str


def host_requests(machine: Machine) -> list[str]:
    """What the snapshot of the machine has to look at: models lie there."""
    there = [
        place
        for guest in machine.guests
        if guest.managed
        for path in models(guest)
        if (place := on_machine(machine, guest, path)) is not None
    ]
    return [*(request for place in there for request in _look(place)), *fetching.host_requests(machine)]


def requests(services: Sequence[DesiredService]) -> list[str]:
    """What the snapshot of a guest has to look at: models that are expected there, or on a volume of its own."""
    return [
        _OWN_ROOT,
        *(request for desired in services for model in desired.models for request in _look(model.directory)),
        *(
            request
            for desired in services
            for model in desired.models
            if model.spec is not None and model.spec.origin in fetching.FETCHED
            for request in fetching.requests(model.directory)
        ),
    ]


def _look(directory: str) -> list[str]:
    return [
        f"file:{directory}/{MANIFEST}",
        f"cmd:sizes-{directory}:cd {_quoted(directory)} && {_SIZES}",
    ]


def _quoted(path: str) -> str:
    """As one word of a shell."""
    return "'" + path.replace("'", "'\\''") + "'"


def model_items(
    machine: Machine,
    guest: Guest,
    desired: DesiredService,
    host: Snapshot,
    inside: Snapshot | None,
    refusals: list[Refusal],
    where: str,
    answers: Answers | None = None,
    notes: list[str] | None = None,
    arriving: Collection[str] = (),
) -> list[Item]:
    """What is to be put or fetched, on the machine or, where the guest has a volume of its own, inside. Raises
    CouldNotLook."""
    items = []
    for model in desired.models:
        if model.directory in arriving:
            continue
        place = on_machine(machine, guest, model.directory)
        if model.spec is not None and model.spec.origin in fetching.FETCHED:
            seen, directory = (inside, model.directory) if place is None else (host, place)
            name = machine.guest_host_name(guest) if place is None else machine.host_name
            said = [] if notes is None else notes
            found = fetching.fetch_items(
                machine, model, f"{where}.{model.role}", name, directory, seen, answers or {}, refusals, said
            )
            if found and place is None and inside is not None and _in_own_root(inside):
                refusals.append(_own_root(machine, guest, where))
            items += found
            continue
        if model.manifest is None:
            # Which of a Proxmox container's folders are there is known inside only.
            by, path = (host, place) if place and guest.backend == "lxc" else (inside, model.directory)
            if by is not None and by.text(f"{path}/{MANIFEST}") is None:
                refusals.append(_missing(f"{path}/{MANIFEST}", by is host, where))
            continue
        seen, directory = (inside, model.directory) if place is None else (host, place)
        name = machine.guest_host_name(guest) if place is None else machine.host_name
        current = seen.text(f"{directory}/{MANIFEST}") if seen is not None else None
        if current == model.manifest and seen is not None:
            if _whole(model, directory, seen):
                continue
            text = f"put again what is missing or damaged in {directory}"
        elif current is not None:
            refusals.append(
                Refusal(
                    f"{where}.model",
                    f"{directory} is there with other contents than {model.folder}",
                    "one revision has one content",
                    "correct revision or folder, or remove the files yourself",
                )
            )
            continue
        else:
            text = f"put and verify {directory}"
        if place is None and inside is not None and _in_own_root(inside):
            refusals.append(_own_root(machine, guest, where))
        items.append(Item(Step.STACK, "stack.model", name, directory, text, ModelPut(model, directory)))
    return items


def hidden(machine: Machine, guest: Guest, where: str) -> list[Refusal]:
    """A mount below the machine's folder of models, which is read-only: LXC could not make its place there."""
    given = mounts(machine, guest)
    if given == guest.mounts:
        return []
    return [
        Refusal(
            f"{where}.mounts[{index}]",
            f"{mount.target} lies below {MODELS}, and other models come from {machine.models}",
            "the container would not start",
            f"mount a folder that holds all of its models at {MODELS}, or set Machine(models=…) to it",
        )
        for index, mount in enumerate(guest.mounts)
        if mount.target.startswith(f"{MODELS}/")
    ]


def _whole(model: DesiredModel, directory: str, seen: Snapshot) -> bool:
    """Every file is there in its size. (The checksums were verified when the files were put.)"""
    _, output = seen.command(f"sizes-{directory}")
    there = {path: size for size, _, path in (line.partition(" ") for line in output.splitlines())}
    wanted = json.loads(model.manifest or "{}")
    return all(there.get(path) == str(entry["size"]) for path, entry in wanted.items())


def _missing(path: str, on_the_machine: bool, where: str) -> Refusal:
    return Refusal(
        f"{where}.model",
        f"{path} is not {'on the machine' if on_the_machine else 'in the guest'}, and the inventory names no folder "
        "to copy from",
        "model files without a manifest are not known to be whole",
        "set Model(source='hub') to have them fetched, Model(folder=…) to have them copied, or mount a folder of the "
        "machine that holds them",
    )


def _in_own_root(inside: Snapshot) -> bool:
    """Is what would be put in the same file system as the guest's root, or is its folder not there yet?"""
    code, output = inside.command("models-device")
    return code != 0 or len(set(output.split())) < 2


def _own_root(machine: Machine, guest: Guest, where: str) -> Refusal:
    return Refusal(
        f"{where}.model",
        f"{MODELS} lies in the root of container {guest.id}",
        "model files are large, and every backup of the container would hold them",
        f"give it a folder of the machine: Mount(source={machine.models!r}, target={MODELS!r}) in the inventory, and "
        f"pct set {guest.id} -mp0 {machine.models},mp={MODELS},backup=0,replicate=0,ro=1",
    )
