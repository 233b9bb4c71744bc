"""Everything that an inspection rests on, read once from the snapshot. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import Snapshot
from provision.host import view
from provision.host.boot import Module, Opener
from provision.host.dkms import DkmsModule
from provision.host.release.target import Holder
from provision.host.vms import VmReference
from provision.inspect import containers, driver, functions, guests, holding, nodes, texts, using
from provision.inspect.containers import Container
from provision.inspect.driver import Loaded
from provision.inspect.functions import Function
from provision.inspect.look import Look
from provision.inspect.nodes import Node
from provision.inspect.texts import Texts
from provision.spec import Machine


@dataclass(frozen=True)
class Seen:
    """None stands for what could not be looked at; the reason is in ``look.unknown``. ``all_openers`` False: there
    may be more than ``openers``."""

    look: Look
    texts: Texts
    machine: Machine | None
    functions: tuple[Function, ...] | None
    holders: tuple[Holder, ...]
    unread: tuple[str, ...]
    openers: tuple[Opener, ...]
    all_openers: bool
    references: tuple[VmReference, ...] | None
    containers: tuple[Container, ...]
    majors: Mapping[str, int] | None
    nodes: tuple[Node, ...] | None
    minors: Mapping[Bdf, int]
    loaded: Loaded | None
    modules: Mapping[str, Module] | None
    dkms: Sequence[DkmsModule] | None

    @property
    def gpus(self) -> tuple[Function, ...]:
        return tuple(function for function in self.functions or () if function.is_gpu)

    @property
    def switches(self) -> tuple[Function, ...]:
        return tuple(function for function in self.functions or () if function.is_switch)

    @property
    def whole_bus(self) -> bool:
        return functions.whole_bus(self.look, self.functions)


def seen(snapshot: Snapshot, machine: Machine | None, recorded: bool) -> Seen:
    """Reads it all; nothing is raised."""
    look = Look(snapshot, recorded)
    said = texts.gather(snapshot, recorded)
    ask = look.attempt
    held = holding.holders(look)
    return Seen(
        look,
        said,
        machine,
        ask("GPUs", lambda: functions.functions(look, said)),
        held.holders,
        held.unread,
        ask("open device files", lambda: using.openers(look)) or (),
        ask("open device files", lambda: using.all_listed(look)) or False,
        ask("virtual machines", lambda: guests.references(look)),
        ask("containers", lambda: containers.containers(snapshot)) or (),
        ask("majors", lambda: nodes.needed(look)),
        ask("device nodes", lambda: nodes.nodes(said)),
        ask("device minors", lambda: view.minors(snapshot)) or {},
        ask("loaded driver", lambda: driver.loaded(look, said)),
        ask("loaded modules", lambda: driver.modules(look, said)),
        ask("dkms", lambda: driver.dkms_lines(said)),
    )
