"""The command line of provcheck. A command is one row here; its module is imported when it is called.

The children that look at hardware (``_probe``) are dispatched before click is imported: they start fast and
need nothing but the standard library and pynvml.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from typing import NamedTuple

from checks import crash, standard
from checks.ending import Told, in_order
from checks.errors import BadInput

EXIT_USAGE, EXIT_UNKNOWN = 2, 3


class Row(NamedTuple):
    """``target`` is ``module:attribute`` of a click command; ``help`` is its line in ``provcheck --help``."""

    target: str
    help: str
    hidden: bool = False


COMMANDS: dict[str, Row] = {
    "gpus": Row("checks.gpus.command:gpus", "Are all GPUs there and healthy? Passive: reads only."),
    "load": Row(
        "checks.load.command:load", "Do the GPUs work? Puts them to work for seconds, checks results."
    ),
    "nccl": Row(
        "checks.nccl.command:nccl", "Do peer copies and collectives work, and how fast? Without PyTorch."
    ),
    "drafter": Row(
        "checks.drafter.command:command",
        "Does a draft model's config fit its target and this engine version?",
    ),
    "flags": Row("checks.flags.command:flags", "Does this engine version take this command line?"),
    "fit": Row("checks.fit.command:fit", "Will the model fit these GPUs at this context length? From files."),
    "serve": Row(
        "checks.serving.serve_command:serve", "Is a served model generating as it should? Names the cause."
    ),
    "compare": Row("checks.serving.compare_command:compare", "Two services: what differs in effect, ranked."),
    "all": Row("checks.whole:everything", "gpus, load, nccl and a served model as one report."),
    "explain": Row("checks.explain:explain", "What a finding means, why it matters and how to mend it."),
    "bundle": Row(
        "checks.bundle.command:bundle", "Evidence and logs in one file to hand on, without secrets."
    ),
    "integrate": Row(
        "checks.integrate:integrate", "Files for systemd, Slurm, node_exporter, Kubernetes, NPD."
    ),
    "pack": Row("checks.pack_command:pack", "All of provcheck as one file that plain python3 runs."),
    "completion": Row(
        "checks.completion:completion", "Lets bash, zsh or fish complete commands and finding ids."
    ),
    "_observe": Row("checks.serving.serve_command:observe", "The record of a service, printed.", hidden=True),
    "_generate": Row(
        "checks.serving.command:generate", "Waits until a server really generates.", hidden=True
    ),
    "_drain": Row(
        "checks.serving.cutover_command:drain", "Waits until a server has nothing to do.", hidden=True
    ),
    "_room": Row("checks.serving.cutover_command:room", "Memory that a trial may take.", hidden=True),
    "_verdict": Row(
        "checks.serving.cutover_command:verdict", "What a measurement means for a profile.", hidden=True
    ),
    "_lasterror": Row("checks.serving.cutover_command:last_error", "Why an engine ended.", hidden=True),
    "_answers": Row(
        "checks.serving.answers_command:answers", "Is another service the same model?", hidden=True
    ),
    "_outcome": Row("checks.serving.cutover_command:outcome", "What is remembered of a trial.", hidden=True),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; never a traceback for what the caller did wrong."""
    args = list(sys.argv[1:] if argv is None else argv)
    told = Told()
    try:
        if args[:1] == ["_probe"]:
            from checks.probe import main as probe

            return probe(args[1:])
        with in_order(told):
            standard.open_all()
            standard.unbroken()
            crash.tell()
            return _told(_run(args))
    except BadInput as error:
        for line in str(error).splitlines():
            standard.complain(f"provcheck: {line}")
        return EXIT_USAGE
    except KeyboardInterrupt:
        standard.complain("provcheck: interrupted, no verdict")
        return told.code
    except OSError as error:
        standard.forget()
        standard.complain(f"provcheck: no verdict, the machine refused what a check needs: {error}")
        return EXIT_UNKNOWN


def _told(code: int) -> int:
    """The exit code; that of no verdict when what was said could not be written. A reader that had enough (``| head``)
    is no error."""
    error = standard.flushed()
    if error is None or error.errno == errno.EPIPE:
        return code
    standard.complain(f"provcheck: what it says could not be written: {error.strerror}")
    return EXIT_UNKNOWN


def _run(args: Sequence[str]) -> int:
    if args[:1] != ["gpus"]:
        from checks.group import run

        return run(args, COMMANDS)
    from checks.gpus import early

    early.start(args[1:])
    try:
        from checks.group import run

        return run(args, COMMANDS)
    finally:
        early.stop()
