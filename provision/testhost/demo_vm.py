"""``provision demo``: the whole chain against a virtual host whose two GPUs are locked in vfio-pci, and a report."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from provision.data import demo
from provision.data.demo import CONTAINER
from provision.driver import cache as prebuilt
from provision.driver import command as build_driver
from provision.driver.archive import Prebuilt
from provision.run import ending, journal
from provision.run.errors import EXIT_DONE, EXIT_ERROR, EXIT_LOCKED, EXIT_PENDING, EXITS_TOLD, RunError
from provision.testhost import demo_files
from provision.testhost.files import write_whole
from provision.testhost.report import Demo, GateSeen, GpuSeen, Timed, claims, ends_with, render
from provision.testhost.telling import Telling
from provision.testhost.vm import image, qemu
from provision.testhost.vm.command import bdf
from provision.testhost.vm.errors import TestHostBusy, TestHostError
from provision.testhost.vm.host import VirtualHost
from provision.testhost.vm.image import Image
from provision.testhost.vm.recipe import Recipe

T = TypeVar("T")

INVENTORY, PARTS = "demo", 7
GPUS = (bdf(0), bdf(1))
END_SECONDS = 120
_ENDING = f"the virtual host is ended first, {END_SECONDS} s at most"

LOOK_AT_GPUS = "for g in {gpus}; do echo $g $(basename $(readlink /sys/bus/pci/devices/$g/driver)); done"
NODES = (
    "for g in {gpus}; do m=$(sed -n 's/^Device Minor:[[:space:]]*//p' /proc/driver/nvidia/gpus/$g/information); "
    "lxc-attach -n {container} -- test -c /dev/nvidia$m && echo $g /dev/nvidia$m; done"
)
LIVE_GATE = "lxc-attach -n {container} -- python3 /opt/kpro/provcheck.pyz gpus --expect 2 --json"


class Stopped(Exception):
    """A part did not end as it must; the code is the demonstration's."""

    def __init__(self, code: int, why: str) -> None:
        self.code = code
        super().__init__(why)


@dataclass
class Story:
    """What was done and seen so far."""

    commands: Any
    telling: Telling
    seen: Demo = field(default_factory=lambda: Demo(steps=(), pin=demo.DRIVER))

    def part(self, title: str, body: Callable[[], T], note: Callable[[T], str] = lambda _: "") -> T:
        """Runs one part and keeps its seconds, with a note on what came of it for the report."""
        click.secho(f"\n[{len(self.seen.steps) + 1}/{PARTS}] {title}", bold=True, err=True)
        started, said = time.monotonic(), ""
        try:
            with self.telling.step(title) as told:
                made = body()
                said = told["text"] = note(made)
            return made
        finally:
            timed = Timed(title, time.monotonic() - started, said)
            self.seen = replace(self.seen, steps=(*self.seen.steps, timed))


def build() -> int:
    """Builds what is missing, as root, so that everything else runs as anybody. Gives the exit code."""
    with ending.listening():
        try:
            return _driver(_image().kernel)
        except (OSError, TestHostError) as error:
            click.secho(f"error: {error}", fg="red", err=True)
        except KeyboardInterrupt:
            click.secho("interrupted", fg="yellow", err=True)
            return ending.code()
        return EXIT_ERROR


def _image() -> Image:
    qemu.find(_say)
    return image.ready(Recipe(), _say)


def _driver(kernel: str) -> int:
    if Prebuilt(demo.DRIVER, demo.FLAVOUR, kernel) in prebuilt.held():
        return EXIT_DONE
    return build_driver.run(demo.DRIVER, kernel, demo.FLAVOUR, "bookworm", None, None, None)


def run(commands: Any, *, keep: bool) -> int:
    """Gives the exit code. ``commands`` is provision.run.commands. Nothing is left running, unless ``keep``."""
    with ending.listening():
        return _run(commands, keep=keep)


def _run(commands: Any, *, keep: bool) -> int:
    _forget_the_dead()
    story = Story(commands, Telling("demo"))
    code, stopped, kept = EXIT_DONE, None, ""
    with ExitStack() as stack:
        try:
            host = _tell(story, stack)
            if keep:
                kept = _keep(host, stack)
        except Stopped as error:
            code, stopped = error.code, str(error)
        except TestHostBusy as error:
            code, stopped = EXIT_LOCKED, str(error)
        except (OSError, TestHostError) as error:
            code, stopped = EXIT_ERROR, str(error)
        except KeyboardInterrupt:
            code, stopped = ending.code(), ""
        # One that does not end in time is ended with this process, by its leash.
        with suppress(KeyboardInterrupt, RunError), ending.held(_ENDING, END_SECONDS):
            stack.close()
    seen = replace(story.seen, exit_code=code, stopped=stopped)
    if seen.boot_seconds is None:
        said = "interrupted" if code in EXITS_TOLD else f"error: {stopped}"
        click.secho(said, fg="yellow" if code in EXITS_TOLD else "red", err=True)
    else:
        click.echo("\n" + render(seen, colour=sys.stderr.isatty()) + kept, err=True, nl=False)
        code = ends_with(seen)
        story.telling.write("claims", claims=[claim._asdict() for claim in claims(seen)])
    story.telling.end(code, _say)
    return code


def _tell(story: Story, stack: ExitStack) -> VirtualHost:
    story.part(
        "make the engine's wheel and a tiny model", lambda: demo_files.prepare(demo_files.demo_folder())
    )
    found = story.part(
        "build the virtual host: Debian 12, two emulated RTX A6000 (minutes, once)",
        _image,
        lambda made: f"kernel {made.kernel}",
    )
    if code := story.part(
        f"build driver {demo.DRIVER} for its kernel (minutes, once)", lambda: _driver(found.kernel)
    ):
        raise Stopped(code, "the driver could not be built")
    host = story.part(
        "boot it from its own disk: both GPUs are bound to vfio-pci",
        lambda: stack.enter_context(VirtualHost(found, say=_say, owner="provision demo")),
        lambda made: "KVM" if made.kvm else "emulated: KVM does not work here",
    )
    stack.callback(_forget)
    _remember(host)
    locked = _lines(host.ssh(LOOK_AT_GPUS.format(gpus=" ".join(GPUS))).stdout)
    story.seen = replace(
        story.seen,
        boot_seconds=story.seen.steps[-1].seconds,
        gpus=tuple(GpuSeen(gpu, (locked.get(gpu, "no driver"),)) for gpu in GPUS),
    )
    story.part("plan: what would be done", lambda: _planned(story))
    story.part("apply: from locked GPUs to an answering service", lambda: _applied(story, host))
    story.part("apply again: nothing to do", lambda: _again(story))
    return host


def _planned(story: Story) -> None:
    code = story.commands.plan(INVENTORY, (), None, None, False)
    if code != EXIT_PENDING:
        raise Stopped(code or EXIT_ERROR, "the plan of locked GPUs must have changes")


def _applied(story: Story, host: VirtualHost) -> None:
    code, events = _apply(story)
    gpus = " ".join(GPUS)
    drivers = _lines(host.ssh(LOOK_AT_GPUS.format(gpus=gpus), check=False).stdout)
    nodes = _lines(host.ssh(NODES.format(gpus=gpus, container=CONTAINER), check=False).stdout)
    version = host.ssh("cat /sys/module/nvidia/version", check=False).stdout.strip()
    story.seen = replace(
        story.seen,
        gpus=tuple(
            replace(gpu, driver=drivers.get(gpu.bdf), node=nodes.get(gpu.bdf)) for gpu in story.seen.gpus
        ),
        driver=version or None,
        gate=next((GateSeen(e["verdict"], e["evidence"]) for e in events if e["event"] == "gate"), None),
        answer=next((e["text"] for e in events if e["event"] == "answered"), None),
    )
    if code:
        raise Stopped(code, "the run did not end as it must; the reasons are above")
    story.seen = replace(story.seen, live_gate=_honest(host))


def _again(story: Story) -> None:
    code, events = _apply(story)
    if events:
        changed = sum(1 for event in events if event["event"] == "done")
        story.seen = replace(story.seen, second_run_changes=changed)
    if code:
        raise Stopped(code, "the second run did not end as it must; the reasons are above")


def _honest(host: VirtualHost) -> GateSeen | None:
    """The gate's verdict without the record: the emulated GPUs have no silicon behind them, and it must say so."""
    done = host.ssh(LIVE_GATE.format(container=CONTAINER), check=False, timeout=300)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return None
    said = [
        f["message"] for f in report["findings"] if f["id"] == "driver.adapter_init" and f["status"] == "fail"
    ]
    quoted = [text.partition("the kernel: ")[2] for text in said]
    return GateSeen(report["verdict"], report["evidence"], quoted[0] if quoted else None)


def _apply(story: Story) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and what that very run wrote into its journal: others may run beside it."""
    before = len(story.telling.runs)
    code = story.commands.apply(INVENTORY, (), None, True, False)
    return code, [event for run in story.telling.runs[before:] for event in journal.read(run)]


def _lines(text: str) -> dict[str, str]:
    return {words[0]: words[1] for words in map(str.split, text.splitlines()) if len(words) == 2}


def _state() -> Path:
    return demo.folder(demo.HOST_FILE)


def _remember(host: VirtualHost, pid: int | None = None) -> None:
    address = host.address
    state = {
        "host": address.host,
        "port": address.port,
        "key": str(address.key),
        "known_hosts": str(address.known_hosts),
        **({"pid": pid} if pid else {}),
    }
    write_whole(_state(), json.dumps(state).encode())


def _forget() -> None:
    _state().unlink(missing_ok=True)


def _forget_the_dead() -> None:
    """The file of a host whose demonstration was killed: nobody answers there any more. What cannot be read is no help
    to anybody either."""
    try:
        host = demo.host()
        with socket.create_connection((host.address, host.port), timeout=5):
            return
    except (OSError, demo.NoVirtualHost):
        _forget()


def _keep(host: VirtualHost, stack: ExitStack) -> str:
    end = host.keep()
    _remember(host, int(end.split()[-1]))
    stack.pop_all()
    program = Path(sys.argv[0])
    return (
        f"\nkept: log in with\n  {host.address.line()}\nplay with  {program} plan demo; {program} rollback demo\n"
        f"and end it with  {end}   (its files go with the next one)\n"
    )


def _say(text: str) -> None:
    click.echo(f"  {text}", err=True)
