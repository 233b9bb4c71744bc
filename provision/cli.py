"""The command ``provision``. Heavy imports happen in the commands that need them, so that ``--help`` is quick."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from provision import given
from provision.assign.command import assign
from provision.entry import Entry
from provision.init.command import init
from provision.inspect.command import inspect, record
from provision.migrate.command import migrate
from provision.status.command import status

EXAMPLES = """
\b
Examples:
  provision inspect kpro5                  what holds each GPU, who uses it, what fits it
  provision plan kpro5                     what would be done to the machines of inventories/kpro5.py
  provision apply kpro5                    shows the plan, asks, does it
  provision apply kpro5 --limit llm        only the guest llm
  provision assign kpro5 61:00.0 vm        hand a GPU over to virtual machines; lxc takes it back
  provision rollback kpro5                 the machines as they were before kpro
  provision init root@gpubox               writes the inventory of a host that was set up by hand
  provision migrate kpro6 kpro5            moves a live service to another host, with a way back
  provision runs                           what was run from here, and how it ended
  provision demo                           the whole chain against a throw-away virtual host on this machine

\b
Exit codes: 0 done or in sync, 1 error, 2 usage, bad inventory, or the question was answered with no,
3 refused (nothing touched), 4 locked by another run, 10 changes pending (plan) or a reboot pending
(apply, assign, rollback), 130 interrupted, 143 and 129 the same by SIGTERM and SIGHUP.
"""

_inventory = click.argument("inventory")
_limit = click.option(
    "--limit", multiple=True, metavar="NAME", help="Only these machines, guests or groups; wildcards count."
)
_phases = click.option(
    "--phases", metavar="P,…", help="Only install, configure and/or activate. [default: all three]"
)
_reboot = click.option(
    "--reboot", is_flag=True, help="Reboot where that is needed, also where the inventory does not allow it."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON (schema provision/1) on stdout.")


def _commands() -> ModuleType:
    """The commands that run pyinfra, imported after gevent's patches: pyinfra_cli applies those when it is imported."""
    importlib.import_module("pyinfra_cli")
    return importlib.import_module("provision.run.commands")


@click.group(
    cls=Entry,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="kpro")
def main() -> None:
    """Takes a machine to a gated, running LLM service, one idempotent run at a time."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Files of machines hold bytes that are no UTF-8; in JSON too such an escape is one.
            stream.reconfigure(errors="backslashreplace")


@main.command(also=given.a_plan)
@_inventory
@_limit
@_phases
@click.option(
    "--sysroot",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Plan against a recorded machine in this folder; nothing is connected to.",
)
@_json
def plan(
    inventory: str, limit: tuple[str, ...], phases: str | None, sysroot: Path | None, as_json: bool
) -> None:
    """Shows what would be done, or every reason why nothing would be. Changes nothing.

    INVENTORY is a file, or a bare word for inventories/<word>.py. The plan for people goes to stderr; stdout is for
    --json alone.
    """
    sys.exit(_commands().plan(inventory, limit, phases, sysroot, as_json))


@main.command(also=given.a_plan)
@_inventory
@_limit
@_phases
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    help="With several machines: how many at a time after the first. [default: all]",
)
@click.option(
    "--max-failed",
    type=click.IntRange(min=0),
    help="With several machines: stop when more than this many failed. The first must not fail. [default: 1]",
)
@_reboot
@_json
def apply(
    inventory: str,
    limit: tuple[str, ...],
    phases: str | None,
    yes: bool,
    batch: int | None,
    max_failed: int | None,
    reboot: bool,
    as_json: bool,
) -> None:
    """Shows the plan, asks, carries it out, and proves that every service generates.

    A second run changes nothing. INVENTORY is a file, or a bare word for inventories/<word>.py.
    """
    sys.exit(_commands().apply(inventory, limit, phases, yes, as_json, batch, max_failed, reboot))


@main.command(also=given.a_way_back)
@_inventory
@_limit
@click.option("--yes", is_flag=True, help="Do not ask.")
@_reboot
@click.option("--service", metavar="NAME", help="Only this service: the profile that served before is back.")
@_json
def rollback(
    inventory: str, limit: tuple[str, ...], yes: bool, reboot: bool, service: str | None, as_json: bool
) -> None:
    """Puts back what kpro changed on the machines: files as they were, GPUs on their former drivers.

    Containers are stopped and kept. Shows what would be put back, asks, does it, looks again. Twice is harmless.
    The same without a controller, on the machine: /var/lib/kpro/undo.sh
    With --service the machines stay as they are, and a candidate that was put into service is taken back.
    """
    _commands()
    from provision.run import rollback as back

    if service is not None:
        from provision.run import rollback_service

        sys.exit(rollback_service.rollback(inventory, limit, service, yes, as_json))
    sys.exit(back.rollback(inventory, limit, yes, as_json, reboot))


@main.command()
@click.argument("run", required=False)
@click.option(
    "--report",
    "again",
    is_flag=True,
    help="Make the run's report.html and report.json anew, from its journal.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page of its report into this file.",
)
@_json
def runs(run: str | None, again: bool, html: Path | None, as_json: bool) -> None:
    """Lists the runs made from this controller, or shows the journal of one, or makes its report (docs/report.md)."""
    from provision.run import history

    if again or html is not None:
        if run is None or as_json:
            raise click.UsageError("--report and --html are for one RUN, without --json; report.json is that")
        sys.exit(history.report(run, html))
    sys.exit(history.show(run, as_json))


main.add_command(assign)


def _build_refused(asked: Mapping[str, Any]) -> None:
    from provision.driver import command

    given.refuse(lambda: command.refuse(asked))


@main.command()
@click.option("--keep", is_flag=True, help="Keep the test host at the end, and say how to look into it.")
@click.option(
    "--quick", is_flag=True, help="A container of this machine instead of a virtual host; no GPUs in it."
)
@click.option(
    "--build", "only_build", is_flag=True, help="Build what the virtual host needs, and run nothing."
)
def demo(keep: bool, quick: bool, only_build: bool) -> None:
    """Runs the whole chain against a throw-away virtual host with two emulated GPUs that are locked in vfio-pci.

    Builds and boots the host, shows the plan, releases the GPUs, loads NVIDIA's own driver, serves in a container,
    runs again, cleans up. Building needs root and some minutes, once; after that it runs as anybody. The engine is a
    stand-in that needs no GPU. With --quick it needs root, always.
    """
    if only_build and (keep or quick):
        raise click.UsageError("--build runs nothing: leave out --keep and --quick")
    commands = _commands()
    from provision.testhost import demo as quick_demo
    from provision.testhost import demo_vm

    sys.exit(demo_vm.build() if only_build else (quick_demo if quick else demo_vm).run(commands, keep=keep))


@main.command("build-driver", also=_build_refused)
@click.option(
    "--driver", "version", required=True, metavar="V", help="The driver's version, such as 580.159.04."
)
@click.option("--kernel", required=True, metavar="K", help="The kernel's release on the target (uname -r).")
@click.option(
    "--flavour",
    type=click.Choice(["open", "proprietary"]),
    default="open",
    show_default=True,
    help="The kernel module.",
)
@click.option("--suite", default="bookworm", show_default=True, help="The Debian suite of the target.")
@click.option(
    "--sign-key", type=click.Path(path_type=Path), help="Sign the modules (passphrase: KBUILD_SIGN_PIN)."
)
@click.option("--sign-cert", type=click.Path(path_type=Path), help="The certificate of that key.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="The archive. [default: the cache that plans look in]"
)
def build_driver(
    version: str,
    kernel: str,
    flavour: str,
    suite: str,
    sign_key: Path | None,
    sign_cert: Path | None,
    output: Path | None,
) -> None:
    """Compiles a driver once, in a throw-away root, into an archive that hosts install in seconds.

    Needs root and some minutes; a second call finds the archive. Prints its path.
    """
    from provision.driver import command

    sys.exit(command.run(version, kernel, flavour, suite, sign_key, sign_cert, output))


main.add_command(init)
main.add_command(migrate)
main.add_command(inspect)
main.add_command(record)
main.add_command(status)
