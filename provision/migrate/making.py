"""A migration put together on real hosts: from what was asked for and two connected ends."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from provision.migrate import cold, files, known
from provision.migrate.asked import Asked, typed
from provision.migrate.copy.copying import Copy
from provision.migrate.disk import FromDisk
from provision.migrate.ends import End, Pair
from provision.migrate.live import Dead, Ends
from provision.migrate.moving import Copying, Moving, Tell
from provision.migrate.proofs import Proofs
from provision.migrate.sides import Side, TransportError
from provision.migrate.standing import Migrating
from provision.migrate.traffic.choose import traffic
from provision.plan import Refusal
from provision.printable import say_on_stderr
from provision.run.journal import runs_folder
from provision.stack.forecast import Figures


class Orphaned(Copy):
    """A copy whose source is dead: what is on the target is dealt with, and nobody misses the rest."""

    def clean(self) -> None:
        with suppress(TransportError):
            super().clean()

    def undo(self) -> None:
        with suppress(TransportError):
            super().undo()


Look = Callable[[Moving], list[Refusal]]


def pair_of(ask: Asked, ends: Ends, source: End, target: End) -> Pair:
    """What the preflight knows of both; on the way back it is not asked, and time counts."""
    if ask.way not in ("begin", "dry-run"):
        return Pair("", source, target, cold=ask.cold, reboot=ask.reboot, port=files.port(target))
    one = known.desired(source, ends.source.wanted, ends.source.observed()) if ends.source else None
    two = known.desired(target, ends.target.wanted, ends.target.observed())
    return Pair(
        "",
        source,
        target,
        cold=ask.cold,
        reboot=ask.reboot,
        digests=known.digests(one),
        same_key=known.same_key(one, two),
        commands={"source": known.command(source, one), "target": known.command(target, two)},
        port=files.port(target),
    )


def starts(ends: Ends, pair: Pair) -> Figures:
    """How long the source's service took to start, as its guest keeps it."""
    if ends.source is None:
        return Figures()
    return known.starts(pair.source, ends.source.wanted, ends.source.observed())


def moving(ask: Asked, ends: Ends, pair: Pair, look: Look, run: str, since: str | None = None) -> Moving:
    """The migration with everything that its steps use. Nothing is asked of a machine yet."""
    source: Side | Dead = ends.source or Dead(pair.source)
    ends.belong_to(Migrating(run))
    ends.target.arriving = _arriving(ask, pair)
    made = Moving(
        run,
        ends.source,
        ends.target,
        say_on_stderr,
        _teller(ends),
        f"{getpass.getuser()}@{socket.gethostname()}",
        pair.source.name,
        look,
        _copying(ask, run, source, ends.target, pair),
        traffic(run, source, ends.target),
        models_from=ask.models_from,
        words=typed(ask, str(Path.cwd())),
    )
    proofs = Proofs(pair.source, runs_folder() / run)
    made.prove, made.measure = proofs.answers, proofs.speed
    if ask.cold:
        made.lives = lambda: cold.lives(ask, pair, made)
    if since is not None:
        made.since = since
    return made


def _arriving(ask: Asked, pair: Pair) -> frozenset[str]:
    """The model folders that the chain neither puts nor fetches: they come from the source, or from a disk."""
    if not ask.cold:
        return frozenset(folder.target_path for folder in files.folders(pair) if folder.immutable)
    return frozenset(model.directory for _, model in pair.target.models if ask.models_from)


def _copying(ask: Asked, run: str, source: Side | Dead, target: Side, pair: Pair) -> Copying | None:
    if ask.models_from:
        return FromDisk(run, target, ask.models_from)
    moved = files.folders(pair)
    if not moved or (ask.cold and ask.way not in ("rollback", "finalize")):
        return None
    if ask.cold:
        # What a migration copied before its source died is found and taken away by the same copy.
        return Orphaned(run, source, target, moved, files.settings(pair))
    return Copy(run, source, target, moved, files.settings(pair))


def _teller(ends: Ends) -> Tell:
    """The journal is opened with its first event: a look alone leaves none."""

    def tell(event: str, **facts: Any) -> str:
        return ends.session.journal.write(event, **facts)

    return tell
