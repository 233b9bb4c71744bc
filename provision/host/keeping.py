"""What was there before: originals, a manifest and an ``undo.sh`` on the machine, before the first change.

``/var/lib/kpro/manifest.json`` lists the changes, oldest first; ``originals/`` holds every file that was replaced, as
it was before a run touched it for the first time; ``undo.sh`` puts all back, or what one run did, without a controller.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO

from pyinfra.api.host import Host

from checks.bdf import Bdf
from provision.host import transport
from provision.host.changes import SCHEMA, Change, dump, parse, undo_script, with_change, with_changes
from provision.run.errors import ActFailed
from provision.templates import render

__all__ = [
    "SCHEMA",
    "STATE",
    "Change",
    "before_binding",
    "before_conf",
    "before_container",
    "before_file",
    "before_files",
    "before_hold",
    "before_installer",
    "before_module",
    "before_packages",
    "before_sleep",
    "before_tree",
    "before_unit",
    "changes_on",
    "dump",
    "note",
    "parse",
    "undo_script",
    "with_change",
    "with_changes",
]

STATE = "/var/lib/kpro"

_KEEP_FILE = """
keep() {{ # PATH NAME: "absent", or mode and owner of the file
  if [ ! -e "$1" ] && [ ! -L "$1" ]; then echo absent; return; fi
  if [ ! -e "$2" ]; then
    cp -- "$1" "$2.partial" || exit 1
    cp --attributes-only --preserve=mode,xattr -- "$1" "$2.partial" 2>/dev/null || :
    sync "$2.partial" && mv -f "$2.partial" "$2" || exit 1
  fi
  stat -L -c '%a %u:%g' -- "$1" || exit 1
}}
umask 077; mkdir -p {state}/originals && cd {state}/originals || exit 1
"""

_KEEP_TREE = """
umask 077; mkdir -p {state}/originals && cd {state}/originals || exit 1
[ ! -e {name} ] || exit 0
cat >{name}.partial && : >{name}.folders || exit 1
tab=$(printf '\\t')
while IFS="$tab" read -r digest path; do
  if [ -e "$path" ] || [ -L "$path" ]; then
    mkdir -p "{name}.kept$(dirname "$path")" && cp -a -- "$path" "{name}.kept$path" || exit 1
  fi
  folder=$(dirname "$path")
  while [ ! -e "$folder" ]; do printf '%s\\n' "$folder"; folder=$(dirname "$folder"); done
done <{name}.partial >{name}.all || exit 1
sort -u {name}.all >{name}.folders && rm -f {name}.all && sync {name}.partial {name}.folders &&
  sync -f . && mv -f {name}.partial {name}
"""


_BINDINGS = """
for f in {bdfs}; do
  o=$(override "$f") || {{ echo "$f is locked by the kernel: an earlier unbind waits for its user" >&2; exit 1; }}
  printf '%s %s|%s\\n' "$f" "$(now "$f")" "$o"
done
"""


def _name(run: str, what: str) -> str:
    """The name of an original. By run too: each run has its own, and so has a container that was made anew."""
    return hashlib.sha256(f"{run} {what}".encode()).hexdigest()[:16]


def before_container(host: Host, run: str, id: str, folder: str) -> None:
    """Notes that a container is about to be made. Raises ActFailed."""
    note(host, [Change("container", run, id=id, folder=folder)])


def before_conf(host: Host, run: str, id: str, path: str, digests: Sequence[str]) -> None:
    """Keeps the configuration file of a Proxmox container as it is before the run's first change to it. ``digests`` are
    the sha256 that it may have from now on by what kpro does; more can be noted later. Raises ActFailed."""
    script = _KEEP_FILE.format(state=STATE)
    script += f"keep {shlex.quote(path)} {_name(run, path)}\n"
    _run(host, script, f"{path} could not be kept before the change")
    note(host, [Change("conf", run, path, original=_name(run, path), id=id, names=tuple(digests))])


def before_file(host: Host, run: str, path: str, data: bytes, *, boot: bool = False) -> None:
    """Keeps a file as it is before ``data`` replaces it. Raises ActFailed when it cannot be kept."""
    before_files(host, run, {path: data}, boot=boot)


def before_files(host: Host, run: str, files: Mapping[str, bytes | None], *, boot: bool = False) -> None:
    """Keeps files as they are before they are replaced, or removed (None). ``boot``: undoing them makes the initramfs
    and the boot loader's configuration anew. Raises ActFailed when one cannot be kept."""
    script = _KEEP_FILE.format(state=STATE)
    script += "".join(f"keep {shlex.quote(path)} {_name(run, path)}\n" for path in files)
    lines = _run(host, script, f"{', '.join(files)} could not be kept before the change").splitlines()
    changes = []
    for (path, data), line in zip(files.items(), lines, strict=True):
        written = "absent" if data is None else hashlib.sha256(data).hexdigest()
        change = Change("file", run, path, written, boot=boot)
        if line != "absent":
            mode, owner = line.split()
            change = Change(
                "file", run, path, change.written, _name(run, path), mode=mode, owner=owner, boot=boot
            )
        changes.append(change)
    note(host, changes)


def before_tree(host: Host, run: str, what: str, files: Mapping[str, str], then: Sequence[str] = ()) -> None:
    """Notes files that are about to be put at once, and keeps those that they replace.

    ``files`` maps each absolute path (no tabs or newlines in it) to the sha256 it will have, or ``link:TARGET`` for a
    symbolic link. ``what`` names the set, once per run. ``then`` is done after they were taken back: ``depmod:KERNEL``,
    ``ldconfig``, ``reload`` (systemd), ``boot`` (initramfs and boot loader). Raises ActFailed.
    """
    name = _name(run, f"tree {what}")
    listed = "".join(f"{digest}\t{path}\n" for path, digest in files.items())
    script = _KEEP_TREE.format(state=STATE, name=name)
    _run(host, script, f"the files of {what} could not be kept before the change", listed.encode())
    note(host, [Change("tree", run, id=what, original=name, then=tuple(then))])


def before_binding(host: Host, run: str, bdfs: Iterable[Bdf], *, besides: str | None = None) -> None:
    """Notes which driver and override PCI functions have now, but for those on the driver ``besides``. Raises
    ActFailed."""
    script = render("pci.sh") + _BINDINGS.format(bdfs=" ".join(map(str, bdfs)))
    changes = []
    for line in _run(host, script, "the drivers of PCI functions could not be read").splitlines():
        bdf, drivers = line.split(" ", 1)
        before, override = drivers.split("|")
        if before != besides:
            changes.append(Change("binding", run, id=bdf, before=before, override=override))
    if changes:
        note(host, changes)


def before_module(host: Host, run: str, wanted: tuple[str, str]) -> None:
    """Notes which NVIDIA module is loaded, version and flavour, when it is not the ``wanted`` one. Raises ActFailed."""
    script = render("pci.sh") + render("nvidia.sh", daemons=(), modules=()) + "\ndriver_now"
    before = _run(host, script, "the loaded driver could not be read").strip()
    if before != " ".join(wanted):
        note(host, [Change("module", run, id="nvidia", before=before)])


def before_sleep(host: Host, run: str, id: str, folder: str, led: str, units: Sequence[str]) -> None:
    """Notes that a running container is about to be stopped; ``led`` is the content of its linker configuration, with
    the ``units`` that serve in it. Raises ActFailed."""
    note(host, [Change("guest", run, id=id, folder=folder, before=led, names=tuple(units))])


def before_unit(host: Host, run: str, unit: str) -> None:
    """Notes whether a unit is enabled and active. Raises ActFailed."""
    quoted = shlex.quote(unit)
    script = (
        f"e=$(systemctl is-enabled {quoted} 2>/dev/null); a=$(systemctl is-active {quoted} 2>/dev/null)\n"
    )
    words = _run(host, f'{script}echo "${{e:-absent}} ${{a:-inactive}}"', f"{unit} could not be looked at")
    enabled, active = words.split()[0], words.split()[-1]
    before = f"{'enabled' if enabled == 'enabled' else 'disabled'} {'active' if active == 'active' else 'inactive'}"
    note(host, [Change("unit", run, id=unit, before=before)])


def before_packages(host: Host, run: str, names: Sequence[str]) -> None:
    """Notes which of these packages are not installed now: those are what an undo removes. Raises ActFailed."""
    script = (
        "for p in "
        + shlex.join(names)
        + "; do s=$(dpkg-query -W -f '${db:Status-Status}' \"$p\" 2>/dev/null)\n"
    )
    script += '[ "$s" = installed ] || printf "%s\\n" "$p"; done'
    absent = _run(host, script, "installed packages could not be listed").split()
    if absent:
        note(host, [Change("packages", run, id="packages", names=tuple(absent))])


def before_hold(host: Host, run: str, names: Sequence[str]) -> None:
    """Notes which of these packages are not held now: those are what an undo lets go. Raises ActFailed."""
    script = f"apt-mark showhold {shlex.join(names)}"
    held = _run(host, script, "the packages on hold could not be listed").split()
    loose = tuple(name for name in names if name not in held)
    if loose:
        note(host, [Change("hold", run, id="packages", names=loose)])


def before_installer(host: Host, run: str, version: str) -> None:
    """Notes that NVIDIA's installer is about to run. Raises ActFailed."""
    note(host, [Change("installer", run, id=version)])


def changes_on(host: Host) -> tuple[Change, ...]:
    """What the machine's manifest lists. Raises ActFailed when it cannot be read; no manifest is no change."""
    text = _run(host, f"[ ! -e {STATE}/manifest.json ] || cat {STATE}/manifest.json", "the manifest")
    try:
        return parse(text) if text else ()
    except (ValueError, TypeError, KeyError) as error:
        raise ActFailed(
            f"{host.name}: {STATE}/manifest.json is not readable ({error}); what was there before could be lost. "
            "Repair it or move it away, then run again"
        ) from error


def write_undo(host: Host, changes: Sequence[Change]) -> None:
    """Puts ``undo.sh`` for these changes. Raises ActFailed."""
    _put(host, "undo.sh", undo_script(changes), "700")


def note(host: Host, new: Sequence[Change]) -> None:
    """Lists changes that are about to be made, in ``undo.sh`` and in the manifest. Raises ActFailed."""
    changes = with_changes(changes_on(host), new)
    # The script first: an undo.sh that knows of a change that was not made finds it undone already.
    write_undo(host, changes)
    _put(host, "manifest.json", dump(changes), "600")


def _put(host: Host, name: str, text: str, mode: str) -> None:
    try:
        transport.put(host, BytesIO(text.encode()), f"{STATE}/{name}", mode=mode, owner="0:0")
    except OSError as error:
        raise ActFailed(str(error)) from error


def _run(host: Host, script: str, what: str, stdin: bytes | None = None) -> str:
    done = transport.run(host, f"umask 077; mkdir -p {STATE} || exit 1\n{script}", stdin=stdin)
    if not done.ok:
        raise ActFailed(f"{what}: {done.error_text}")
    return done.text
