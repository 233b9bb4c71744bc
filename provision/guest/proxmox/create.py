"""How a container is made that is not there: the words of ``pct create``, and what they make. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from provision.spec import Guest

TAG = "kpro"
"""Says in Proxmox's own lists who made it. A comment would become the description, which is the operator's."""


@dataclass(frozen=True)
class Creation:
    """``options`` are keys of the configuration; ``rootfs`` is the form that only the command line has
    (STORAGE:GIB)."""

    id: str
    template: str
    rootfs: str
    options: tuple[tuple[str, str], ...]

    @property
    def words(self) -> tuple[str, ...]:
        pairs = [("rootfs", self.rootfs), *self.options]
        return (
            "pct",
            "create",
            self.id,
            self.template,
            *(word for key, value in pairs for word in (f"-{key}", value)),
        )

    @property
    def text(self) -> str:
        """The options as lines of a configuration, to be judged before anything is made."""
        return "".join(f"{key}: {value}\n" for key, value in self.options)


def creation(guest: Guest) -> Creation | None:
    """None where the spec does not say how it is made."""
    made = guest.proxmox
    if made is None:
        return None
    options = [
        ("hostname", guest.name),
        ("unprivileged", "1" if guest.unprivileged else "0"),
        ("features", "nesting=1"),
        ("memory", str(made.memory_mib)),
        ("swap", "0"),
        ("onboot", "1"),
        ("tags", TAG),
    ]
    if made.cores is not None:
        options.append(("cores", str(made.cores)))
    if guest.network.startswith("bridge:"):
        gateway = f",gw={made.gateway}" if made.gateway else ""
        bridge = guest.network.removeprefix("bridge:")
        options.append(("net0", f"name=eth0,bridge={bridge},ip={made.ip}{gateway},type=veth"))
    return Creation(guest.id, made.template, f"{made.storage}:{made.size_gib}", tuple(options))
