"""The act of patching: what a guest has is read, patched on the controller in memory, and put back file by file.

One reader and one judge of patches for wheels here and packages there, and nothing has to be in the guest for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.host import transport
from provision.run.errors import ActFailed
from provision.stack.engine import patches
from provision.stack.engine.desired import DesiredEngine

_RECORDS = "cd {site} && ls -d {distribution}-*.dist-info/RECORD"


def patch_installed(host: Host, engine: DesiredEngine, say: Voice) -> None:
    """Patches what was installed into a new environment, and its RECORD. Raises ActFailed."""
    text = shell.run(
        host,
        _RECORDS.format(site=shlex.quote(engine.site), distribution=engine.distribution),
        f"looking for the RECORD of {engine.requirement}",
    )
    found = text.split()
    if len(found) != 1:
        raise ActFailed(f"{engine.site} has {len(found)} records of {engine.requirement}, not one")
    changed = patch(host, engine, engine.site, engine.requirement, say)
    record = _read(host, f"{engine.site}/{found[0]}")
    if record is None:
        raise ActFailed(f"{engine.site}/{found[0]} is gone")
    shell.put(
        host, f"{engine.site}/{found[0]}", patches.record(record.decode(), changed).encode(), mode="644"
    )


def patch(host: Host, engine: DesiredEngine, folder: str, of: str, say: Voice) -> Mapping[str, str | None]:
    """Applies all patches below a folder or none; returns what each file is now. Raises ActFailed."""
    try:
        files = patches.read_all(patches.paths(engine.patches), lambda path: _read(host, f"{folder}/{path}"))
        changed = patches.apply(engine.patches, files, of)
    except patches.Rejected as error:
        raise ActFailed(str(error)) from None
    for one in engine.patches:
        say(f"{of} is patched by {one.name}: {one.why}")
    for path, content in changed.items():
        where = f"{folder}/{path}"
        if content is None:
            shell.run(host, f"rm -f -- {shlex.quote(where)}", f"deleting {where}")
            continue
        parent = shlex.quote(where.rpartition("/")[0])
        # A file that Python made of the source as it was must not outlive it.
        stem = shlex.quote(path.rpartition("/")[2].removesuffix(".py"))
        shell.run(
            host,
            f"umask 022; mkdir -p -- {parent} && rm -f -- {parent}/__pycache__/{stem}.*.pyc",
            f"preparing {where}",
        )
        shell.put(host, where, content.encode(), mode="644")
    return changed


def _read(host: Host, path: str) -> bytes | None:
    """A plain file of the guest, None when it is not there. Raises ActFailed."""
    quoted = shlex.quote(path)
    done = transport.run(
        host,
        f"[ -e {quoted} ] || [ -L {quoted} ] || exit 44; [ ! -L {quoted} ] && [ -f {quoted} ] && cat -- {quoted}",
    )
    if done.rc == 44:
        return None
    if not done.ok:
        raise ActFailed(f"{path} cannot be read, or is no plain file: {shell.tail(done)}")
    return done.stdout
