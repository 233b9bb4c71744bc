"""``provcheck completion``: the script that lets a shell complete commands, options and finding ids. Click's own."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from checks.judged import AllAtOnce

_EPILOG = """\b
Examples:
  provcheck completion bash >/etc/bash_completion.d/provcheck
  provcheck completion zsh >~/.zfunc/_provcheck
  provcheck completion fish >~/.config/fish/completions/provcheck.fish
"""


@click.command(cls=AllAtOnce, epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """The completion script for a shell, printed. It asks provcheck itself, so it is never out of date."""
    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(click.Group("provcheck"), {}, "provcheck", "_PROVCHECK_COMPLETE")
    # Not made.source(): for bash that starts a bash to look at its version.
    click.echo(made.source_template % made.source_vars())
    return 0
