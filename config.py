"""pyinfra executes this before it reads the inventory: what cannot be meant ends here, with 2."""

import sys

import click

from provision.before_pyinfra import reasons

_context = click.get_current_context(silent=True)
if _context is not None and "inventory" in _context.params:
    _wrong = reasons(_context.params)
    if _wrong:
        click.echo("refused, nothing was done:", err=True)
        for _reason in _wrong:
            click.echo(f"  - {_reason}", err=True)
        sys.exit(2)
