"""Act of step 3, second half: the NVIDIA modules are loaded, and each named GPU is bound to them."""

from __future__ import annotations

import re
import shlex

from pyinfra.api.host import Host

from checks.bdf import Bdf
from checks.gpus import kernlog
from checks.gpus.kernlog import KernelLog
from provision.acts import shell
from provision.acts.voice import Voice
from provision.data import gpu_daemons
from provision.data.loading import explain
from provision.host import keeping, transport
from provision.host.moves import Load
from provision.host.users import UNLOADED
from provision.run.errors import ActFailed
from provision.templates import render

MODPROBE_SECONDS = 180
"""A module that probes eight GPUs takes some ten seconds; one that hangs must not hang the run."""


def load(host: Host, wanted: Load, say: Voice) -> None:
    """Loads the pinned driver and binds each named GPU. Raises ActFailed with what the kernel said."""
    # What the driver that goes has bound comes back with it.
    keeping.before_binding(host, say.run, wanted.gpus, besides="nvidia" if wanted.instead else None)
    keeping.before_module(host, say.run, (wanted.version, wanted.flavour))
    say(f"loading the NVIDIA modules {wanted.version}")
    try:
        done = transport.run(host, shell.BUSY_PREFIX + load_script(wanted), timeout=3 * MODPROBE_SECONDS)
    except OSError as error:
        raise ActFailed(f"loading the NVIDIA modules: {error}") from error
    if not done.ok:
        raise ActFailed(refusal(wanted, done.rc, f"{done.text}\n{done.error_text}"))


def load_script(wanted: Load) -> str:
    return render(
        "driver-load.sh.j2",
        gpus=wanted.gpus,
        keep=wanted.keep,
        version=shlex.quote(wanted.version),
        flavour=wanted.flavour,
        seconds=MODPROBE_SECONDS,
        daemons=gpu_daemons.UNITS,
        modules=UNLOADED,
    )


def refusal(wanted: Load, rc: int, text: str) -> str:
    """What went wrong, from the script's output and the kernel's lines after ``--- kernel``."""
    said, _, kernel = text.partition("--- kernel")
    log = kernlog.read(kernel)
    lines = [f"the NVIDIA driver {wanted.version} ({wanted.flavour}) was not loaded as wanted"]
    missing = re.search(r"^missing:(.*)$", said, re.MULTILINE)
    if missing:
        absent = [bdf for bdf in wanted.gpus if str(bdf) in missing[1].split()]
        bound = [str(bdf) for bdf in wanted.gpus if bdf not in absent]
        lines += [f"  {bdf} was not taken by nvidia: {_why(wanted, log, bdf)}" for bdf in absent]
        lines.append(f"  {', '.join(bound)}: bound and unharmed" if bound else "  no GPU was bound")
    else:
        lines += [f"  {line.strip()}" for line in said.splitlines() if line.strip()][-8:]
        lines += [f"  {bdf}: {story}" for bdf in wanted.gpus if (story := _story(log, bdf))]
        lines += [f"  {why}" for why in explain((*said.splitlines(), *log.lines))]
    quoted = [line.strip() for line in log.lines if "NVRM" in line or "nvidia" in line.lower()]
    lines += [f"    kernel: {line}" for line in dict.fromkeys(quoted[-12:])]
    return "\n".join(lines)


def _why(wanted: Load, log: KernelLog, bdf: Bdf) -> str:
    """The kernel's own word on this GPU, else what it said in general: what is said of another GPU is no cause here."""
    others = [str(other) for other in wanted.gpus if other != bdf]
    common = [line for line in log.lines if not any(other in line for other in others)]
    return _story(log, bdf) or "; ".join(explain(common)) or "the kernel gave no reason"


def _story(log: KernelLog, bdf: Bdf) -> str:
    story = log.about(bdf)
    return f"{story.quoted}; {story.row.cause}. Next: {story.row.fix}" if story else ""
