"""``provcheck integrate``: prints a shipped file that makes another program ask provcheck."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from checks.data.integrations import FOLDER, INTEGRATIONS, SINGLE_FILE
from checks.errors import BadInput
from checks.files import write_whole
from checks.judged import AllAtOnce
from checks.paths import WRITTEN
from checks.serving.guard import text_of

_EPILOG = """\b
Examples:
  provcheck integrate --list
  provcheck pack /opt/kpro/provcheck.pyz
  provcheck integrate slurm --output /opt/kpro/slurm-healthcheck.sh
  provcheck integrate options --output /etc/default/provcheck
"""


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(name, help=row.title)
        for name, row in INTEGRATIONS.items()
        if name.startswith(incomplete)
    ]


@click.command(cls=AllAtOnce, epilog=_EPILOG)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=_names)
@click.option("--list", "as_list", is_flag=True, help="All names, what each does, and where it goes.")
@click.option(
    "--output",
    type=WRITTEN,
    help="Write it to this file, whole or not at all; a script can then be run.",
)
def integrate(name: str | None, as_list: bool, output: Path | None) -> int:
    """A file for systemd, Slurm, node_exporter, Kubernetes or Node Problem Detector, printed."""
    if as_list == (name is not None):
        raise BadInput(f"give one of {', '.join(INTEGRATIONS)}, or --list for what each does")
    if name is None:
        width = max(map(len, INTEGRATIONS))
        for known, row in INTEGRATIONS.items():
            click.echo(f"{known:<{width}}  {row.title}\n{'':<{width}}  goes to {row.place}")
            if row.needs:
                click.echo(f"{'':<{width}}  needs {row.needs}")
        click.echo(f"\nAll run {SINGLE_FILE}; write it with: provcheck pack {SINGLE_FILE}")
        return 0
    if name not in INTEGRATIONS:
        raise BadInput(f"no integration is called {name[:60]!r}; there are {', '.join(INTEGRATIONS)}")
    row = INTEGRATIONS[name]
    text = text_of(f"{FOLDER}/{row.file}")
    if output is None:
        click.echo(text, nl=False)
    else:
        write_whole(output, text.encode(), mode=0o755 if text.startswith("#!") else 0o644)
    return 0
