"""``provcheck bundle``: evidence and logs in one file that can be handed on."""

from __future__ import annotations

import datetime
import platform
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from checks import child
from checks.bundle.archive import packed
from checks.bundle.gather import gather
from checks.bundle.redact import Redactor
from checks.errors import BadInput
from checks.files import write_whole
from checks.judged import AllAtOnce
from checks.paths import WRITTEN

_EPILOG = """\b
Examples:
  provcheck bundle
  provcheck bundle http://127.0.0.1:8000 --output /root/incident.tar.gz
  tar -xzOf incident.tar.gz --wildcards '*/MANIFEST.json'

\b
Taken out: tokens, passwords, keys, values of environment variables that are not of GPUs and engines, serial numbers,
GPU UUIDs (numbered instead), and host names and home folders unless --keep-names. Look through it before you send it.
"""


@click.command(cls=AllAtOnce, epilog=_EPILOG)
@click.argument("url", required=False)
@click.option(
    "--output",
    type=WRITTEN,
    help="The file, mode 0600; provcheck-bundle-TIME.tar.gz here unless given.",
)
@click.option("--keep-names", is_flag=True, help="Leave host names and home folders in.")
def bundle(url: str | None, output: Path | None, keep_names: bool) -> int:
    """One file for whoever helps: record of the GPUs, kernel lines, units and journal of kpro's services, versions.

    Reads only; at most 120 s and 24 MiB. With URL also the counters of a served model.
    """
    if url is not None and not url.startswith(("http://", "https://")):
        raise BadInput(f"{url[:80]!r} is no address of a service; give one like http://127.0.0.1:8000")
    made = datetime.datetime.now(datetime.timezone.utc)
    folder = f"provcheck-bundle-{made:%Y%m%dT%H%M%SZ}"
    path = output or Path(f"{folder}.tar.gz")
    if not path.parent.is_dir():
        raise BadInput(f"--output {path}: the folder {path.parent} is not there; make it first")
    redactor = Redactor(None if keep_names else _names())
    content = gather(redactor, _run, url)
    files = {
        **content.files,
        "MANIFEST.json": content.manifest(made.isoformat(timespec="seconds"), redactor.removed),
    }
    data = packed(files, folder)
    write_whole(path, data, mode=0o600)
    click.echo(f"{path}: {len(content.files)} files, {len(data) >> 10} KiB; not inside, or not whole:")
    for name, why in sorted(content.left_out.items()):
        click.echo(f"  {name}: {why}")
    return 0


def _run(argv: Sequence[str], deadline: float) -> child.Ended:
    print(f"provcheck bundle: {Path(argv[0]).name} ...", file=sys.stderr)  # noqa: T201
    return child.run(argv, deadline)


def _names() -> tuple[str, ...]:
    """What this machine calls itself, the longest last."""
    node = platform.node()
    return tuple({node, node.partition(".")[0], socket.gethostname()})
