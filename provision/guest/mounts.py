"""Which folders of the machine a guest has, and where on the machine a path of the guest lies. Pure.

Model files are large, shared and replaceable: they lie on the machine, where several containers read the same ones, and
never in a container's own root, whose backup would hold them.
"""

from __future__ import annotations

from provision.spec import Guest, Machine, Mount

MODELS = "/srv/models"
"""Where a guest finds its models."""


def mounts(machine: Machine, guest: Guest) -> tuple[Mount, ...]:
    """The inventory's, and before them the machine's folder of models where a service of ours has models that none of
    those holds. (A Proxmox container gets its folders from its operator, and one that is not managed keeps its own.)"""
    if (
        guest.backend != "lxc"
        or not guest.managed
        or all(_covering(guest.mounts, path) for path in models(guest))
    ):
        return guest.mounts
    return (Mount(source=machine.models, target=MODELS, read_only=True), *guest.mounts)


def models(guest: Guest) -> list[str]:
    """The folders, inside, of the models of its services and of what is tried instead."""
    found = [
        model.directory
        for service in guest.services
        for tried in (service, service.candidate)
        for model in (service.model, tried.drafter if tried else None)
        if model is not None
    ]
    return list(dict.fromkeys(found))


def on_machine(machine: Machine, guest: Guest, path: str) -> str | None:
    """Where a path of the guest lies on the machine; None: in the guest's own root, or on a volume of its own."""
    mount = _covering(mounts(machine, guest), path)
    return None if mount is None else f"{mount.source.rstrip('/')}{path[len(mount.target.rstrip('/')) :]}"


def _covering(given: tuple[Mount, ...], path: str) -> Mount | None:
    """The innermost mount that holds the path."""
    holding = [
        mount for mount in given if path == mount.target or path.startswith(f"{mount.target.rstrip('/')}/")
    ]
    return max(holding, key=lambda mount: len(mount.target), default=None)
