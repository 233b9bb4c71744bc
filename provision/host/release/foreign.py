"""Programs that hand functions over when the machine starts: kpro shows them and leaves them to the operator. Pure.

Scripts of the initramfs, units of systemd with what they call, rc.local, cron. Nobody can clean a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from provision.host.binding import binding, lines_of
from provision.host.release.target import Holder, nothing
from provision.host.view import PciFunction
from provision.host.vms.address import PciAddress

_ADDRESS = re.compile(r"(?<![0-9a-f:])(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\b", re.IGNORECASE)
_SLOT = re.compile(
    r"(?<![0-9a-f:])((?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[01][0-9a-f](?![0-9a-f:])(?!\.[0-7]\b)"
    r"|[0-9a-f]{2}:[01][0-9a-f](?=\.[$*?{\[]))",
    re.IGNORECASE,
)
"""A slot whose functions are put together elsewhere: ``0000:42:00.$f``, ``SLOT=0000:42:00``, ``42:00.*``."""

_NODE = re.compile(r"\bpci_([0-9a-f]{4})_([0-9a-f]{2})_([0-9a-f]{2})_([0-7])\b", re.IGNORECASE)
_IDS = re.compile(r"(?<![0-9a-f:])(?:0x)?([0-9a-f]{4})[: ](?:0x)?([0-9a-f]{4})(?![0-9a-f:.])", re.IGNORECASE)
_PATH = re.compile(r"/[\w./+@-]+")
_MAKERS = (0x10DE, 0x1002, 0x8086, 0x14E4, 0x15B3)
"""Four digits beside four digits can be anything: only those of a maker of graphics and network cards count."""


@dataclass(frozen=True)
class Named:
    """What a program names: functions and slots by address, kinds of functions by their ids."""

    addresses: frozenset[PciAddress]
    ids: frozenset[tuple[int, int]]

    def __bool__(self) -> bool:
        return bool(self.addresses or self.ids)

    def means(self, function: PciFunction) -> bool:
        """By address where it names one, else by id."""
        if self.addresses:
            return any(address.covers(function.bdf) for address in self.addresses)
        return (int(function.vendor, 16), int(function.device, 16)) in self.ids


def named(text: str) -> Named:
    """What stands in its lines that are no comments."""
    said = "\n".join(line for _, line in lines_of(text))
    addresses = [*_ADDRESS.findall(said), *_SLOT.findall(said)]
    addresses += ["{}:{}:{}.{}".format(*parts) for parts in _NODE.findall(said)]
    ids = {(int(vendor, 16), int(device, 16)) for vendor, device in _IDS.findall(said)}
    return Named(
        frozenset(PciAddress.parse(address) for address in addresses),
        frozenset(pair for pair in ids if pair[0] in _MAKERS),
    )


def concerned(text: str) -> Callable[[PciFunction], bool]:
    """Which functions a program means; one that names none may mean any."""
    found = named(text)
    return lambda function: not found or found.means(function)


def script(path: str, text: str) -> tuple[Holder, ...]:
    """A hook or script of the initramfs."""
    found = binding(text)
    if found is None:
        return ()
    instead = f"take the GPUs out of {path}, or remove it, then: update-initramfs -u -k all"
    return (Holder(path, *found, "binds GPUs while the initramfs runs", concerned(text), instead),)


def cron(path: str, text: str, called: Mapping[str, str]) -> tuple[Holder, ...]:
    """The lines of a crontab (crontab(5)): those of ``@reboot`` run when the machine starts, the others take the GPUs
    later."""
    lines = text.split("\n")
    start = [line if line.lstrip().startswith("@reboot") else "" for line in lines]
    later = [line if re.match(r"\s*(@(?!reboot)\w+|[\d*][\d*/,-]*)\s", line) else "" for line in lines]
    return rc_local(path, "\n".join(start), called) or rc_local(
        path, "\n".join(later), called, "at the times of its crontab"
    )


def rc_local(
    path: str, text: str, called: Mapping[str, str], when: str = "when the machine starts"
) -> tuple[Holder, ...]:
    """What is run, or written to sysfs (tmpfiles.d(5), sysfs.conf(5)), when the machine starts, with the scripts that
    it calls."""
    for at, line in lines_of(text):
        scripts = [one for one in _PATH.findall(line) if one in called and binding(called[one])]
        if binding(line) is None and not scripts:
            continue
        what = f"binds GPUs {when}" + (f", by {scripts[0]}" if scripts else "")
        instead = f"take the GPUs out of {scripts[0] if scripts else path}, or the line out of {path}:{at}"
        whole = "\n".join([text, *(called[one] for one in scripts)])
        return (Holder(path, at, line, what, concerned(whole), instead),)
    return ()


def unit(
    path: str, text: str, called: Mapping[str, str], enabled: bool, instances: Sequence[str] = ()
) -> tuple[Holder, ...]:
    """A unit of systemd, or a drop-in of one, that binds functions itself or calls a script that does. ``called`` are
    the texts of scripts by path, ``instances`` the names with which a template is started. A unit that nothing starts
    holds nothing."""
    for at, line in _joined(text):
        if not re.match(r"\s*Exec\w+\s*=", line):
            continue
        scripts = [one for one in _PATH.findall(line) if one in called and binding(called[one])]
        if binding(line) is None and not scripts:
            continue
        whole = [line, *(called[one] for one in scripts), *(_unescaped(one) for one in instances)]
        name = unit_name(path)
        what = "binds GPUs when the machine starts" + (f", by {scripts[0]}" if scripts else "")
        if not enabled:
            return (Holder(path, at, line, f"would bind GPUs, and {name} is not enabled", nothing),)
        instead = f"systemctl disable {name}, or take the GPUs out of {scripts[0] if scripts else path}"
        return (Holder(path, at, line, what, concerned("\n".join(whole)), instead),)
    return ()


def _unescaped(instance: str) -> str:
    """The name of an instance as ``%I`` gives it (systemd-escape(1)); the bare one is among it for ``%i``."""
    plain = re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), instance.replace("-", "/"))
    return f"{instance} {plain}"


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
