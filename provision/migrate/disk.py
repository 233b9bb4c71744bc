"""Model files from a folder of the target's machine: a backup or a mounted disk, for a source that is dead.

It is a copy like the one between hosts: gathered aside, held against the manifest that lies with the files, put in its
place by one rename.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

from provision.guest.mounts import on_machine
from provision.migrate.copy.model import Progress
from provision.migrate.sides import Side
from provision.run.errors import ActFailed
from provision.stack.desired import MANIFEST
from provision.stack.manifest import Entry

RECORDS = "/var/lib/kpro/migrations"

_GATHER = """
set -u
umask 022
[ ! -e {place} ] || exit 0
[ -f {given}/{manifest} ] || {{ echo "{given}/{manifest} is not there" >&2; exit 3; }}
mkdir -p -- {incoming} && rm -rf --one-file-system -- {staged} &&
  cp -a --sparse=auto --reflink=auto -- {given} {staged} && sync -f {staged}
"""
_CHECK = """
cd {there} 2>/dev/null || {{ echo "{there} is not there"; exit 0; }}
sha256sum --check --quiet --strict - 2>&1 | sed 's/^sha256sum: //'
"""
_PLACE = """
set -u
[ -e {staged} ] || exit 0
mkdir -p -m 700 -- {records} && printf '%s\\n' {place} >>{records}/{run}.disk && sync -- {records}/{run}.disk &&
  mv -T -- {staged} {place} && sync -- {parent}
"""
_CLEAR = """
rm -rf --one-file-system -- {incoming}; rmdir -- {parent}/.incoming 2>/dev/null; :
"""
_UNDO = """
[ ! -f {records}/{run}.disk ] || while IFS= read -r place; do
  [ "$place" != {place} ] || rm -rf --one-file-system -- {place} || exit 1
done <{records}/{run}.disk
"""


class FromDisk:
    """``folder``: on the target's machine, with one folder a model, by the names that kpro gives them."""

    def __init__(self, run: str, target: Side, folder: str) -> None:
        self.run, self.target, self.folder = run, target, folder
        self.heard: Callable[[Progress], None] | None = None
        self.route = f"from {folder} of {target.name}"
        models = [one for one in (target.service.model, target.service.drafter) if one is not None]
        self.places: list[tuple[str, str]] = []
        for model in models:
            place = on_machine(target.machine, target.guest, model.directory)
            if place is None:
                raise ActFailed(
                    f"{model.directory} lies in the guest's own root on {target.name}: --models-from needs a folder of "
                    "the machine that is mounted there"
                )
            self.places.append((place, f"{folder.rstrip('/')}/{place.rpartition('/')[2]}"))

    def prepare(self) -> None:
        """Every model is there with its manifest. Raises ActFailed with all that are not."""
        wrong = [
            given for place, given in self.places if not self._there(place) and not self._manifest(given)
        ]
        if wrong:
            raise ActFailed(
                f"{self.target.name}: no {MANIFEST} in {' and '.join(wrong)}: model files without one are not known "
                "to be whole. Next: --models-from FOLDER with the folders of /srv/models of the source"
            )

    def start(self) -> None:
        return None

    def wait(self, say: Callable[[str], None]) -> None:
        for place, given in self.places:
            say(f"{self.target.name}: {given} is copied")
            self._do(_GATHER, place, "copying it", given=given, timeout=None)

    def verify(self, *, final: bool = False) -> list[str]:
        found = []
        for place, _ in self.places:
            there = place if self._there(place) else self._staged(place)
            text = self._manifest(there)
            if not text:
                found.append(f"{there}/{MANIFEST} is not there")
                continue
            entries: dict[str, Entry] = json.loads(text)
            sums = "".join(f"{entry['sha256']}  {name}\n" for name, entry in entries.items())
            done = self.target.host(
                _CHECK.format(there=shlex.quote(there)), stdin=sums.encode(), timeout=None
            )
            found += [f"{there}/{line}" for line in done.text.splitlines() if line.strip()]
        return found

    def retake(self, before: Callable[[], object]) -> bool:
        """As the copy's: what this run put in place and is not whole any more is removed, to be copied again."""
        if not any(self._there(place) for place, _ in self.places) or not self.verify():
            return False
        before()
        for place, _ in self.places:
            self._do(_UNDO, place, "removing it")
        return True

    def place(self, *, final: bool = False) -> None:
        for place, _ in self.places:
            self._do(_PLACE, place, "putting it in place")

    def placed(self) -> bool:
        return all(self._there(place) for place, _ in self.places)

    def delta(self, say: Callable[[str], None]) -> None:
        return None

    def undo_delta(self) -> None:
        return None

    def clean(self) -> None:
        for place, _ in self.places:
            self._do(_CLEAR, place, "removing what was gathered")

    def undo(self) -> None:
        for place, _ in self.places:
            self._do(_UNDO, place, "removing it")
        self.clean()
        self.forget()

    def forget(self) -> None:
        self.target.host(f"rm -f -- {RECORDS}/{self.run}.disk; rmdir -- {RECORDS} 2>/dev/null; :")

    def _staged(self, place: str) -> str:
        parent, _, name = place.rpartition("/")
        return f"{parent}/.incoming/{self.run}/{name}"

    def _there(self, place: str) -> bool:
        return self.target.host(f"[ -e {shlex.quote(place)} ]").ok

    def _manifest(self, folder: str) -> str:
        done = self.target.host(f"cat -- {shlex.quote(f'{folder}/{MANIFEST}')} 2>/dev/null")
        return done.text if done.ok else ""

    def _words(self, place: str) -> dict[str, str]:
        parent = place.rpartition("/")[0]
        return {
            "place": shlex.quote(place),
            "parent": shlex.quote(parent),
            "incoming": shlex.quote(f"{parent}/.incoming/{self.run}"),
            "staged": shlex.quote(self._staged(place)),
            "records": RECORDS,
            "run": self.run,
            "manifest": MANIFEST,
        }

    def _do(
        self, script: str, place: str, what: str, *, given: str = "", timeout: float | None = 600
    ) -> None:
        done = self.target.host(
            script.format(**self._words(place), given=shlex.quote(given)), timeout=timeout
        )
        if not done.ok:
            raise ActFailed(f"{self.target.name}: {given or place}: {what} failed: {done.error_text}")
