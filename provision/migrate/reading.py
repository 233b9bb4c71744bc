"""A snapshot of a machine or a guest, read into what the preflight judges. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeVar

from checks.snapshot import CouldNotLook, Snapshot
from provision.adopt import plan as adopted
from provision.adopt import process
from provision.host import view
from provision.migrate import looks, standing
from provision.migrate.ends import End, Pair
from provision.migrate.folders import extra, folder, identified
from provision.migrate.seen import (
    Clock,
    GuestLook,
    Listener,
    MachineLook,
    Place,
    Rrsync,
    Rsync,
    Sshd,
    UnitLook,
    Unseen,
)
from provision.migrate.standing import Record
from provision.status import looks as status

T = TypeVar("T")


def tried(read: Callable[[], T]) -> T | Unseen:
    """What could not be looked at, or is in a form that nobody knows, is unseen."""
    try:
        return read()
    except CouldNotLook as error:
        return Unseen(str(error))
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        return Unseen(f"the answer is in no known form: {error}")


def machine_look(end: End, seen: Snapshot, before: float, after: float) -> MachineLook:
    """``before`` and ``after``: the controller's clock around the look, in seconds since 1970."""
    return MachineLook(
        boot=tried(lambda: _there(seen.text("/proc/sys/kernel/random/boot_id"), "the kernel's boot_id")),
        namespace=tried(lambda: output(seen, "namespace")),
        hostname=tried(lambda: output(seen, "hostname")),
        clock=tried(lambda: clock(seen, before, after)),
        ntp=_ntp(seen),
        systemd=tried(lambda: seen.command("systemd")[0] == 0),
        python3=tried(lambda: seen.has_tool("python3")),
        rsync=tried(lambda: _rsync(seen)),
        rrsync=tried(lambda: _rrsync(seen)),
        sshd=tried(lambda: _sshd(seen)),
        models=tried(lambda: _place(seen, end, "models")),
        staging=tried(lambda: _place(seen, end, "staging")),
        state=tried(lambda: _place(seen, end, "state")),
        ids=tried(lambda: _ids(seen)),
        listening=tried(lambda: listening(seen)),
        lock=tried(lambda: status.lock_holder(seen)),
        migrations=tried(lambda: _migrations(seen, ".json")),
        former=tried(lambda: _migrations(seen, standing.FORMER)),
        driver=tried(lambda: view.driver(seen)),
        gpus=tried(lambda: {str(bdf): name for bdf, name in view.models(seen).items()}),
        incoming={
            role: tried(lambda role=role, place=place: folder(seen, role, place))  # type: ignore[misc]
            for role, model in end.models
            if end.role == "target" and (place := end.on_metal(model.directory)) is not None
        },
    )


def guest_state(end: End, seen: Snapshot) -> str | Unseen:
    """Of the service's guest; on a machine without LXC or Proxmox there is none."""
    tool = "lxc-ls" if end.guest.backend == "lxc" else "pct"
    return tried(lambda: view.guest_state(seen, end.guest) if seen.has_tool(tool) else "absent")


def guest_look(pair: Pair, end: End, seen: Snapshot) -> GuestLook:
    service = end.service
    source = end.role == "source"
    return GuestLook(
        systemd=tried(lambda: seen.command("systemd")[0] == 0),
        python3=tried(lambda: seen.has_tool("python3")),
        unit=tried(lambda: _unit(seen)),
        generates=tried(lambda: _generates(seen)) if source else Unseen("it is not asked"),
        folders={
            role: tried(lambda role=role, path=path: identified(seen, role, path, service))  # type: ignore[misc]
            for role, _ in end.models
            if source and (path := end.folder(role)) is not None
        },
        extras={
            path: tried(lambda at=at, path=path: extra(seen, at, path))  # type: ignore[misc]
            for at, path in enumerate(pair.extra_paths)
            if source
        },
        listening=tried(lambda: listening(seen)),
        named=tried(
            lambda: {path: seen.data("stat", path) is not None for path in looks.named_files(pair.target)}
        )
        if source
        else {},
        drift=tried(lambda: tuple(adopted.differences(service, process.processes(seen), seen)))
        if source and service.found is not None
        else (),
    )


def output(seen: Snapshot, name: str) -> str:
    """Of a command that must have succeeded, stripped. Raises CouldNotLook."""
    code, text = seen.command(name)
    if code != 0:
        raise CouldNotLook(f"{name}: {text.strip()[:200] or f'exit {code}'}")
    return text.strip()


def _there(text: str | None, what: str) -> str:
    if not text or not text.strip():
        raise CouldNotLook(f"{what} is not there")
    return text.strip()


def clock(seen: Snapshot, before: float, after: float) -> Clock:
    """The first reading was made after ``before``, the last one before ``after``: what lies between the two bounds is
    the time of the way, not that of the look."""
    first, last = float(output(seen, "clock-first")), float(output(seen, "clock-last"))
    return Clock(last - after, first - before)


def _ntp(seen: Snapshot) -> bool | None:
    """None where timedatectl does not say."""
    try:
        return {"yes": True, "no": False}.get(output(seen, "ntp"))
    except CouldNotLook:
        return None


def _rsync(seen: Snapshot) -> Rsync | None:
    lines = seen.command("rsync")[1].splitlines()
    found = re.match(r"rsync\s+version v?(\S+)", lines[0]) if lines else None
    if found is None:
        return None
    return Rsync(found[1], lines[1].strip() if len(lines) > 1 and lines[1].strip() else None)


def _rrsync(seen: Snapshot) -> Rrsync | None:
    text = output(seen, "rrsync")
    path, _, first = text.partition(" ")
    return Rrsync(path, "python" in first) if path.startswith("/") else None


def _sshd(seen: Snapshot) -> Sshd | None:
    text = output(seen, "sshd")
    if text == "none":
        return None
    rows: dict[str, list[str]] = {}
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        rows.setdefault(word.lower(), []).append(rest.strip())
    keys = tuple(row.split()[1] for row in rows.get("key", []) if len(row.split()) > 1)
    return Sshd(
        tuple(int(port) for port in rows["port"]),
        rows["permitrootlogin"][0],
        rows["pubkeyauthentication"][0] == "yes",
        tuple(rows["ciphers"][0].split(",")),
        keys,
    )


def _place(seen: Snapshot, end: End, name: str) -> Place:
    path = dict(looks.places(end))[name]
    lines = output(seen, f"place-{name}").splitlines()
    device, _, mount = lines[0].partition(" ")
    block, free, inodes, every = map(int, lines[1].split())
    writable, folder_too, nearest = lines[2].split(" ", 2)
    return Place(
        path,
        nearest,
        device,
        mount,
        block * free,
        inodes if every else None,
        writable == "1",
        folder_too == "1",
    )


def _ids(seen: Snapshot) -> dict[str, str]:
    """Of a Proxmox cluster every guest of every node, else LXC's containers."""
    text = seen.text("/etc/pve/.vmlist")
    if text is not None:
        rows = json.loads(text).get("ids", {})
        return {id: f"{row.get('type', '?')} on node {row.get('node', '?')}" for id, row in rows.items()}
    if not seen.has_tool("lxc-ls"):
        return {}
    return dict.fromkeys(output(seen, "lxc-ls").split(), "lxc")


def listening(seen: Snapshot) -> tuple[Listener, ...]:
    """By ss, with owners; else by the kernel's own list, without."""
    how, _, rest = output(seen, "listening").partition("\n")
    found = []
    for line in rest.splitlines():
        fields = line.split()
        if how == "owners" and len(fields) > 3 and fields[0] == "LISTEN":
            address, _, port = fields[3].rpartition(":")
            owner = re.search(r'\(\("([^"]+)",pid=(\d+)', line)
            found.append(Listener(int(port), address, f"{owner[1]} (pid {owner[2]})" if owner else ""))
        elif how == "none" and len(fields) > 3 and fields[3] == "0A":
            found.append(Listener(int(fields[1].rpartition(":")[2], 16)))
    return tuple(found)


def _migrations(seen: Snapshot, kind: str) -> dict[str, Record]:
    """By service. Raises CouldNotLook for a file that is none of ours: it may stand for an open one."""
    found = {}
    for path in seen.files(f"{standing.FOLDER}/"):
        if not path.endswith(kind):
            continue
        try:
            found[path.rpartition("/")[2].removesuffix(kind)] = standing.parse(seen.text(path) or "")
        except (ValueError, RecursionError) as error:
            raise CouldNotLook(f"{path} is no state file of a migration ({error})") from None
    return found


def _unit(seen: Snapshot) -> UnitLook | None:
    rows: dict[str, str] = {}
    names = []
    for line in output(seen, "unit").splitlines():
        key, equals, text = line.partition("=")
        if key == "name":
            names.append(text)
        elif equals:
            rows.setdefault(key, text)
    if rows["LoadState"] == "not-found":
        return None
    return UnitLook(
        rows["Id"],
        rows["ActiveState"],
        rows["SubState"],
        rows.get("UnitFileState", ""),
        int(rows["MainPID"]),
        rows.get("ActiveEnterTimestamp", ""),
        rows.get("FragmentPath", ""),
        tuple(rows.get("DropInPaths", "").split()),
        int(rows.get("NRestarts") or 0),
        rows.get("digest", ""),
        rows.get("running", ""),
        tuple(sorted(set(names))),
    )


def _generates(seen: Snapshot) -> str | None:
    """What it answered instead of tokens; None where it generated. Raises CouldNotLook where it could not be asked."""
    code, text = seen.command("generates")
    if code == 3:
        raise CouldNotLook("the guest has no python3 that could ask the service")
    said = text.strip()
    return None if said == "generated" else said[:200] or f"no answer (exit {code})"
