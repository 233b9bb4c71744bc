"""The log of a service's unit: of the run that is up, not of one that died before it in the same boot."""

from __future__ import annotations

import re

from checks import child
from checks.errors import BadInput
from checks.serving import record
from checks.serving.redact import redacted

_SECONDS = 20.0


def read(unit: str) -> str:
    """What the unit's processes wrote since the start that is up now; of a unit that is not up, all of this boot.

    At most ``record.LOG_HEAD + record.LOG_TAIL`` bytes, secrets taken out. Raises BadInput for a word that names no
    unit, and where there is no journal. Source: systemd.journal-fields(7), _SYSTEMD_INVOCATION_ID.
    """
    if not re.fullmatch(r"[\w.@:-]+", unit) or unit.startswith("-"):
        raise BadInput(f"--unit {unit!r} is no name of a unit, like kpro-chat.service")
    started = _invocation(unit)
    # An earlier start that failed would be taken for this one's failure.
    text = _journal(f"_SYSTEMD_INVOCATION_ID={started}") if started else b""
    if not text.strip():
        text = _journal("-u", unit)
    return redacted(text[: record.LOG_HEAD + record.LOG_TAIL].decode("utf-8", "replace"))


def _journal(*what: str) -> bytes:
    try:
        return child.run(["journalctl", *what, "-b", "-o", "cat", "--no-pager"], _SECONDS).stdout
    except OSError:
        raise BadInput("--unit needs journalctl, which is not on this machine; give --log FILE") from None


def _invocation(unit: str) -> str | None:
    """The id of the start that is up; None while the unit is down, or is being started again."""
    try:
        said = child.run(["systemctl", "show", "-p", "ActiveState", "-p", "InvocationID", unit], _SECONDS)
    except OSError:
        return None
    told = dict(
        line.split("=", 1) for line in said.stdout.decode(errors="replace").splitlines() if "=" in line
    )
    found = told.get("InvocationID", "")
    return found if told.get("ActiveState") == "active" and re.fullmatch("[0-9a-f]{32}", found) else None
