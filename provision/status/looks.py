"""What ``status`` looks at beside a plan: the journal, the lock, and the files that kpro wrote. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from checks.snapshot import CouldNotLook, Snapshot
from provision.host import last_run
from provision.host.changes import Change, parse

MANIFEST = "/var/lib/kpro/manifest.json"

# The lock itself is not tried: whoever takes it at this moment would be turned away.
_LOCK = (
    "i=$(stat -c %i /run/kpro/lock 2>/dev/null) || { echo free; exit 0; }; "
    '[ -r /proc/locks ] || exit 1; if grep -qE "FLOCK .*:$i " /proc/locks; '
    "then echo held; cat /run/kpro/lock; else echo free; fi"
)

REQUESTS = (
    f"file:{MANIFEST}",
    f"cmd:lock-held:{_LOCK}",
    last_run.REQUEST,
    "cmd:uptime:cat /proc/uptime",
)


def lock_holder(snapshot: Snapshot) -> str | None:
    """The line of the lock file while somebody holds it; None while it is free. Raises CouldNotLook."""
    code, output = snapshot.command("lock-held")
    word, _, rest = output.partition("\n")
    if code != 0 or word not in ("held", "free"):
        raise CouldNotLook(f"whether the machine is locked cannot be told: {output.strip()[:200]}")
    return rest.strip() if word == "held" else None


def changes(snapshot: Snapshot) -> tuple[Change, ...]:
    """Raises CouldNotLook when the manifest is there and cannot be read."""
    text = snapshot.text(MANIFEST)
    try:
        return parse(text) if text is not None else ()
    except (ValueError, KeyError, TypeError) as error:
        raise CouldNotLook(f"{MANIFEST} is none of kpro's: {error}") from error


def written(found: Sequence[Change], own: Collection[str]) -> dict[str, Change]:
    """The files that kpro wrote last, by path, with the sha256 that they were given. ``own``: the containers of this
    inventory; what lies in others is shown by theirs."""
    return {
        change.path: change
        for change in found
        if change.kind == "file" and change.written and _container(change.path) in (None, *own)
    }


def drift_requests(files: Mapping[str, Change]) -> list[str]:
    folders = dict.fromkeys(f"/var/lib/lxc/{name}" for path in files if (name := _container(path)))
    return [*(f"sha:{path}" for path in files), *(f"stat:{folder}" for folder in folders)]


def _container(path: str) -> str | None:
    """The container of plain LXC that a file belongs to."""
    match = re.match(r"/var/lib/lxc/([^/]+)/", path)
    return match[1] if match else None


def drift(
    snapshot: Snapshot, files: Mapping[str, Change], reasons: Mapping[str, str]
) -> list[dict[str, str]]:
    """What is no longer as kpro wrote it: ``changed``, ``gone``, or ``unknown`` where it could not be read; a container
    that is gone altogether is one row. ``reasons``: what each run was for, as far as this controller knows."""
    found: list[dict[str, str]] = []
    gone: dict[str, list[str]] = {}
    for path, change in files.items():
        run = change.run + (f", {reasons[change.run]}" if change.run in reasons else "")
        row = {"path": path, "run": change.run, "reason": reasons.get(change.run, "")}
        try:
            now = snapshot.digest(path)
        except CouldNotLook as error:
            found.append({**row, "state": "unknown", "why": str(error)})
            continue
        name = _container(path)
        if now is None and name and _is_gone(snapshot, name):
            gone.setdefault(name, []).append(run)
        elif now != change.written:
            state = "gone" if now is None else "changed"
            found.append({**row, "state": state, "why": f"not as kpro wrote it (run {run})"})
    for name, runs in gone.items():
        why = f"the container is gone, {len(runs)} file(s) of kpro with it (run {runs[-1]})"
        found.append({"path": f"/var/lib/lxc/{name}", "run": "", "reason": "", "state": "gone", "why": why})
    return found


def _is_gone(snapshot: Snapshot, name: str) -> bool:
    try:
        return snapshot.data("stat", f"/var/lib/lxc/{name}") is None
    except CouldNotLook:
        return False
