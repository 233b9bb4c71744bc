"""A migration whose source is dead: what is asked of it before anything begins, goes on, or is taken back."""

from __future__ import annotations

from provision.migrate import dead, knock
from provision.migrate.asked import Asked
from provision.migrate.ends import Pair
from provision.migrate.moving import Moving
from provision.plan import Refusal
from provision.run.errors import Refused
from provision.spec import HAProxy


def asked(ask: Asked, pair: Pair, m: Moving, *, begun: bool) -> tuple[list[Refusal], tuple[str, ...]]:
    """Every reason not to take the source for dead, as machines tell it, and what is told where there is none.
    ``begun``: the target may serve already."""
    heard = knock.ask(pair.source, pair.target, m.target, begun=begun)
    refusals = dead.judge(heard, pair.source, pair.target, off=ask.source_is_off, way=ask.way)
    return refusals, dead.told(heard, pair.source, pair.target, off=ask.source_is_off)


def lives(ask: Asked, pair: Pair, m: Moving) -> list[Refusal]:
    """The same of a migration that is under way, with what the one who leads the requests sees."""
    found, _ = asked(ask, pair, m, begun=True)
    return found + _led(m)


def may_resume(ask: Asked, pair: Pair, m: Moving) -> None:
    """Raises Refused when two hosts could answer."""
    found, notes = asked(ask, pair, m, begun=True)
    _say(m, found + _led(m), notes)


def may_go_back(ask: Asked, pair: Pair, m: Moving) -> None:
    """Raises Refused for a source that lives, which is to be brought back and not passed over, and for a target that
    clients are led to."""
    found, notes = asked(ask, pair, m, begun=True)
    if m.traffic is not None and not _dead_too(m):
        # A hook's word that requests go to the source is no sign of life, and keeps nobody from cleaning the target.
        found += m.traffic.lives() if isinstance(m.spec.traffic, HAProxy) else []
        found += dead.served_by_target(m.traffic.state(), pair.source, pair.target)
    _say(m, found, notes)


def may_end(ask: Asked, pair: Pair, m: Moving) -> None:
    """Raises Refused for a source that lives: it would be given up while it answers."""
    _say(m, *asked(ask, pair, m, begun=True))


def _led(m: Moving) -> list[Refusal]:
    return m.traffic.lives() if m.traffic is not None else []


def _dead_too(m: Moving) -> bool:
    """Does what leads the requests run on the machine that is dead? Then it leads nobody."""
    spec = m.spec.traffic
    return isinstance(spec, HAProxy) and spec.on == "source"


def _say(m: Moving, found: list[Refusal], notes: tuple[str, ...]) -> None:
    said = {(one.where, one.seen): one for one in found}
    if said:
        raise Refused(list(said.values()))
    for note in notes:
        m.say(note)
