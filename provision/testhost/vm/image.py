"""The disk image of the test host: built natively as root, kept by the digest of what goes into it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from provision.debian import COMPONENTS
from provision.guest import root, root_recipe

from . import building, cache, disk, mirror
from .cache import Say
from .errors import TestHostError
from .recipe import (
    DISK_BYTES,
    SLIM_INITRAMFS,
    Identity,
    Recipe,
    digest,
    files,
    grub_cfg,
    links,
    uuids,
)

GUEST_SUITE = "bookworm"
"""The suite whose container root lies ready in the image, so that none is built under emulation."""


KERNEL = "vmlinuz"
"""The image's kernel, beside the disk: what KVM is tried with."""


@dataclass(frozen=True)
class Image:
    """``disk`` is only ever read: machines write to overlays. ``key`` lets root in, ``host_key`` is theirs."""

    disk: Path
    kernel_file: Path
    kernel: str
    marker: str
    key: Path
    host_key: str


def ready(recipe: Recipe, say: Say) -> Image:
    """The image of ``recipe``, built when the cache has none of the same content.

    Raises TestHostError with the next step when it cannot be built.
    """
    where = cache.folder()
    key, identity = _identity(where)
    sources, settings, carried = mirror.mirror(), mirror.apt_settings(), mirror.carried()
    system_content = (recipe.suite, sorted(recipe.packages), settings, carried, sources, _TREE_HOOK)
    container = Path(root_recipe.root_file(GUEST_SUITE)).name
    laid = files(recipe, identity, "", "")
    boot = (grub_cfg(recipe, "", ""), dict(links()), SLIM_INITRAMFS, _FINISH, disk.LAYOUT, KERNEL)
    content = digest(system_content, laid, boot, container, DISK_BYTES)
    marker, fs_uuid = uuids(content)

    def build(made: Path) -> None:
        building.demand_root(f"the image of the test host ({recipe.suite})")
        system = cache.kept(
            where / "system",
            digest(system_content),
            lambda folder: _build_system(folder, recipe, say),
            say,
            f"the packages of {recipe.suite}",
        )
        tree = made / "tree"
        tree.mkdir()
        keep_all = ("--numeric-owner", "--xattrs", "--xattrs-include=*")
        unpack = ["tar", "-C", str(tree), *keep_all, "-xf", str(system / "system.tar")]
        building.run(unpack, say, "unpacking")
        kernel = _furnish(tree, recipe, files(recipe, identity, marker, fs_uuid), fs_uuid, say)
        _lay_root_ready(tree, where.parent / "roots", say)
        say("writing the disk")
        disk.write_disk(tree, made / "disk.raw", DISK_BYTES, fs_uuid, tree / "boot/grub/i386-pc")
        shutil.copyfile(tree / "boot" / f"vmlinuz-{kernel}", made / KERNEL)
        cache.remove(tree)
        (made / "image.json").write_text(json.dumps({"kernel": kernel, "marker": marker}) + "\n")
        for path in made.iterdir():
            cache.give(path)

    found = cache.kept(where / "images", content, build, say, "the image of the test host")
    about = json.loads((found / "image.json").read_text())
    return Image(
        found / "disk.raw", found / KERNEL, about["kernel"], about["marker"], key, identity.host_public
    )


_TREE_HOOK = """\
set -eu
rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/machine-id
: >"$1/etc/machine-id"
[ ! -x "$1/usr/sbin/update-ca-certificates" ] || chroot "$1" update-ca-certificates >&2
"""

_FINISH = """\
set -eu
update-initramfs -u
mkdir -p /boot/grub
cp -r /usr/lib/grub/i386-pc /boot/grub/
grub-mkimage -O i386-pc -o /boot/grub/i386-pc/core.img -p '(hd0,msdos1)/boot/grub' biosdisk part_msdos ext2
"""


def _build_system(folder: Path, recipe: Recipe, say: Say) -> None:
    hook, settings = folder / "hook", folder / "apt.conf"
    copies = "".join(f'install -D -m 0644 -- {path} "$1{path}"\n' for path in mirror.carried())
    hook.write_text(f"set -eu\n{copies}{_TREE_HOOK}")
    settings.write_text(mirror.apt_settings())
    building.mmdebstrap(
        folder / "system.tar",
        recipe.suite,
        recipe.packages,
        [f"deb {mirror.mirror()} {recipe.suite} {COMPONENTS}"],
        say,
        options=[f"--aptopt={settings}", f'--customize-hook=sh {shlex.quote(str(hook))} "$1"'],
    )


def _furnish(tree: Path, recipe: Recipe, laid: dict[str, tuple[int, str]], fs_uuid: str, say: Say) -> str:
    """Files, the first initramfs (with every driver, for it is made elsewhere), GRUB. Gives the kernel."""
    _lay(tree, laid)
    for path, target in links().items():
        place = tree / path.lstrip("/")
        place.unlink(missing_ok=True)
        place.symlink_to(target)
    (kernel,) = (path.name.removeprefix("vmlinuz-") for path in (tree / "boot").glob("vmlinuz-*"))
    _lay(tree, {"/boot/grub/grub.cfg": (0o644, grub_cfg(recipe, kernel, fs_uuid))})
    building.run(building.in_tree(tree, _FINISH), say, "making the first initramfs and GRUB's core image")
    _lay(tree, {SLIM_INITRAMFS[0]: (0o644, SLIM_INITRAMFS[1])})
    return kernel


def _lay_root_ready(tree: Path, folder: Path, say: Say) -> None:
    """Builds the container's root on this machine and puts it where a deploy in the guest looks for it."""
    cache.make_folder(folder)
    script = root.build_script(GUEST_SUITE, folder=str(folder))
    said = building.run(["sh", "-c", script], say, "the root of a container", scratch=folder)
    built = Path(said.strip().splitlines()[-1])
    ready_at = tree / root_recipe.ROOTS.lstrip("/")
    ready_at.mkdir(parents=True)
    for path in (built, built.with_name(f"{built.name}.carried")):
        shutil.copyfile(path, ready_at / path.name)
    # The deploy's own script, in the guest's system: it fails unless it finds the root good as it lies.
    building.run(building.in_tree(tree, root.build_script(GUEST_SUITE)), say, "checking the container's root")


def _lay(tree: Path, laid: dict[str, tuple[int, str]]) -> None:
    for path, (mode, text) in laid.items():
        place = tree / path.lstrip("/")
        place.parent.mkdir(mode=0o700 if place.parent.name == ".ssh" else 0o755, parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.touch()
        place.chmod(mode)
        place.write_text(text)


def _identity(where: Path) -> tuple[Path, Identity]:
    """The keys of this cache: made once, so that machines of the same image are known in advance."""

    def make(folder: Path) -> None:
        for name in ("login", "host"):
            command = [
                "ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                f"kpro-{name}",
                "-f",
                str(folder / name),
            ]
            try:
                subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
            except FileNotFoundError:
                raise TestHostError("ssh-keygen is missing here: apt-get install openssh-client") from None
        for path in folder.iterdir():
            cache.give(path)

    keys = cache.kept(where, "keys", make, lambda _: None, "keys")
    try:
        texts = [(keys / name).read_text() for name in ("login.pub", "host", "host.pub")]
    except PermissionError:
        raise TestHostError(
            f"{keys} belongs to somebody else (you are uid {os.geteuid()}): set XDG_CACHE_HOME to a folder of yours"
        ) from None
    return keys / "login", Identity(*texts)
