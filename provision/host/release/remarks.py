"""What an operator should know of the boot configuration, though it holds no GPU: typing errors, modules that are only
loaded, what runs until the next boot, the console. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from checks.snapshot import CouldNotLook, Snapshot
from provision.host import boot, view
from provision.host.release import cmdline, lists
from provision.host.release.state import Hands
from provision.host.release.target import EARLY_VFIO, Target, module, names_ids, nothing

RUNNING = "/proc/cmdline"
_KNOWN = (*EARLY_VFIO, "vfio_mdev", "vfio_pci_nvgrace", "nvgrace_gpu_vfio_pci", "vfio_ap", "vfio_platform")
_SEEN = {
    "initcall_blacklist": "keeps the firmware's console from being set up: the screen stays dark until a driver comes",
    "video": "takes the firmware's console away: the screen stays dark until a driver comes",
    "pcie_acs_override": "only pretends that devices are apart: a virtual machine may reach those of its neighbours",
}
_VIDEO = ("efifb:off", "vesafb:off", "simplefb:off")


def remarks(snapshot: Snapshot, seen: Hands) -> list[str]:
    """One line each, with file and line where it has one."""
    found = [*_running(snapshot, seen), *_parameters(snapshot, seen.target), *_lists(snapshot)]
    for place in seen.places:
        found += [
            f"{holder} ({holder.what})"
            for holder in place.holders
            if holder.what.startswith(("would bind", "loads vfio-pci"))
            and place.cleaned(seen.target) == place.text
        ]
    return list(dict.fromkeys([*found, *_console(snapshot, seen)]))


def _running(snapshot: Snapshot, seen: Hands) -> Iterator[str]:
    """The kernel was started with it: an override outranks it, and the next boot follows the files."""
    configured = {h.text for place in seen.places for h in place.holders if place.find is cmdline.find}
    for holder in cmdline.find(RUNNING, snapshot.text(RUNNING) or ""):
        if holder.holds is nothing or any(holder.holds(function) for function in seen.ours):
            rest = (
                "" if holder.text in configured else "; no file that was looked at says so for the next boot"
            )
            yield f"{RUNNING}: {holder.text} ({holder.what}, until the next boot{rest})"


def _parameters(snapshot: Snapshot, target: Target) -> Iterator[str]:
    texts = {RUNNING: snapshot.text(RUNNING) or ""} | boot.command_lines(snapshot)
    for path, text in texts.items():
        for parameter in cmdline.parameters(path, text):
            name, value = parameter.name, parameter.value
            before, _, last = name.partition(".")
            if last == "ids" and misspelt(before):
                yield f"{path}: {parameter.text} binds nothing: there is no module {before}"
            elif last == "ids" and module(before) in EARLY_VFIO and not cmdline.gives_ids(name):
                yield f"{path}: {parameter.text} binds nothing: the module {before} takes no ids"
            elif cmdline.gives_ids(name) and parameter.known and not names_ids(value) and "$" not in value:
                yield f"{path}: {parameter.text} binds nothing: ids are VENDOR:DEVICE in hex, an address is none"
            elif name in _SEEN and (name != "video" or value.startswith(_VIDEO)):
                yield f"{path}: {parameter.text} {_SEEN[name]}"


def _lists(snapshot: Snapshot) -> Iterator[str]:
    for path, text in boot.module_lists(snapshot).items():
        for number, line in enumerate(text.split("\n"), 1):
            words = line.split("#")[0].split()
            if not words or words[0].startswith(";"):
                continue
            if misspelt(words[0]):
                yield f"{path}:{number}: {words[0]} loads nothing: there is no such module"
            elif module(words[0]) in EARLY_VFIO and not lists.find(path, line):
                yield f"{path}:{number}: {words[0]} is loaded, which binds no GPU by itself"


def misspelt(name: str) -> bool:
    """Is it nearly one of VFIO's modules, and none?"""
    plain = module(name)
    if plain in _KNOWN or plain.startswith("virtio"):
        return False
    return bool(difflib.get_close_matches(plain, EARLY_VFIO, 1, 0.75))


def _console(snapshot: Snapshot, seen: Hands) -> Iterator[str]:
    try:
        displays = view.displays(snapshot)
    except CouldNotLook:
        return
    for gpu in seen.gpus:
        others = [bdf for bdf, (vendor, _) in displays.items() if vendor != view.NVIDIA]
        if gpu.boot_vga and not others:
            yield (
                f"GPU {gpu.bdf} has the firmware's console, and no other maker's graphics (as of a management "
                "controller) is there: the screen may go dark; keep a way in by network"
            )
