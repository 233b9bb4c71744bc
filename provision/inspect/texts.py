"""Command outputs of a recorded tree, by the name of the command and by what they look like. Pure.

A tree may hold just one text, under a name of somebody else's choice: what it is, its form tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from checks.snapshot import CouldNotLook, Snapshot
from provision.inspect import lspci

FOLDER = "/.kpro/cmd/"


def _lines(*forms: str) -> re.Pattern[str]:
    return re.compile("|".join(forms), re.MULTILINE)


_KINDS: Mapping[str, tuple[str, re.Pattern[str]]] = MappingProxyType(
    {
        "dkms": (
            "dkms-?status",
            _lines(r"^[\w.+-]+(?:/|, )[\w.+~:-]+(?:, [\w.+~-]+)*: (?:added|built|installed|broken)\b"),
        ),
        "dmesg": (
            "dmesg|kernel-log|journalctl|kmsg",
            _lines(
                r"\bNVRM: (?!version)",
                "nvidia-nvlink: ",
                r"vfio-pci [0-9a-f]{4}:\S+: ",
                "AMD-Vi: ",
                "DMAR(?:-IR)?: ",
                "Adding to iommu group",
            ),
        ),
        "lsmod": ("lsmod", _lines(r"^[a-z0-9_]+ +\d+ +\d+(?: +[\w,-]+)?$")),
        "proxmox-boot-tool": (
            "proxmox-boot-tool|pbt",
            _lines(
                "System currently booted with", "is configured with: ", "proxmox-boot-uuids does not exist"
            ),
        ),
        "efibootmgr": ("efibootmgr", _lines("^Boot(?:Current|Order): ")),
        "device-nodes": (
            "ls-l|ls-dev|dev-|device-nodes",
            _lines(
                r"^\s*[bcl-][rwx-]{9}.* (?:/dev/)?nvidia",
                r"^/dev/nvidia\S* [0-9a-f]+ [0-9a-f]+ ",
                r"cannot access '?/dev/nvidia\S*: No such file",
            ),
        ),
        "mokutil": ("mokutil", _lines("^SecureBoot (?:enabled|disabled)")),
        "build": (
            "make-?log|dkms-(?:build|install|make)|apt|dpkg",
            _lines(
                "^Error! (?:Bad return status|Your kernel headers)",
                r"^Autoinstall on \S+ failed",
                r"^DKMS (?:\([^)\n]*\) )?make\.log for ",
                r"^\S+:\d+(?::\d+)?: error: |internal compiler error",
                r"^make(?:\[\d+\])?: \*\*\*",
                "^run-parts: .*exited with",
                "^dpkg: error",
                "^Consult /var/lib/dkms/",
            ),
        ),
        "dpkg-audit": (
            "dpkg-(?:audit|C)",
            _lines(r"^The following packages (?:are only half |have been unpacked|are in a mess)"),
        ),
        "smi-query": ("nvidia-smi-q", _lines(r"^\s*GPU Recovery Action\s*:")),
        "driver-version": ("nvidia-version|proc-driver", _lines("^NVRM version: ")),
        "acs": ("lspci-v+", _lines(r"^\s*ACSCtl:")),
    }
)
"""Kind -> how the names of such outputs begin, and a line that only such outputs have."""


@dataclass(frozen=True)
class Output:
    """One output: the command's name, its text, its exit code (None where the tree does not say)."""

    name: str
    text: str
    code: int | None = None


@dataclass(frozen=True)
class Texts:
    """Outputs by kind; ``strange`` are those that no kind fits; ``recorded``: they are of a tree."""

    by_kind: Mapping[str, tuple[Output, ...]]
    strange: tuple[Output, ...] = ()
    recorded: bool = True

    def of(self, kind: str) -> tuple[Output, ...]:
        return self.by_kind.get(kind, ())

    def needed(self, kind: str) -> tuple[Output, ...]:
        """Those of a kind. Raises CouldNotLook when there are none."""
        found = self.of(kind)
        if not found:
            raise CouldNotLook(
                f"no output of {kind} was recorded" if self.recorded else f"{kind} gave no output"
            )
        return found


# What the planner's own looks and a record ask for: they have readers of their own.
_OWN = re.compile(
    r"openers|uname-r|id-u|df|driver-\w+|pct-.*|qm-.*|lxc-.*|tools|userspace.*|pveversion|nvidia-smi-L|apt-.*|dpkg-l"
    r"|date(?:-month)?|cgroups?|users?.*|fabric-manager-unit|gpu-owners|grub-default|hypervisor|nvlink-sw-mng"
    r"|nvidia-libraries|pve-container|pveam-list-.*|sizes-.*|models?-.*|lock-held|last-run|running-.*|units?(?:-.*)?"
    r"|uptime|uid-.*|multicast|in-place-.*"
)


def is_known(name: str) -> bool:
    """Is it an output that this house asks for by that name?"""
    known = _OWN.fullmatch(name) or name.startswith("lspci")
    return bool(known) or any(re.match(names, name) for names, _ in _KINDS.values())


def gather(snapshot: Snapshot, recorded: bool = True) -> Texts:
    """Everything that commands said, of a live machine or a recorded tree."""
    outputs = _of_commands(snapshot)
    outputs += [output for output in _of_tree(snapshot) if output.name not in {one.name for one in outputs}]
    kinds: dict[str, list[Output]] = {}
    strange = []
    for output in outputs:
        found = kinds_of(output)
        for kind in found:
            if not any(other.text == output.text for other in kinds.setdefault(kind, [])):
                kinds[kind].append(output)
        if not found and not is_known(output.name) and output.text.strip() and output.code != 127:
            strange.append(output)
    return Texts({kind: tuple(found) for kind, found in kinds.items()}, tuple(strange), recorded)


def kinds_of(output: Output) -> list[str]:
    """What an output is: its name decides; where that says nothing, its lines do."""
    if _OWN.fullmatch(output.name):
        # Whoever saved what apt printed may have called it so too.
        return ["build"] if output.name.startswith("apt-") and _KINDS["build"][1].search(output.text) else []
    named = [kind for kind, (names, _) in _KINDS.items() if re.match(names, output.name)]
    formed = [kind for kind, (_, form) in _KINDS.items() if form.search(output.text)]
    found = [kind for kind in named if kind in formed or output.code is not None] or formed
    if output.code == 127:
        # The program is not there: what the shell says of that is no output of it.
        return [kind for kind in named if kind in ("dkms", "mokutil")]
    if lspci.is_listing(output.text) and "dmesg" not in found:
        found.append("lspci")
    return found


def _of_commands(snapshot: Snapshot) -> list[Output]:
    found = []
    for path in snapshot.paths("cmd"):
        try:
            code, text = snapshot.command(path)
        except (CouldNotLook, ValueError):
            continue
        found.append(Output(path, text, code))
    return found


def _of_tree(snapshot: Snapshot) -> list[Output]:
    found = []
    for path in snapshot.paths("file"):
        if path.startswith(FOLDER) and path.endswith(".out"):
            name = path.removeprefix(FOLDER).removesuffix(".out")
            try:
                found.append(Output(name, snapshot.text(path) or "", _code(snapshot, name)))
            except CouldNotLook:
                continue
    return found


def _code(snapshot: Snapshot, name: str) -> int | None:
    path = f"{FOLDER}{name}.rc"
    try:
        return int((snapshot.text(path) or "").strip()) if ("file", path) in snapshot.sections else None
    except (CouldNotLook, ValueError):
        return None
