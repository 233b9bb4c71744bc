"""``provcheck pack``: writes the single-file provcheck that integrations, guards and other machines run."""

from __future__ import annotations

from pathlib import Path

import click

from checks.data.integrations import SINGLE_FILE
from checks.errors import BadInput
from checks.judged import AllAtOnce
from checks.pack import build
from checks.paths import WRITTEN

_EPILOG = f"""\b
Examples:
  sudo mkdir -p /opt/kpro
  sudo provcheck pack {SINGLE_FILE}
  python3 {SINGLE_FILE} gpus --expect 8
"""


@click.command(cls=AllAtOnce, epilog=_EPILOG)
@click.argument("file", type=WRITTEN)
def pack(file: Path) -> int:
    """Write all of provcheck as one FILE that plain python3 (3.10 or later) runs, with nothing installed.

    The same version gives the same bytes. The integrations look for it at /opt/kpro/provcheck.pyz.
    """
    if not file.parent.is_dir():
        raise BadInput(
            f"{file}: the folder {file.parent} is not there; make it first (mkdir -p {file.parent})"
        )
    digest = build(file)
    click.echo(f"{file}: {file.stat().st_size >> 10} KiB, sha256 {digest}; run it as: python3 {file} gpus")
    return 0
