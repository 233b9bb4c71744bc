"""What an engine's files on the controller must satisfy before anything is begun: wheels, lock, patches."""

from __future__ import annotations

from collections.abc import Iterator

from provision.data import engines
from provision.forms import Where
from provision.spec import Engine
from provision.stack.engine import diff, locks, patches, wheels
from provision.stack.engine.patches import DesiredPatch

Wrong = Iterator[tuple[Where, str]]


def of_engine(engine: Engine, glibc: tuple[int, int] | None) -> Wrong:
    """Every reason, by field; ``glibc`` is the guest's, None where it is not known."""
    try:
        row = engines.kind_of(engine.kind)
    except engines.UnknownEngine:
        return
    requirement = f"{row.distribution}=={engine.version}"
    yield from _lock(engine, requirement)
    read = list(_patches(engine, row.subdirectory))
    for index, patch in enumerate(read):
        if isinstance(patch, str):
            yield ("patches", index), patch
    if engine.wheelhouse is None or not engine.wheelhouse.is_dir():
        return
    found = wheels.engine_wheels(engine.wheelhouse, row.distribution, engine.version)
    if not any(engine.wheelhouse.glob("*.whl")):
        yield ("wheelhouse",), f"no wheel (*.whl) lies in {engine.wheelhouse}"
        return
    if not found:
        yield (
            ("wheelhouse",),
            f"no wheel of {requirement} lies in {engine.wheelhouse}: download it there "
            f"(pip download --dest {engine.wheelhouse} {requirement})",
        )
        return
    why = [(path, list(wheels.misfits(tags, engine.python, glibc))) for path, tags in found]
    if all(reasons for _, reasons in why):
        for path, reasons in why:
            yield ("wheelhouse",), f"{path.name} {', and '.join(reasons)}"
        return
    wheel = next(path for path, reasons in why if not reasons)
    whole = [patch for patch in read if isinstance(patch, DesiredPatch)]
    if whole and len(whole) == len(read):
        try:
            wheels.try_patches(wheel, whole)
        except patches.Rejected as error:
            for reason in error.reasons:
                yield ("patches",), reason
        except OSError as error:
            yield ("wheelhouse",), f"{wheel.name} cannot be read: {error.strerror}"


def _lock(engine: Engine, requirement: str) -> Wrong:
    own = engine.wheelhouse / locks.OF_WHEELHOUSE if engine.wheelhouse is not None else None
    path, hashes = engine.lock, True
    if path is None:
        if own is None or not own.is_file():
            return
        path, hashes = own, False
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        yield ("lock",), f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}"
        return
    if not hashes:
        # The wheels that lie beside it give the hashes; a row that none is there for stays without.
        try:
            text = locks.with_hashes(text, _sums(engine))
        except ValueError as error:
            yield ("wheelhouse",), f"{path.name}: {error}"
            return
    for reason in locks.wrong(text, None if engine.source == "git" else requirement):
        where = ("lock",) if hashes else ("wheelhouse",)
        hint = "" if hashes else ": no wheel of it lies beside it" if "without --hash" in reason else ""
        yield where, f"{path.name}: {reason}{hint}"


def _sums(engine: Engine) -> Iterator[tuple[str, str]]:
    """Which wheels are there is all that is asked here: their bytes are summed when the environment is worked out."""
    for wheel in engine.wheelhouse.glob("*.whl") if engine.wheelhouse else ():
        yield wheel.name, "0" * 64


def _patches(engine: Engine, subdirectory: str) -> Iterator[DesiredPatch | str]:
    inner = "" if engine.source == "git" else subdirectory
    for patch in engine.patches:
        try:
            yield patches.desired(patch.file.name, patch.why, patch.file.read_bytes(), patch.without, inner)
        except OSError as error:
            yield f"{patch.file} cannot be read: {error.strerror}"
        except diff.BadPatch as error:
            yield f"{patch.file.name} {error}"
