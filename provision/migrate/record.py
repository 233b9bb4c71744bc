"""The state files of a migration on its two machines: written whole or not at all, on the disk when they count."""

from __future__ import annotations

import shlex

from provision.migrate import standing
from provision.migrate.sides import Side
from provision.migrate.standing import Record
from provision.run.errors import ActFailed
from provision.run.host_journal import FOLDER as JOURNALS

_WRITE = """
set -u
umask 077
mkdir -p {folder} {journals} || exit 1
part=$(mktemp {folder}/.part.XXXXXX) || exit 1
trap 'rm -f -- "$part"' EXIT
head -c {size} >"$part" && [ "$(stat -c %s "$part")" = {size} ] && sync -- "$part" &&
  mv -fT -- "$part" {path} && sync -- {folder} || exit 1
cat >>{journals}/{run}.jsonl && sync -- {journals}/{run}.jsonl
"""
_KEEP = """
set -u
umask 077
part=$(mktemp {folder}/.part.XXXXXX) || exit 1
trap 'rm -f -- "$part"' EXIT
cat -- {path} >"$part" && sync -- "$part" && mv -fT -- "$part" {former} && sync -- {folder}
"""
_BACK = """
[ ! -e {former} ] || {{ mv -fT -- {former} {path} && sync -- {folder}; exit; }}
"""
_REMOVE = """
rm -f -- {path} {former} && {{ [ ! -d {folder} ] || sync -- {folder}; }} || exit 1
rmdir -- {folder} 2>/dev/null || :
"""
_UNWRITTEN = """
rm -f -- {journals}/{run}.jsonl; rmdir -- {journals} /var/lib/kpro 2>/dev/null; :
"""
_READ = """
[ ! -e {path} ] || cat -- {path}
"""


def read(side: Side) -> Record | None:
    """The state file of the service on this machine. Raises ActFailed when it cannot be read."""
    path = standing.path(side.service.name)
    done = side.host(_READ.format(path=shlex.quote(path)))
    if not done.ok:
        raise ActFailed(f"{side.name}: {path} cannot be read: {done.error_text}")
    if not done.stdout.strip():
        return None
    try:
        return standing.parse(done.text)
    except ValueError as error:
        raise ActFailed(
            f"{side.name}: {path} is no state file of a migration ({error}); it says whether the service is being "
            "moved. Look at it; where no migration is open (provision runs), remove it"
        ) from None


def write(side: Side, record: Record, line: str = "") -> None:
    """Puts the state file, and ``line`` into the machine's journal; both are on the disk when this returns. Raises
    ActFailed."""
    data = record.dump()
    script = _WRITE.format(
        folder=standing.FOLDER,
        journals=JOURNALS,
        path=shlex.quote(standing.path(record.service)),
        run=record.run,
        size=len(data),
    )
    done = side.host(script, stdin=data + (f"{line}\n".encode() if line else b""))
    if not done.ok:
        raise ActFailed(
            f"{side.name}: the state of the migration cannot be written below /var/lib/kpro: {done.error_text}; "
            "nothing is done that the machine does not know of. Make room there, then: --resume or --rollback"
        )


def unwritten(side: Side, run: str) -> None:
    """The machine knows nothing of this run: it was refused, and nothing was touched. Raises OSError."""
    side.host(_UNWRITTEN.format(journals=JOURNALS, run=run))


def keep(side: Side) -> None:
    """Before a run writes its own: the state file of a migration that had ended stays beside it. Raises ActFailed."""
    there = read(side)
    ended = there is not None and there.state in ("finalized", "rolled_back")
    script = _KEEP if ended else "rm -f -- {former}"
    done = side.host(_filled(script, side))
    if not done.ok:
        raise ActFailed(
            f"{side.name}: what {standing.path(side.service.name)} says cannot be kept: {done.error_text}; nothing was "
            "touched. Make room below /var/lib/kpro, then run again"
        )


def put_back(side: Side) -> None:
    """The run's own goes; what it gave way to is there again. Raises ActFailed."""
    _removed(side, _BACK + _REMOVE)


def remove(side: Side) -> None:
    """The run's own, and what it gave way to. Raises ActFailed."""
    _removed(side, _REMOVE)


def settle(side: Side) -> None:
    """What the run's own gave way to is history for good. Raises ActFailed."""
    _removed(side, "rm -f -- {former}")


def _filled(script: str, side: Side) -> str:
    name = side.service.name
    words = {"path": standing.path(name), "former": standing.former(name), "folder": standing.FOLDER}
    return script.format(**{key: shlex.quote(word) for key, word in words.items()})


def _removed(side: Side, script: str) -> None:
    done = side.host(_filled(script, side))
    if not done.ok:
        path = standing.path(side.service.name)
        raise ActFailed(f"{side.name}: {path} cannot be removed: {done.error_text}")
