"""A patch as unified diff: read, and applied strictly or not at all. Pure.

The reading is unidiff's. Where a hunk goes is decided here, and nothing is guessed: its lines stand word for word at
the line that it names, or at exactly one other place, while what it would make stands nowhere yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk as _Hunk
from unidiff.patch import PatchedFile, PatchSet

_NULL = "/dev/null"
_NO_NEWLINE = "\\"


class BadPatch(ValueError):
    """The text is no patch that can be applied at all; the text says why."""


class DoesNotApply(ValueError):
    """``reasons``: one line for each hunk that does not fit. ``applied``: all of it stands in the files already."""

    def __init__(self, reasons: Sequence[str], applied: bool = False) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)
        self.applied = applied


@dataclass(frozen=True)
class Hunk:
    """Lines, each with its end; ``start`` counts from 1, in the file as it was."""

    number: int
    start: int
    source: tuple[str, ...]
    target: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """What a patch does to one file; ``path`` is relative, without the first part (as ``patch -p1``)."""

    path: str
    kind: Literal["modify", "add", "delete"]
    hunks: tuple[Hunk, ...]


def read(text: str) -> tuple[Change, ...]:
    """The changes in their order. Raises BadPatch."""
    try:
        files = PatchSet(text)
    except (UnidiffParseError, UnicodeError) as error:
        raise BadPatch(f"is no whole unified diff: {error}") from None
    if not files:
        raise BadPatch("holds no change: a unified diff was expected (git diff, or a pull request's .diff)")
    lines = text.split("\n")
    changes = tuple(_change(file, lines) for file in files)
    twice = {
        change.path for at, change in enumerate(changes) if change.path in {c.path for c in changes[:at]}
    }
    if twice:
        raise BadPatch(f"changes {', '.join(sorted(twice))} twice: make two patches of it")
    return changes


def _change(file: PatchedFile, lines: Sequence[str]) -> Change:
    old, new = (_path(name) for name in (file.source_file, file.target_file))
    path = new if old is None else old
    if path is None:
        raise BadPatch("names no file")
    if file.is_binary_file:
        raise BadPatch(f"{path}: is binary, and only text can be patched")
    if old is not None and new is not None and old != new:
        raise BadPatch(f"{path}: is renamed to {new}; delete and add it instead (git diff --no-renames)")
    if file.is_symlink or file.is_submodule:
        raise BadPatch(f"{path}: is no plain file")
    kind: Literal["modify", "add", "delete"] = "add" if old is None else "delete" if new is None else "modify"
    hunks = tuple(_hunk(path, number, hunk, lines) for number, hunk in enumerate(file, 1))
    if not hunks and kind != "add":
        raise BadPatch(f"{path}: no hunk says what changes in it")
    return Change(path, kind, hunks)


def _path(name: str) -> str | None:
    name = name.strip()
    if name == _NULL:
        return None
    _, slash, path = name.partition("/")
    if not slash or not path or name.startswith(("/", '"')) or ".." in path.split("/"):
        raise BadPatch(
            f"{name}: is no path below a first part that can be left out (a/, b/), as git writes it"
        )
    return path


def _hunk(path: str, number: int, hunk: _Hunk, lines: Sequence[str]) -> Hunk:
    source: list[str] = []
    target: list[str] = []
    last: tuple[list[str], ...] = ()
    end = 0
    for line in hunk:
        if line.line_type == _NO_NEWLINE:
            for side in last:
                side[-1] = side[-1].removesuffix("\n")
            continue
        last = (source,) if line.is_removed else (target,) if line.is_added else (source, target)
        if line.line_type in ("+", "-", " "):
            end = max(end, line.diff_line_no or 0)
            for side in last:
                side.append(line.value)
    after = lines[end] if end < len(lines) else ""
    if after.startswith(("+", "-", " ")) and not after.startswith(("--- ", "-- ")):
        # unidiff takes what follows for words between two files.
        raise BadPatch(
            f"{path}: hunk {number} has more lines than its head says (line {end + 1} of the patch)"
        )
    return Hunk(number, hunk.source_start, tuple(source), tuple(target))


def apply(changes: Sequence[Change], files: Mapping[str, str | None]) -> dict[str, str | None]:
    """The new text of each file, None for one that goes. ``files`` has every path of the changes; None: not there.

    Raises DoesNotApply with every hunk that does not fit.
    """
    reasons: list[str] = []
    done = 0
    new: dict[str, str | None] = {}
    for change in changes:
        told: list[_Told] = []
        new[change.path] = _apply_to(change, files[change.path], told)
        reasons += [f"{change.path}{reason.text}" for reason in told]
        done += (
            bool(told) and all(reason.applied for reason in told) and len(told) == max(1, len(change.hunks))
        )
    if reasons:
        raise DoesNotApply(reasons, applied=done == len(changes))
    return new


@dataclass(frozen=True)
class _Told:
    text: str
    applied: bool = False


def _apply_to(change: Change, text: str | None, told: list[_Told]) -> str | None:
    if change.kind == "add":
        wanted = "".join(line for hunk in change.hunks for line in hunk.target)
        if text is not None:
            same = text == wanted
            told.append(_Told(": is there already" + (", with these very lines" if same else ""), same))
        return wanted
    if text is None:
        told.append(_Told(": is not there", change.kind == "delete"))
        return None
    lines = _split(text)
    if change.kind == "delete":
        if lines != [line for hunk in change.hunks for line in hunk.source]:
            told.append(_Told(": is not the file that the patch deletes"))
        return None
    made: list[str] = []
    at = 0
    for hunk in change.hunks:
        place = _place(hunk, lines, at)
        if isinstance(place, _Told):
            told.append(place)
            continue
        made += [*lines[at:place], *hunk.target]
        at = place + len(hunk.source)
    return "".join([*made, *lines[at:]])


def _split(text: str) -> list[str]:
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [last for last in text.split("\n")[-1:] if last]


def _place(hunk: Hunk, lines: Sequence[str], after: int) -> int | _Told:
    head = f", hunk {hunk.number} (line {hunk.start})"
    if not hunk.source:
        return _Told(f"{head}: has no line of context, so where it goes would be a guess")
    exact = hunk.start - 1
    fits = list(_found(hunk.source, lines, after))
    there = list(_found(hunk.target, lines, after)) if hunk.target else []
    if there and (not fits or _grows(hunk, fits, there)):
        return _Told(f"{head}: stands there already, at line {there[0] + 1}", True)
    if exact in fits:
        return exact
    if len(fits) == 1 and not there:
        return fits[0]
    if fits:
        places = ", ".join(str(place + 1) for place in fits)
        also = f", and what it makes stands at line {there[0] + 1} already" if there else ""
        return _Told(f"{head}: its lines stand at line {places}{also}: which are meant would be a guess")
    return _Told(f"{head}: {_difference(hunk, lines, exact)}")


def _grows(hunk: Hunk, fits: Sequence[int], there: Sequence[int]) -> bool:
    """Is every place where it fits the head of one where it stands already? (One that only adds at its end.)"""
    return len(hunk.target) > len(hunk.source) and set(fits) <= {
        place for place in there if hunk.target[: len(hunk.source)] == hunk.source
    }


def _found(block: Sequence[str], lines: Sequence[str], after: int) -> Iterator[int]:
    wanted = list(block)
    for place in range(after, len(lines) - len(wanted) + 1):
        if lines[place] == wanted[0] and list(lines[place : place + len(wanted)]) == wanted:
            yield place


def _difference(hunk: Hunk, lines: Sequence[str], exact: int) -> str:
    """The first line that is another one, at the place where most of the hunk stands."""

    def agreeing(place: int) -> int:
        return sum(a == b and a.strip() != "" for a, b in zip(hunk.source, lines[place:], strict=False))

    best = max(range(len(lines)), key=lambda place: (agreeing(place), -abs(place - exact)), default=0)
    if not lines or not agreeing(best):
        return "none of its lines stands in this file"
    for offset, wanted in enumerate(hunk.source):
        found = lines[best + offset] if best + offset < len(lines) else None
        if found != wanted:
            seen = "the file ends" if found is None else f"stands {_shown(found)}"
            return f"at line {best + offset + 1} {seen} where the patch has {_shown(wanted)}"
    return "its lines stand before those of the hunk before it"


def _shown(line: str) -> str:
    text = line.rstrip("\n")
    return repr(text if len(text) <= 100 else f"{text[:97]}...")
