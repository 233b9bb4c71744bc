"""Commit-confirm: a run that makes the machine boot is taken back by the machine itself unless it is confirmed.

On the machine: ``/var/lib/kpro/confirm.json`` while a run waits for its confirmation, ``kpro-confirm.service`` that
counts boots, ``kpro-confirm.timer`` that starts ``kpro-undo.service``, which runs ``undo.sh RUN``. All of them are made
with the arming and gone after the confirmation.
"""

from __future__ import annotations

import json
from typing import Any

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.host.moves import Reboot
from provision.run.errors import ActFailed
from provision.templates import render

STATE = "/var/lib/kpro"
ARM = f"{STATE}/confirm.json"
SCRIPT = f"{STATE}/confirm.sh"
UNITS = "/etc/systemd/system"

_ENABLE = f"""
systemctl daemon-reload &&
systemctl -q enable kpro-confirm.timer kpro-confirm.service || exit 1
for unit in kpro-confirm.timer kpro-confirm.service; do
  systemctl is-enabled -q $unit || {{ echo "$unit is not enabled"; exit 1; }}
done
rm -f {STATE}/confirm.undone.json {STATE}/confirm.undo-incomplete.json
"""

_REMOVE = f"""
systemctl -q disable --now kpro-confirm.timer kpro-confirm.service 2>/dev/null
rm -f {UNITS}/kpro-confirm.timer {UNITS}/kpro-confirm.service {UNITS}/kpro-undo.service {SCRIPT}
# Where systemd does not run there is nothing that could still know of them.
[ ! -d /run/systemd/system ] || systemctl daemon-reload
"""

_CONFIRM = f"""
umask 077; mkdir -p /run/kpro
exec 7>>/run/kpro/confirming
flock -n 7 || {{ echo "the machine is taking the run back already" >&2; exit 1; }}
for result in undone undo-incomplete; do
  [ ! -e {STATE}/confirm.$result.json ] || {{ cat {STATE}/confirm.$result.json >&2; exit 2; }}
done
rm -f {ARM} && sync {STATE} || exit 1
{_REMOVE}"""

_DISARM = f"rm -f {ARM} && sync {STATE} || exit 1\n{_REMOVE}"


def prepare(host: Host, wanted: Reboot) -> None:
    """Puts the units and enables them: nothing of this acts before ``confirm.json`` is there. Raises ActFailed."""
    seconds = wanted.confirm_seconds
    for path, template, mode in (
        (SCRIPT, "kpro-confirm.sh.j2", "700"),
        (f"{UNITS}/kpro-undo.service", "kpro-undo.service.j2", "644"),
        (f"{UNITS}/kpro-confirm.service", "kpro-confirm.service.j2", "644"),
        (f"{UNITS}/kpro-confirm.timer", "kpro-confirm.timer.j2", "644"),
    ):
        shell.put(host, path, render(template, seconds=seconds).encode(), mode=mode)
    shell.run(host, _ENABLE, "arming the machine against a reboot that fails", timeout=120)


def armed(run: str, boot_id: str, wanted: Reboot) -> bytes:
    """The content of ``confirm.json``, one line: the machine reads it with sed."""
    document = {
        "run": run,
        "boot_id": boot_id,
        "boots_left": wanted.confirm_boots,
        "seconds": wanted.confirm_seconds,
    }
    return (json.dumps(document) + "\n").encode()


def confirm(host: Host, payload: Any, say: Voice) -> None:
    """The machine keeps what the run made. Raises ActFailed when it has taken the run back, or is just doing so."""
    try:
        shell.run(host, _CONFIRM, "confirming the boot", timeout=120)
    except ActFailed as error:
        raise ActFailed(
            f"{host.name} was not confirmed in time and takes the run back by itself. Look at: "
            f"journalctl -u kpro-undo, and run again when it has ended\n{error}"
        ) from error
    say(f"{host.name}: confirmed, what was done stays")


def disarm(host: Host) -> None:
    """For a reboot that did not happen, and after a rollback: there is nothing left to take back. Raises ActFailed."""
    shell.run(host, _DISARM, "disarming the machine", timeout=120)
