"""Act of step 3, second half: the NVIDIA modules are loaded, and each named GPU is bound to them."""

from __future__ import annotations

import re
import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.data.loading import explain, records
from provision.host import keeping, transport
from provision.host.moves import Load
from provision.run.errors import ActFailed
from provision.templates import render

MODPROBE_SECONDS = 180
"""A module that probes eight GPUs takes some ten seconds; one that hangs must not hang the run."""


def load(host: Host, wanted: Load, say: Voice) -> None:
    """Loads the pinned driver and binds each named GPU. Raises ActFailed with what the kernel said."""
    keeping.before_binding(host, say.run, wanted.gpus)
    keeping.before_module(host, say.run)
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
        seconds=MODPROBE_SECONDS,
    )


def refusal(wanted: Load, rc: int, text: str) -> str:
    """What went wrong, from the script's output and the kernel's lines after ``--- kernel``."""
    said, _, kernel = text.partition("--- kernel")
    log = records(kernel)
    lines = [f"the NVIDIA driver {wanted.version} ({wanted.flavour}) was not loaded as wanted"]
    missing = re.search(r"^missing:(.*)$", said, re.MULTILINE)
    if missing:
        absent = missing[1].split()
        bound = [str(bdf) for bdf in wanted.gpus if str(bdf) not in absent]
        for bdf in absent:
            own = [line for line in log if bdf in line]
            # What is said of another GPU is no cause for this one.
            others = [str(other) for other in wanted.gpus if str(other) != bdf]
            common = [line for line in log if not any(other in line for other in others)]
            why = explain("\n".join(own)) or explain("\n".join(common))
            lines += [f"  {bdf} was not taken by nvidia: {'; '.join(why) or 'the kernel gave no reason'}"]
        lines.append(f"  {', '.join(bound)}: bound and unharmed" if bound else "  no GPU was bound")
    else:
        lines += [f"  {line.strip()}" for line in said.splitlines() if line.strip()][-8:]
        lines += [f"  {why}" for why in explain(text)]
    quoted = [line.strip() for line in log if "NVRM" in line or "nvidia" in line.lower()]
    lines += [f"    kernel: {line}" for line in dict.fromkeys(quoted[-12:])]
    return "\n".join(lines)
