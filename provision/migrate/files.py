"""What is copied from the source to the target, and how, from the inventories of both."""

from __future__ import annotations

from dataclasses import replace

from provision.migrate.copy import look
from provision.migrate.copy.model import CopySettings, Folder
from provision.migrate.ends import End, Pair, Reach
from provision.migrate.sides import Side
from provision.spec import CopySettings as Wished
from provision.spec import Migration


def _wished(end: End) -> Wished:
    return (end.service.migration or Migration()).transfer


def port(target: End) -> int:
    return _wished(target).port


def settings(pair: Pair) -> CopySettings:
    """``address``: what the inventory says, else where the controller reaches the target."""
    wished = _wished(pair.target)
    ssh = pair.target.machine.ssh
    return CopySettings(
        wished.address or (ssh.host if ssh is not None else "127.0.0.1"),
        wished.port if wished.address or ssh is None or ssh.port is None else ssh.port,
        bwlimit_mib=wished.bwlimit_mib,
        streams=wished.streams,
        through_controller=wished.through_controller,
    )


def folders(pair: Pair) -> tuple[Folder, ...]:
    """Models that both ends have by the same commit, and the extra paths. What only the target serves with, it gets by
    itself."""
    source, target = pair.ends
    theirs = {model.revision: role for role, model in source.models}
    found = []
    for _, model in target.models:
        role = theirs.get(model.revision)
        path = source.folder(role) if role is not None else None
        if path is not None:
            # Folders of a hub's cache are links; those of kpro's own hold what they say.
            follow = source.service.found is not None
            found.append(Folder(path, model.directory, True, follow))
    found += [Folder(path, path, False) for path in pair.extra_paths]
    return tuple(found)


def reached(pair: Pair, source: Side | None, target: Side) -> Pair:
    """The pair with how the source reaches the target's SSH server."""
    if source is None:
        return pair
    if settings(pair).through_controller:
        return replace(pair, reach=Reach("controller", "the inventory says so"))
    why = look.reach(source, target, settings(pair))
    return replace(pair, reach=Reach("direct" if why is None else None, why or ""))
