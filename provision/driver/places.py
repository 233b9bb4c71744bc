"""Where the files of a prebuilt driver go on a host. Pure.

User space has a folder of its own for each version, so that it can be taken away again exactly and never mixes with a
distribution's; the linker and PATH are led to it. ``/usr/bin/nvidia-modprobe`` is the one path outside: NVIDIA's
libraries run it by that name to make device nodes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from provision.driver.archive import Manifest, Prebuilt

TOP = "/opt/kpro/driver"
RECEIPTS = "/var/lib/kpro/driver"
"""One receipt for each kernel, ``<kernel>.files``: a first line ``# <route> <version> <flavour>``, then
``<size> <path>`` for every file that was installed. It is written last."""

LINKER = "/etc/ld.so.conf.d/kpro-nvidia.conf"
NOUVEAU = "/etc/modprobe.d/kpro-nvidia.conf"
_NO_NOUVEAU = (
    "# Written by kpro: nouveau would take the GPUs before nvidia does.\n"
    "blacklist nouveau\noptions nouveau modeset=0\n"
)


@dataclass(frozen=True)
class Placed:
    """A file with its ``content`` here, or from ``member`` of the archive, or a link to ``target``."""

    path: str
    size: int
    digest: str
    mode: str = "644"
    member: str | None = None
    content: bytes | None = None
    target: str | None = None


def folder(prebuilt: Prebuilt) -> str:
    return f"{TOP}/{prebuilt.version}-{prebuilt.flavour}"


def modules_folder(kernel: str) -> str:
    return f"/lib/modules/{kernel}/updates/kpro"


def receipt_path(kernel: str) -> str:
    return f"{RECEIPTS}/{kernel}.files"


def _text(path: str, text: str) -> Placed:
    data = text.encode()
    return Placed(path, len(data), hashlib.sha256(data).hexdigest(), content=data)


def _link(path: str, target: str) -> Placed:
    return Placed(path, len(target.encode()), f"link:{target}", mode="777", target=target)


def places(manifest: Manifest) -> tuple[Placed, ...]:
    """Every file, with the receipt as the last."""
    prebuilt = manifest.prebuilt
    top = folder(prebuilt)
    into = {
        "modules": modules_folder(prebuilt.kernel),
        "firmware": f"/lib/firmware/nvidia/{prebuilt.version}",
        "bin": f"{top}/bin",
        "lib": f"{top}/lib",
    }
    found = []
    for member in manifest.files:
        kind, name = member.path.split("/")
        found.append(Placed(f"{into[kind]}/{name}", member.size, member.sha256, member.mode, member.path))
    for path, target in sorted(manifest.links.items()):
        kind, name = path.split("/")
        found.append(_link(f"{into[kind]}/{name}", target))
    programs = [member.path.split("/")[1] for member in manifest.files if member.path.startswith("bin/")]
    found += [_link(f"/usr/local/bin/{name}", f"{top}/bin/{name}") for name in programs]
    if "nvidia-modprobe" in programs:
        found.append(_link("/usr/bin/nvidia-modprobe", f"{top}/bin/nvidia-modprobe"))
    found.append(_text(f"{into['firmware']}/.kpro", "Written by kpro.\n"))
    found += [_text(LINKER, f"{top}/lib\n"), _text(NOUVEAU, _NO_NOUVEAU)]
    lines = "".join(f"{placed.size} {placed.path}\n" for placed in found)
    head = f"# prebuilt {prebuilt.version} {prebuilt.flavour}\n"
    return (*found, _text(receipt_path(prebuilt.kernel), head + lines))
