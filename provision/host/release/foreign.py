"""Programs that hand functions over when the machine starts: kpro shows them and leaves them to the operator. Pure.

Scripts of the initramfs, units of systemd with what they call, rc.local, cron. Nobody can clean a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from checks.bdf import Bdf
from provision.host.binding import binding, lines_of
from provision.host.release.target import Holder, nothing
from provision.host.view import PciFunction

_ADDRESS = re.compile(r"(?<![0-9a-f:])(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\b", re.IGNORECASE)
_NODE = re.compile(r"\bpci_([0-9a-f]{4})_([0-9a-f]{2})_([0-9a-f]{2})_([0-7])\b", re.IGNORECASE)
_IDS = re.compile(r"(?<![0-9a-f:])(?:0x)?([0-9a-f]{4})[: ](?:0x)?([0-9a-f]{4})(?![0-9a-f:.])", re.IGNORECASE)
_PATH = re.compile(r"/[\w./+@-]+")


def concerned(text: str) -> Callable[[PciFunction], bool]:
    """Which functions a program means: the addresses it names, else the ids; one that names neither may mean any."""
    said = "\n".join(line for _, line in lines_of(text))
    named = {Bdf.parse(found) for found in _ADDRESS.findall(said)}
    named |= {Bdf.parse("{}:{}:{}.{}".format(*parts)) for parts in _NODE.findall(said)}
    ids = {(int(vendor, 16), int(device, 16)) for vendor, device in _IDS.findall(said)}
    # Four digits beside four digits can be anything: only those of a maker of graphics and network cards count.
    ids = {pair for pair in ids if pair[0] in (0x10DE, 0x1002, 0x8086, 0x14E4, 0x15B3)}

    def holds(function: PciFunction) -> bool:
        if named:
            return function.bdf in named
        return not ids or (int(function.vendor, 16), int(function.device, 16)) in ids

    return holds


def script(path: str, text: str) -> tuple[Holder, ...]:
    """A hook or script of the initramfs."""
    found = binding(text)
    if found is None:
        return ()
    instead = f"take the GPUs out of {path}, or remove it, then: update-initramfs -u -k all"
    return (Holder(path, *found, "binds GPUs while the initramfs runs", concerned(text), instead),)


def cron(path: str, text: str, called: Mapping[str, str]) -> tuple[Holder, ...]:
    """The lines of a crontab that are run when the machine starts (crontab(5))."""
    kept = (line if line.lstrip().startswith("@reboot") else "" for line in text.split("\n"))
    return rc_local(path, "\n".join(kept), called)


def rc_local(path: str, text: str, called: Mapping[str, str]) -> tuple[Holder, ...]:
    """What is run, or written to sysfs (tmpfiles.d(5), sysfs.conf(5)), when the machine starts, with the scripts that
    it calls."""
    for at, line in lines_of(text):
        scripts = [one for one in _PATH.findall(line) if one in called and binding(called[one])]
        if binding(line) is None and not scripts:
            continue
        what = "binds GPUs when the machine starts" + (f", by {scripts[0]}" if scripts else "")
        instead = f"take the GPUs out of {scripts[0] if scripts else path}, or the line out of {path}:{at}"
        whole = "\n".join([text, *(called[one] for one in scripts)])
        return (Holder(path, at, line, what, concerned(whole), instead),)
    return ()


def unit(path: str, text: str, called: Mapping[str, str], enabled: bool) -> tuple[Holder, ...]:
    """A unit of systemd, or a drop-in of one, that binds functions itself or calls a script that does. ``called`` are
    the texts of scripts by path. A unit that nothing starts holds nothing."""
    for at, line in _joined(text):
        if not re.match(r"\s*Exec\w+\s*=", line):
            continue
        scripts = [one for one in _PATH.findall(line) if one in called and binding(called[one])]
        if binding(line) is None and not scripts:
            continue
        whole = [line, *(called[one] for one in scripts)]
        name = unit_name(path)
        what = "binds GPUs when the machine starts" + (f", by {scripts[0]}" if scripts else "")
        if not enabled:
            return (Holder(path, at, line, f"would bind GPUs, and {name} is not enabled", nothing),)
        instead = f"systemctl disable {name}, or take the GPUs out of {scripts[0] if scripts else path}"
        return (Holder(path, at, line, what, concerned("\n".join(whole)), instead),)
    return ()


def scripts(text: str) -> list[str]:
    """All that a unit of systemd runs, by path."""
    lines = (line for _, line in _joined(text) if re.match(r"\s*Exec\w+\s*=", line))
    return [path for line in lines for path in _PATH.findall(line)]


def unit_name(path: str) -> str:
    """The unit that a file of systemd belongs to; a drop-in belongs to that of its folder."""
    folder, _, name = path.rpartition("/")
    return folder.rsplit("/", 1)[-1].removesuffix(".d") if folder.endswith(".d") else name


def _joined(text: str) -> list[tuple[int, str]]:
    """The lines of a unit, those with a backslash at the end joined with the next (systemd.syntax(7))."""
    found: list[tuple[int, str]] = []
    start, said = 0, ""
    for at, line in enumerate(text.split("\n"), 1):
        if re.match(r"\s*[#;]", line):
            continue
        start = start or at
        if line.rstrip("\r").endswith("\\"):
            said += line.rstrip("\r")[:-1] + " "
            continue
        found.append((start, said + line))
        start, said = 0, ""
    return found
