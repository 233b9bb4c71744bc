"""Route ``prebuilt``: an archive of the controller is put in place in seconds, without a compiler."""

from __future__ import annotations

import shlex
from pathlib import Path

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.driver import cache, pack, places
from provision.driver.archive import Manifest, Prebuilt
from provision.driver.process import Failed
from provision.host import keeping
from provision.host.driver import Install
from provision.host.driver_seen import PREBUILT
from provision.run.errors import ActFailed
from provision.templates import render


def install(host: Host, wanted: Install, say: Voice) -> None:
    """Raises ActFailed."""
    for archive in wanted.archives:
        _install_one(host, wanted, archive, say)


def _install_one(host: Host, wanted: Install, archive: Prebuilt, say: Voice) -> None:
    on_host = f"{PREBUILT}/{archive.name}"
    local = cache.path_of(archive)
    try:
        manifest = _bring(host, local, on_host, say) if local.is_file() else _read(host, on_host)
    except Failed as error:
        raise ActFailed(str(error)) from error
    wrong = _wrong(wanted, archive, manifest)
    if wrong:
        raise ActFailed(f"{archive.name} is not installed: {wrong}")
    found = places.places(manifest)
    then = (f"depmod:{archive.kernel}", "ldconfig")
    digests = {placed.path: placed.digest for placed in found}
    keeping.before_tree(host, say.run, f"driver {archive.kernel}", digests, then)
    script = render(
        "driver-install.sh.j2",
        archive=shlex.quote(on_host),
        kernel=shlex.quote(archive.kernel),
        version=manifest.version,
        license={"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}[manifest.flavour],
        vermagic=shlex.quote(manifest.vermagic),
        signed=wanted.signed,
        modules=places.modules_folder(archive.kernel),
        receipt=places.receipt_path(archive.kernel),
        texts=[
            (placed.path, (placed.content or b"").decode()) for placed in found if placed.content is not None
        ],
        quote=shlex.quote,
    )
    shell.run(host, script, f"installing {archive.name}", stdin=_table(found).encode())


def _bring(host: Host, local: Path, on_host: str, say: Voice) -> Manifest:
    """Copies the archive unless the host has the same one. Raises Failed, ActFailed."""
    manifest = pack.manifest_of(local)
    digest = pack.digest(local)
    seen = shell.run(
        host,
        f"mkdir -p -m 700 {PREBUILT} && sha256sum <{on_host} 2>/dev/null || :",
        "looking for the archive",
    )
    if seen.split()[:1] != [digest]:
        say(f"driver {manifest.version}: putting {local.name} ({local.stat().st_size >> 20} MiB)")
        shell.put_file(host, str(local), on_host, mode="600", say=say)
    return manifest


def _read(host: Host, on_host: str) -> Manifest:
    text = shell.run(
        host, f"zstd -dc {on_host} | tar -xOf - manifest.json", f"reading the manifest of {on_host}"
    )
    try:
        return Manifest.parse(text)
    except ValueError as error:
        raise ActFailed(
            f"{on_host} is no prebuilt driver: {error}. Next: remove it, build it again"
        ) from error


def _wrong(wanted: Install, archive: Prebuilt, manifest: Manifest) -> str | None:
    """Why this archive is not the one that was asked for."""
    if manifest.prebuilt != archive:
        return f"inside it is {manifest.prebuilt.name}. Next: remove it and build it again"
    if manifest.vermagic.split()[0] != archive.kernel:
        return f"its modules are for kernel {manifest.vermagic.split()[0]}"
    if wanted.signed and manifest.signed is None:
        return (
            "the kernel takes signed modules only, and these are not. Next: provision build-driver … --sign-key KEY "
            "--sign-cert CERT, with a certificate that the machine has enrolled (mokutil --import)"
        )
    return None


def _table(found: tuple[places.Placed, ...]) -> str:
    """``f sha256 mode member path`` and ``l target path``, one a line; no path of ours has a space."""
    lines = []
    for placed in found:
        if placed.member is not None:
            lines.append(f"f {placed.digest} {placed.mode} {placed.member} {placed.path}")
        elif placed.target is not None:
            lines.append(f"l - - {placed.target} {placed.path}")
    return "\n".join(lines) + "\n"
