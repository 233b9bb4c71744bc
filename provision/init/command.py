"""The command ``provision init``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from checks.judged import AllAtOnce
from provision import given


def _refuse(asked: given.Given) -> None:
    if asked["host"] is not None:
        runs = importlib.import_module("provision.init.answer")
        named = [asked[name] for name in ("host", "name", "output", "port", "key", "known_hosts")]
        given.refuse(lambda: runs.asked(*named, baseline=False))


@click.command(cls=AllAtOnce, also=_refuse)
@click.argument("host")
@click.option("--name", help="The machine's name in the inventory. [default: from HOST]")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write. [default: inventories/<name>.py]",
)
@click.option(
    "--port", type=click.IntRange(1, 65535), help="The port of its sshd, where ssh_config does not say it."
)
@click.option("--key", help="The key to log in with, where ssh_config does not say it.")
@click.option("--known-hosts", help="Its host key's file, where it is not the usual one.")
@click.option("--no-baseline", is_flag=True, help="Send no request to the services that are found.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema provision/1) on stdout.")
def init(
    host: str,
    name: str | None,
    output: Path | None,
    port: int | None,
    key: str | None,
    known_hosts: str | None,
    no_baseline: bool,
    as_json: bool,
) -> None:
    """Looks at a host that was set up by hand and writes its inventory file.

    HOST is [user@]host[:port] for ssh, or @local for this machine. Found are its GPUs and driver, its LXC and Proxmox
    containers, and in those that run the engine services of systemd: unit, flags, names of variables, model files, and
    a baseline, measured with a few requests to each. Nothing is changed there; secrets are not read. A file that is
    there already is not overwritten.

    \b
    Then:  provision plan <name>      says whether the host still is what the file says
    """
    importlib.import_module("pyinfra_cli")
    commands = importlib.import_module("provision.run.commands")
    runs = importlib.import_module("provision.init.answer")
    asked = (host, name, output, port, key, known_hosts, not no_baseline)
    sys.exit(commands.finish(lambda: runs.answer(*asked), "init", as_json))
