"""``python -m provision.testhost.vm``: builds and boots a test host, for development and for one build as root."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

import click

from . import image, qemu
from .errors import TestHostError
from .gpu_server import register
from .host import EmulatedGpu, VirtualHost
from .pile import PILES
from .recipe import Recipe

_STARTED = time.monotonic()


def _say(line: str) -> None:
    click.echo(f"{time.monotonic() - _STARTED:6.1f} s  {line}", err=True)


def _faults(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[int, dict[int, int]]:
    made: dict[int, dict[int, int]] = {}
    for text in given:
        number, _sep, rest = text.partition(":")
        try:
            at, value = register(rest)
            made.setdefault(int(number), {})[at] = value
        except ValueError:
            raise click.BadParameter(f"{text!r} is not GPU:OFFSET=VALUE, like 0:a00=0") from None
    return made


@click.command(help=__doc__)
@click.option("--build", "only_build", is_flag=True, help="Build what is missing and boot nothing.")
@click.option("--pile", type=click.Choice(sorted(PILES)), default="full", help="What locks the GPUs.")
@click.option("--suite", default="bookworm", help="Debian suite of the host.")
@click.option("--gpus", type=click.IntRange(0, 8), default=2, help="How many emulated GPUs.")
@click.option(
    "--reg",
    "faults",
    multiple=True,
    callback=_faults,
    help="GPU:OFFSET=VALUE, a register that reads otherwise.",
)
@click.option("--memory", type=click.IntRange(512), default=2048, help="MiB.")
@click.option(
    "--outbound", is_flag=True, help="Let the host reach other machines; else it sees only this one."
)
@click.option("--keep", is_flag=True, help="Leave the host running and print how to reach it.")
@click.option("--wait", type=float, default=0, help="Seconds to wait for another test host to end.")
def main(
    only_build: bool,
    pile: str,
    suite: str,
    gpus: int,
    faults: Mapping[int, dict[int, int]],
    memory: int,
    outbound: bool,
    keep: bool,
    wait: float,
) -> None:
    try:
        found = image.ready(Recipe(suite=suite, pile=PILES[pile]), _say)
        if only_build:
            qemu.find(_say)
            click.echo(found.disk)
            return
        emulated = [EmulatedGpu(faults.get(number, {})) for number in range(gpus)]
        owner = "python -m provision.testhost.vm"
        host = VirtualHost(
            found, emulated, say=_say, owner=owner, wait=wait, memory=memory, outbound=outbound
        )
        with host as vm:
            click.echo(vm.ssh("cat /proc/cmdline; lspci -Dnnk -d 10de:").stdout, nl=False)
            if keep:
                end = vm.keep()
                click.echo(f"{vm.address.line()}\n{end}   # ends it")
    except TestHostError as error:
        click.secho(f"error: {error}", fg="red", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.secho("interrupted; nothing is left running", fg="red", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
