"""The root of a container: a Debian system built once on the machine, from the mirrors that its own apt uses.

The tarball is kept under its recipe's digest, so a second container of the same kind costs the unpacking
only. What the machine needs to reach its package indexes goes in with it: pip's and uv's system-wide files,
the apt proxy, and local CA certificates.

uv has certificates of its own and ignores the system's unless it is told: where a local CA is in use, run it
with ``SSL_CERT_FILE=`` CA_BUNDLE. (``system-certs`` in uv.toml does the same for new versions of uv, but uv
0.9 refuses a file with that key, so none is invented here.)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from provision.guest.root_recipe import GIVEN, PACKAGES, ROOTS, SCRIPT, root_file

CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
"""Debian's bundle of trusted certificates, local ones included."""

_CARRIED = ("/etc/uv/uv.toml", "/etc/pip.conf")


def build_script(suite: str, packages: Iterable[str] = PACKAGES, folder: str = ROOTS) -> str:
    """Shell text that leaves a root tarball at ``root_file(...)``, for ``sh -s`` as root on the machine.

    A tarball that is there is kept, unless the files carried into it changed; one whose ``.carried`` says ``given`` is
    never built anew. Progress goes to standard
    error, the tarball's path to standard output; exit 1 with one line that says what is missing.
    Interrupted, it leaves the old tarball or none.
    """
    wanted = sorted(set(packages))
    return SCRIPT.format(
        folder=shlex.quote(folder),
        tar=shlex.quote(root_file(suite, wanted, folder)),
        suite=shlex.quote(suite),
        given=GIVEN,
        packages=shlex.quote(",".join(wanted)),
        carried=" ".join(shlex.quote(path) for path in _CARRIED),
    )
