"""The click side of the command line: a group that imports a command only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from checks import __version__
from checks.cli import Row
from checks.errors import BadInput
from checks.judged import Several

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

HELP = """Proves that GPUs, drivers and a served model really work, and names the cause when they do not.

\b
Examples:
  provcheck gpus --expect 2                 two healthy GPUs, or the reason why not
  provcheck gpus --json                     the same for a program
  provcheck gpus --host kpro5               on another machine, through ssh
  provcheck gpus --record node.json         keep the evidence
  provcheck gpus --replay node.json         judge it again, anywhere
  provcheck all --expect 2                  and at work, and together
  provcheck explain gpu.row_remap           what a finding means

\b
Exit codes: 0 pass (warnings allowed), 1 fail, 2 usage or bad input, 3 could not check.
"""


class LazyGroup(click.Group):
    """Lists commands from a table; ``--help`` of the group imports none of them."""

    def __init__(self, *args: Any, table: Mapping[str, Row], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, row in self._table.items() if not row.hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = self._table.get(cmd_name)
        if row is None:
            return None
        module, _, attribute = row.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names from the table: a key press imports no command."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=self._table[name].help) for name in names), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._table[name].help) for name in self.list_commands(ctx)])


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def run(args: Sequence[str], table: Mapping[str, Row]) -> int:
    """Runs the group without click's own exits. Raises BadInput for every usage error."""
    group = LazyGroup(
        name="provcheck",
        table=table,
        help=HELP,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    click.version_option(__version__, prog_name="provcheck")(group)
    try:
        code = group.main(args=list(args), prog_name="provcheck", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else HELP, err=True)
        return 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "provcheck"
        reasons = error.reasons if isinstance(error, Several) else [error.format_message()]
        reasons[-1] = f"{_sentence(reasons[-1])} See '{where} --help'."
        raise BadInput("\n".join(reasons)) from None
    except click.ClickException as error:
        raise BadInput(error.format_message()) from None
    except click.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0
