"""The patches of an engine against the files that they change: a wheel's, an environment's, a checkout's. Pure."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from provision.stack.engine import diff


@dataclass(frozen=True)
class DesiredPatch:
    """A patch as it was read on the controller. ``changes`` have the paths of what is installed."""

    name: str
    why: str
    sha256: str
    changes: tuple[diff.Change, ...] = field(repr=False)


class Rejected(ValueError):
    """``reasons``: every patch that cannot be applied, each with what to do."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = tuple(reasons)


def desired(name: str, why: str, data: bytes, without: Sequence[str], subdirectory: str) -> DesiredPatch:
    """Reads one. ``subdirectory`` is where the engine's repository keeps what is installed (``python/`` or nothing); a
    checkout's own paths are kept where it is empty. Raises ``diff.BadPatch``."""
    try:
        changes = diff.read(data.decode())
    except UnicodeDecodeError:
        raise diff.BadPatch("is no text in UTF-8") from None
    unused = [prefix for prefix in without if not any(c.path.startswith(prefix) for c in changes)]
    if unused:
        raise diff.BadPatch(f"changes nothing below {', '.join(unused)} (without=)")
    kept = [change for change in changes if not change.path.startswith(tuple(without) or ("\0",))]
    if not kept:
        raise diff.BadPatch("has no change left beside what is left out (without=)")
    moved = (diff.Change(c.path.removeprefix(subdirectory), c.kind, c.hunks) for c in kept)
    return DesiredPatch(name, why, hashlib.sha256(data).hexdigest(), tuple(moved))


def paths(patches: Sequence[DesiredPatch]) -> list[str]:
    """Every file that is changed, once."""
    return list(dict.fromkeys(change.path for patch in patches for change in patch.changes))


def apply(patches: Sequence[DesiredPatch], files: Mapping[str, str | None], of: str) -> dict[str, str | None]:
    """The files after all patches; None for one that is deleted. ``of`` says what is patched. Raises Rejected."""
    now = dict(files)
    reasons: list[str] = []
    for patch in patches:
        try:
            now |= diff.apply(patch.changes, now)
        except diff.DoesNotApply as error:
            reasons.append(_reason(patch, error, of))
    if reasons:
        raise Rejected(reasons)
    return now


def _reason(patch: DesiredPatch, error: diff.DoesNotApply, of: str) -> str:
    if error.applied:
        return f"{patch.name} is part of {of} already ({error.reasons[0]}): leave it out of patches"
    text = f"{patch.name} does not apply to {of}, and no part of it is applied: {'; '.join(error.reasons)}"
    if any(reason.endswith(": is not there") for reason in error.reasons):
        text += "; name folders that are not installed in without= (without=['tests/'])"
    return f"{text}; take the patch that was made for this version, or make it anew against its sources"


def read_all(wanted: Sequence[str], read: Callable[[str], bytes | None]) -> dict[str, str | None]:
    """The texts of the files. Raises Rejected for one that is no text."""
    found: dict[str, str | None] = {}
    wrong: list[str] = []
    for path in wanted:
        data = read(path)
        try:
            found[path] = None if data is None else data.decode()
        except UnicodeDecodeError:
            wrong.append(f"{path} is no text in UTF-8, and only text can be patched")
    if wrong:
        raise Rejected(wrong)
    return found


def record(text: str, changed: Mapping[str, str | None]) -> str:
    """An installed package's RECORD with the rows of the changed files as they are now.

    Source: Binary distribution format, "Signed wheel files": sha256 in urlsafe base64 without padding, then the size.
    """
    rows = {row[0]: row for row in csv.reader(io.StringIO(text)) if row}
    for path, content in changed.items():
        if content is None:
            rows.pop(path, None)
            continue
        data = content.encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows[path] = [path, f"sha256={digest}", str(len(data))]
    # What Python cached of the sources as they were is gone with them.
    stale = set(_cached(changed))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        row for path, row in rows.items() if not any(path.startswith(prefix) for prefix in stale)
    )
    return out.getvalue()


def _cached(changed: Mapping[str, str | None]) -> Iterator[str]:
    for path in changed:
        folder, _, name = path.rpartition("/")
        if name.endswith(".py"):
            yield f"{folder}/__pycache__/{name.removesuffix('.py')}."
