"""May this machine be rebooted now, by this run, from here?"""

from __future__ import annotations

from pathlib import Path

from pyinfra.api.host import Host

from provision.host.moves import Reboot
from provision.host.reboot import parse_permission
from provision.host.reconnect import BOOT_ID
from provision.plan import Item
from provision.run.errors import RebootPending, RunError
from provision.run.session import Session
from provision.spec import Machine


def check(session: Session, host: Host, machine: Machine, item: Item) -> None:
    """Raises RebootPending with the recorded reasons and the next step."""
    wanted: Reboot = item.payload
    reasons = [reason.seen for reason in wanted.reasons]
    if _is_here(session, host, machine):
        raise RebootPending(
            machine.name,
            reasons,
            "kpro runs on this very machine and would end with it: run it from another machine (ssh=Ssh(…)), "
            "or reboot this one yourself and run again",
        )
    if not allowed(session, host, machine):
        raise RebootPending(
            machine.name,
            reasons,
            "run again with --reboot (plain pyinfra: --data reboot=allowed), or set reboot='allowed' in the "
            "inventory, or reboot it yourself at a better time and run again",
        )


def may(session: Session, host: Host, machine: Machine) -> bool:
    """Is a reboot allowed, and possible from here? Raises RunError when ``--data reboot=`` has another word."""
    return allowed(session, host, machine) and not _is_here(session, host, machine)


def allowed(session: Session, host: Host, machine: Machine) -> bool:
    """Raises RunError when ``--data reboot=`` has another word."""
    given = host.data.get("reboot")
    try:
        return session.reboot or parse_permission(given) or machine.reboot == "allowed"
    except ValueError as error:
        raise RunError(str(error)) from error


def _is_here(session: Session, host: Host, machine: Machine) -> bool:
    """The same kernel, however it is reached: loopback SSH and containers of this machine count."""
    if host.name == "@local":
        return True
    try:
        here = Path(BOOT_ID).read_text(encoding="ascii").strip()
    except OSError:
        return False
    there = (session.observed(machine).host.text(BOOT_ID) or "").strip()
    return here == there
