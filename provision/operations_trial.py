"""The operations of step 10 about services: cut-overs, measurements, and the end of a run that refused a candidate."""

from __future__ import annotations

from pyinfra.api.command import FunctionCommand
from pyinfra.api.host import Host
from pyinfra.api.operation import operation

from provision.run.carrying import Commands, executing, guarded, planned
from provision.run.session import Session
from provision.run.trying import tried
from provision.spec import Machine


@operation()
def cut_over(kind: str, again: bool | None = None) -> Commands:
    """Carries out the plan's cut-overs of one kind on this host, and sees to what is left of each. ``again``: only
    those that start what is in service already, or only the others."""

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        for item in planned(session, host, machine, kind):
            if again is not None and (item.payload.mode == "again") is not again:
                continue
            if item.id in session.tried.red:
                session.tried.refused.append(session.tried.red[item.id])
                host.noop("the candidate is red in step 9, and is not tried")
                continue
            yield FunctionCommand(tried(session, machine, item), (), {})

    yield from guarded(body)


@operation()
def verdicts() -> Commands:
    """Last of all: a run that refused a candidate has not done all that was asked for, though its services generate."""

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        if not executing(session.state):
            host.noop("known when the run gets here")
            return
        for refused in session.tried.refused_on(host.name):
            raise refused
        host.noop("every candidate that was tried is in service")
        yield from ()

    yield from guarded(body)
