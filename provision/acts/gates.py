"""The gates of step 9 as commands in the guest. They look; what is measured is kept in the guest, and nothing else."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping, Sequence

from pyinfra.api.host import Host

from provision.acts import shell
from provision.host import transport
from provision.stack.decide import UID
from provision.stack.desired import PYTHON, PYZ
from provision.stack.gates import Gate
from provision.stack.measured import FILES, FOLDER

_GRACE_S = 20
"""Seconds beyond the deadline for the way there and back, and for a check to end its own children."""

_AS_SERVICE = f"""
home=$(mktemp -d /tmp/kpro-gate.XXXXXX) && chown {UID}:{UID} "$home" || exit 3
trap 'rm -rf -- "$home"' EXIT
cd "$home" || exit 3
setpriv --reuid {UID} --regid {UID} --clear-groups --no-new-privs --inh-caps=-all \\
  env -i PATH=/usr/bin:/bin HOME="$home" TMPDIR="$home" LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \\
  CUDA_VISIBLE_DEVICES= HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 {{line}}
"""
"""Code of the engine runs as the service does, with a home of its own that goes away, without its secrets, and sees no
GPU: it is asked for its parser beside a service that may need all of their memory."""


def line_of(
    gate: Gate,
    words: Sequence[str],
    seconds: int,
    silences: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> str:
    """The command as the guest's shell gets it."""
    more = ["--silences", silences] if silences else []
    given = ["env", *(f"{name}={value}" for name, value in (variables or {}).items())] if variables else []
    line = shlex.join(
        ["timeout", "-k", "10", str(seconds), *given, PYTHON, PYZ, words[0], "--json", *more, *words[1:]]
    )
    return _AS_SERVICE.format(line=line) if gate.as_service else line


def by_hand(words: Sequence[str]) -> str:
    """The same for a person in the guest."""
    return shlex.join([PYTHON, PYZ, *words])


def ask(host: Host, line: str, seconds: int) -> transport.Completed:
    """Raises OSError when the guest cannot be asked, or gives no answer in time."""
    return transport.run(host, line, timeout=seconds + _GRACE_S)


_KEPT = f"""
cat /proc/sys/kernel/random/boot_id || exit 1
for name in {" ".join(FILES)}; do
  [ ! -e {FOLDER}/$name.json ] || printf '%s %s\\n' "$name" "$(base64 -w0 {FOLDER}/$name.json)"
done
"""


def kept(host: Host) -> tuple[str, dict[str, str]]:
    """The kernel's boot_id, and what is kept, by path. Raises OSError."""
    done = transport.run(host, _KEPT, timeout=60)
    if not done.ok:
        return "", {}
    boot, *lines = done.text.splitlines()
    found = {}
    for line in lines:
        name, _, text = line.partition(" ")
        found[f"{FOLDER}/{name}.json"] = base64.b64decode(text).decode(errors="replace")
    return boot.strip(), found


def keep(host: Host, path: str, text: str) -> None:
    """Keeps a measurement. Raises ActFailed."""
    shell.run(host, f"install -d -m 700 {FOLDER}", f"making {FOLDER}")
    shell.put(host, path, text.encode(), mode="600")
