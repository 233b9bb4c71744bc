"""What a run leaves in memory on the machines and in the guests while it is under way, swept away at its end."""

from __future__ import annotations

import re
import shlex

from provision.migrate import probe
from provision.migrate.sides import Side
from provision.run.errors import ActFailed

_SWEEP = """
rm -rf -- {folder} && { rmdir -- {parent} 2>/dev/null; :; }
"""


def sweep(side: Side, run: str) -> None:
    """Raises ActFailed. A guest that does not run has nothing in memory."""
    if not re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", run):
        raise ActFailed(f"{run!r} is no run: nothing is swept")
    folder = probe.folder(run)
    script = _SWEEP.replace("{folder}", shlex.quote(folder)).replace("{parent}", folder.rpartition("/")[0])
    done = side.host(script)
    if not done.ok:
        raise ActFailed(f"{side.name}: {folder} could not be removed: {done.error_text}")
    try:
        side.inside(script)
    except OSError as error:
        if " is absent" not in str(error) and " is stopped" not in str(error):
            raise ActFailed(f"{side.name}: {folder} in the guest could not be removed: {error}") from error
