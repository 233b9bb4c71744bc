"""What the two inventories of the model say."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from provision.spec import Engine, ExtraPath, Guest, Hooks, Machine, Migration, Model, Service, Ssh

Role = Literal["source", "target"]
ROLES: tuple[Role, Role] = ("source", "target")
EXTRA = "/opt/data/chat"
"""A folder of the guest that moves too, where one does; it lies in a mount of the machine, /srv/data."""


def service(role: Role, folder: Path, *, extra: bool) -> Service:
    hook = str(folder / "bin/hook")
    hooks = Hooks(
        drain=(hook, "drain"),
        switch=(hook, "switch"),
        back=(hook, "back"),
        check=(hook, "check"),
        deadline_seconds=5,
    )
    migration = Migration(
        traffic=hooks,
        extra_paths=[ExtraPath(path=EXTRA, why="its templates")] if extra else [],
        watch_seconds=5,
    )
    return Service(
        name="chat",
        engine=Engine(kind="standin", version="1.0.0"),
        model=Model(repo="kpro/tiny", revision="1" * 40),
        port=9,
        ready_seconds=1,
        migration=migration if role == "target" else None,
    )


def machine(role: Role, name: str, number: int, one: Service) -> Machine:
    guest = Guest(
        name="llm",
        backend="lxc",
        id="llm",
        unprivileged=False,
        mounts=[
            {"source": "/srv/data", "target": "/opt/data"},
            {"source": "/srv/models", "target": "/srv/models"},
        ],
        services=[one],
    )
    return Machine(name=name, ssh=Ssh(host=f"192.0.2.{number}", user="root"), guests=[guest])
