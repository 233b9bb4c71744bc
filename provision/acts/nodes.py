"""Acts of step 5: the unit that every boot runs for the GPUs, and running it now."""

from __future__ import annotations

from typing import Any

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.host import keeping
from provision.host.moves import Edits
from provision.host.nodes import SERVICE
from provision.run.errors import ActFailed

START_SECONDS = 200
"""The unit itself gives up after 180."""

_ENABLE = f"systemctl -q enable {SERVICE} && systemctl is-enabled -q {SERVICE}"

_START = f"""
systemctl restart {SERVICE} 9>&- && exit 0
journalctl -o cat --no-pager -n 20 _SYSTEMD_INVOCATION_ID="$(systemctl show -P InvocationID {SERVICE})" >&2
exit 1
"""


def unit(host: Host, wanted: Edits, say: Voice) -> None:
    """Writes script and unit, originals kept first, and enables the unit. Raises ActFailed."""
    keeping.before_files(host, say.run, {edit.path: edit.data for edit in wanted.files})
    keeping.before_unit(host, say.run, SERVICE)
    for edit in wanted.files:
        shell.put(host, edit.path, edit.data, mode=edit.mode)
    shell.run(host, _ENABLE, f"enabling {SERVICE}", timeout=120)


def make(host: Host, payload: Any, say: Voice) -> None:
    """Runs the unit now. Raises ActFailed with what it said."""
    try:
        shell.run(host, _START, f"starting {SERVICE}", timeout=START_SECONDS)
    except ActFailed as error:
        raise ActFailed(f"{host.name}: the device nodes were not made: {error}") from error
