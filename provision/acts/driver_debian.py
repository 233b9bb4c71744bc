"""Route ``debian``: Debian's packages with DKMS, and the aliases that its modules are found by."""

from __future__ import annotations

import re

from pyinfra.api.host import Host

from provision.acts import driver_apt, shell
from provision.acts.voice import Voice
from provision.host import keeping
from provision.host.driver import Install

_ALIASES = "/etc/modprobe.d/kpro-nvidia-aliases.conf"
# Debian calls the modules nvidia-current*: where no line of its own leads there yet, the loader's file is copied.
_FIND = """
grep -qsE '^install[[:space:]]+nvidia[[:space:]]' /etc/modprobe.d/*.conf ||
  for f in /etc/nvidia/nvidia-modprobe.conf /etc/nvidia/current*/nvidia-modprobe.conf; do
    [ ! -e "$f" ] || { printf 'kpro aliases %s\\n' "$f"; break; }
  done
"""


def install(host: Host, wanted: Install, say: Voice) -> None:
    """Raises ActFailed; packages that came in a failed install are purged again."""
    driver_apt.install(host, wanted, say)
    said = shell.run(host, _FIND, "looking for Debian's module aliases")
    found = re.search(r"^kpro aliases (\S+)$", said, re.MULTILINE)
    if found:
        data = shell.run(host, f"cat {found[1]}", "reading Debian's module aliases").encode()
        keeping.before_file(host, say.run, _ALIASES, data)
        shell.put(host, _ALIASES, data, mode="644")
