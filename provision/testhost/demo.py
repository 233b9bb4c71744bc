"""``provision demo``: the whole chain on this machine, in a throw-away container, twice, then cleaned up."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from provision.data import demo
from provision.data.demo import CONTAINER
from provision.run import ending
from provision.run.errors import EXIT_DONE, EXIT_LOCKED, EXIT_REFUSED, EXIT_USAGE, EXITS_TOLD, RunError
from provision.testhost import demo_files
from provision.testhost.telling import Telling

INVENTORY = "demo_quick"
_FIRST_APPLY = 2
"""Up to here no container was made by this run."""
_MARKER = Path("/run/kpro/guests", CONTAINER)
"""What it was started with, noted by the run that starts it."""
_KEPT = "/var/lib/kpro"
_REMOVAL = f"lxc-stop -k -n {CONTAINER}; lxc-destroy -n {CONTAINER} && rm -f {_MARKER}"
CLEAN_SECONDS = 120
_REMOVING = f"the container {CONTAINER} is removed first, {{}} s at most; should it stay: {_REMOVAL}"
_MARK = f"# Written by kpro for demo/{CONTAINER}."


def run(commands: Any, *, keep: bool) -> int:
    """Gives the exit code of the first part that did not end as it must. ``commands`` is provision.run.commands.

    Whatever happens, nothing is left running, unless ``keep``.
    """
    with ending.listening():
        return _run(commands, keep=keep)


def _run(commands: Any, *, keep: bool) -> int:
    parts: list[tuple[str, Callable[[], int]]] = [
        ("make the engine's wheel and a tiny model", _files),
        (
            "apply: from nothing to an answering service",
            lambda: commands.apply(INVENTORY, (), None, True, False),
        ),
        ("apply again: nothing to do", lambda: commands.apply(INVENTORY, (), None, True, False)),
        ("plan: in sync", lambda: commands.plan(INVENTORY, (), None, None, False)),
    ]
    times: list[tuple[str, float]] = []
    telling = Telling("demo --quick")
    code = EXIT_DONE
    earlier = _ours() is not None
    try:
        for number, (title, part) in enumerate(parts, 1):
            click.secho(f"\n[{number}/{len(parts)}] {title}", bold=True, err=True)
            started = time.monotonic()
            with telling.step(title) as said:
                code = part()
                if code != EXIT_DONE:
                    said |= {"state": "failed", "why": f"it ended with {code}"}
            times.append((title, time.monotonic() - started))
            if code != EXIT_DONE:
                break
    except OSError as error:
        click.secho(f"error: {error}", fg="red", err=True)
        code = 1
    except KeyboardInterrupt:
        code = ending.code()
    finally:
        if len(times) <= _FIRST_APPLY and _nothing_made(code, earlier):
            _say_nothing_made(code)
        elif keep and _ours() is None:
            click.echo(f"\nnothing is kept: there is no container {CONTAINER} of the demonstration", err=True)
        elif keep:
            click.echo(
                f"\nkept: look into it with  lxc-attach -n {CONTAINER}  and remove it with\n  {_REMOVAL}",
                err=True,
            )
        else:
            _clean_up_first()
    _report(times, code)
    telling.end(code, lambda text: click.echo(f"  {text}", err=True))
    return code


def _nothing_made(code: int, earlier: bool) -> bool:
    """``earlier``: a container of the demonstration was there before. A run that was refused may have made one before
    it came to that; one that found the machine held by another made nothing, whatever lies there by now."""
    refused = code in (EXIT_REFUSED, EXIT_USAGE)
    return code == EXIT_LOCKED or (refused and (earlier or _ours() is None))


def _say_nothing_made(code: int) -> None:
    click.secho("\nnothing was made, so nothing is kept or removed", fg="yellow", err=True)
    if _ours() is None:
        return
    whose = "the run that holds the machine, or an earlier one" if code == EXIT_LOCKED else "an earlier one"
    click.echo(
        f"the container {CONTAINER} is that of {whose}, and as it was; once nobody needs it, remove it with\n"
        f"  {_REMOVAL}",
        err=True,
    )


def _files() -> int:
    demo_files.prepare(demo_files.demo_folder())
    return EXIT_DONE


def _report(times: list[tuple[str, float]], code: int) -> None:
    click.secho("\nreport", bold=True, err=True)
    for title, seconds in times:
        click.echo(f"  {seconds:6.1f} s  {title}", err=True)
    if code == EXIT_DONE:
        click.secho(
            "  the service in the container answered; a second run changed nothing", fg="green", err=True
        )
    elif code in EXITS_TOLD:
        click.secho("  interrupted; run it again to see all of it", fg="yellow", err=True)
    else:
        click.secho(f"  ended with {code}; the reasons are above", fg="red", err=True)


def _ours() -> Path | None:
    """The configuration of the demonstration's container; None where there is none, or it is somebody else's."""
    folder = _lxcpath()
    try:
        config = folder / CONTAINER / "config" if folder else None
        return config if config and config.read_text().startswith(_MARK) else None
    except OSError:
        return None


def _clean_up_first() -> None:
    """Whatever is pressed meanwhile: it ends right after this."""
    try:
        with suppress(KeyboardInterrupt), ending.held(_REMOVING.format(CLEAN_SECONDS), CLEAN_SECONDS):
            _clean_up()
    except RunError as error:
        click.secho(
            f"container {CONTAINER} may be left: {error}; remove it with\n  {_REMOVAL}", fg="red", err=True
        )


def _clean_up() -> None:
    """Removes the demonstration's container, and only a container that says it is that."""
    folder = _lxcpath()
    if folder is None:
        return
    # Copies of the demonstration's own model.
    shutil.rmtree(demo.folder(demo.MACHINE_MODELS), ignore_errors=True)
    # What an interrupted creation left is the demonstration's by its name.
    shutil.rmtree(folder / f".kpro-{CONTAINER}.partial", ignore_errors=True)
    if _ours() is None:
        if not (folder / CONTAINER).exists():
            # Somebody removed it by hand, or it was cut before it was made.
            _MARKER.unlink(missing_ok=True)
        return
    # In sessions of their own: a Ctrl-C of the terminal goes to all that share this one's.
    subprocess.run(
        ["lxc-stop", "-k", "-n", CONTAINER], capture_output=True, check=False, start_new_session=True
    )
    done = subprocess.run(
        ["lxc-destroy", "-n", CONTAINER],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    if done.returncode == 0:
        _MARKER.unlink(missing_ok=True)
        click.echo(
            f"\ncleaned up: container {CONTAINER} is removed (its root stays in /var/cache/kpro/roots; "
            f"{_KEPT}/manifest.json and undo.sh still list it, and find it gone already)",
            err=True,
        )
    else:
        click.secho(f"container {CONTAINER} could not be removed: {done.stderr.strip()}", fg="red", err=True)


def _lxcpath() -> Path | None:
    if shutil.which("lxc-config") is None:
        return None
    done = subprocess.run(["lxc-config", "lxc.lxcpath"], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip()) if done.returncode == 0 else None
