"""The cut-over: requests leave the source, come to the target, and the source is stopped; and the way back."""

from __future__ import annotations

import time

from provision.migrate import drain as in_flight
from provision.migrate import fence, led, on_target, serving
from provision.migrate import watch as watching
from provision.migrate.moving import Moving
from provision.run.errors import ActFailed

SETTLE_SECONDS = 30
AROUND_SECONDS = 240
"""For what is around the start of the source: connecting anew, its lock, the fence, a last look into its log."""


def may_drain(m: Moving) -> str:
    """Empty, or why the source must go on serving."""
    if not on_target.is_warm(m):
        return f"{m.target.service.name} does not generate on {m.target.name}"
    try:
        led.prove(m, "target")
    except ActFailed as error:
        return str(error)
    return ""


def drain(m: Moving) -> str:
    source = m.living()
    m.window = time.monotonic()
    if m.traffic is not None:
        m.traffic.drain()
    m.say(in_flight.wait(source, m.run, source.service.drain_seconds).said)
    fence.put(source, m.run, m.target.name)
    if m.stops:
        serving.stop(source)
        return f"{source.name} is drained, kept from starting, and stopped"
    return f"{source.name} gets no more requests and is kept from starting; it stays warm for a way back"


def is_drained(m: Moving) -> bool:
    source = m.living()
    seen = fence.look(source)
    if seen.run != m.run or not seen.up:
        return False
    if m.traffic is not None and m.traffic.state().who not in ("nobody", "target"):
        return False
    return not (m.stops and on_target.runs(source))


def may_bring_back(m: Moving) -> str:
    """Empty, or why nothing can be done in the source's guest: then nothing was touched, and the service is where it
    was."""
    try:
        fence.look(m.living())
    except ActFailed as error:
        return (
            f"{error}; nothing was touched, and {m.target.name} serves as before. Next: start the guest on {m.peer} "
            "where it is stopped, and run it again"
        )
    return ""


def back_seconds(m: Moving) -> int:
    """The longest that ``bring_back`` may take: the service's own time to be ready, that of whoever leads the requests,
    and what is around them."""
    service = m.living().service
    leads = m.spec.traffic.deadline_seconds + SETTLE_SECONDS if m.spec.traffic is not None else 0
    return service.ready_seconds + leads + AROUND_SECONDS


def bring_back(m: Moving) -> str:
    """The source serves: fence away, started, seen generating, and only then requests go to it."""
    source, m.back, m.unled = m.living(), "begun", False
    fence.take_away(source, m.run)
    serving.start(source, m.run, source.service.ready_seconds, m.say)
    said = f"{source.service.name} generates on {source.name} again"
    if m.traffic is not None:
        try:
            m.traffic.back()
            m.traffic.settled("source", SETTLE_SECONDS)
        except ActFailed as error:
            m.unled = True
            raise ActFailed(f"{said}, and requests are not led to it: {error}") from error
        said += ", and requests go to it"
    # The state files say so from here on: whoever looks meanwhile is led to what is left.
    m.back = "serves"
    return said


def may_take_away(m: Moving) -> str:
    """Empty, or why the target's service stays: somebody else has led clients to it. What cannot be told keeps nobody:
    the source serves, and this run has led nobody to the target, or has seen them led back."""
    seen = m.traffic.state() if m.traffic is not None else None
    if seen is None or seen.who != "target":
        return ""
    return (
        f"warm: requests of {m.target.service.name} go to {m.target.name}, and this run has not led them there: "
        f"{seen.said}; so it is left as it is. Next: lead them to {m.peer}, then run it again"
    )


def may_switch(m: Moving) -> str:
    """Empty, or why requests must not go to the target now."""
    if m.source is not None and not is_drained(m):
        return f"{m.source.name} is not drained and fenced: two hosts would answer"
    if m.source is None and m.lives is not None and (found := m.lives()):
        # Hours may have gone by since it was asked first, and a machine without a fence may have come back.
        return "two hosts would answer: " + "; ".join(f"{one.where}: {one.seen}" for one in found)
    if not on_target.is_warm(m):
        return f"{m.target.service.name} does not generate on {m.target.name}"
    return ""


def switch(m: Moving) -> str:
    if m.traffic is not None:
        m.traffic.switch()
    life = serving.generates(m.target, m.run)
    if not life.generates:
        raise ActFailed(f"{m.target.name}: it does not generate after the switch: {life.why}")
    said = _downtime(m)
    if m.traffic is None:
        return f"{m.target.service.name} is ready for clients on {m.target.name}: lead them there now{said}"
    # Clients are answered meanwhile; what is found here is taken back.
    proven = led.prove(m, "target", led=True)
    return f"requests go to {m.target.name}{said}" + (f"; {proven}" if proven else "")


def _downtime(m: Moving) -> str:
    if m.window is None:
        return ""
    seconds = round(time.monotonic() - m.window, 2)
    m.tell("downtime", service=m.target.service.name, seconds=seconds)
    return f"; {seconds:.1f} s from the start of the drain to the first answer of {m.target.name}"


def is_switched(m: Moving) -> bool:
    if m.traffic is None:
        return on_target.is_warm(m)
    return m.traffic.state().who == "target" and on_target.is_warm(m)


def watch(m: Moving) -> str:
    seconds = m.spec.watch_seconds
    seen = watching.watch(
        m.target, m.run, seconds, m.traffic, m.say, proven=lambda: led.prove(m, "target", led=True)
    )
    if not seen.well:
        raise ActFailed(seen.why)
    return f"{m.target.name} was watched for {seconds} s, asked {seen.tries} times, the slowest after {seen.slowest} s"


def stop(m: Moving) -> str:
    source = m.living()
    if fence.look(source).run != m.run:
        raise ActFailed(
            f"{source.name}: its fence is gone: two hosts could answer. Next: --resume, or --rollback"
        )
    serving.stop(source)
    return f"{source.name} is stopped, intact, and kept from starting"


def is_stopped(m: Moving) -> bool:
    source = m.living()
    return is_drained(m) and not on_target.runs(source)
