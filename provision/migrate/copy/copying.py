"""A run's copy, from the key to the folders in their places. Every step looks first and may be repeated."""

from __future__ import annotations

import time
from collections.abc import Callable

from provision.migrate.copy import ends, place, proof, reasons, scripts, unit, way
from provision.migrate.copy.key import unauthorized
from provision.migrate.copy.listing import Listing, NotRead, listing, named, sizes
from provision.migrate.copy.model import CopyFailed, CopySettings, Folder, Progress
from provision.migrate.copy.owners import pairs
from provision.migrate.copy.parts import Part, Say, parts, with_keys
from provision.migrate.copy.progress import Meter, Seen, look, seen
from provision.migrate.copy.relay import Relay
from provision.migrate.copy.split import split
from provision.migrate.sides import Side

EVERY = 2.0
"""Seconds between two looks at the unit."""


class Copy:
    """Copies the folders of one run from the source's machine to the target's.

    In this order: ``prepare``, ``start``, ``wait``, ``verify``, ``place`` while the source serves; after the drain
    ``delta``, ``verify(final=True)``, ``place(final=True)``; ``clean`` at the end, ``undo`` for the way back,
    ``forget`` when there is none any more. A resumed run makes the same calls. They raise CopyFailed, and
    TransportError when a machine is not reached; what runs on the source goes on.
    """

    def __init__(
        self, run: str, source: Side, target: Side, folders: tuple[Folder, ...], settings: CopySettings
    ) -> None:
        self.run, self.source, self.target, self.settings = run, source, target, settings
        self.parts = parts(source, target, folders)
        self.heard: Callable[[Progress], None] | None = None
        """Gets every look at a copy that is waited for."""
        self._meter = Meter()
        self._relay = Relay(run, source, target, settings)

    @property
    def route(self) -> str:
        return "through the controller" if self.settings.through_controller else "direct"

    def prepare(self) -> None:
        """The folders to gather in, and the key with all that belongs to it; a first connection is tried."""
        way.gather(self.target, self.parts, self.run)
        if not self.settings.through_controller:
            # A unit that runs tries its connections by itself, also while the network is away.
            probe = not self._look().active
            way.open_way(self.source, self.target, self.parts, self.run, self.settings, probe=probe)

    def start(self) -> None:
        """The copy of all folders runs. One that runs already goes on; what is there already is not sent again."""
        self._begin(self.parts)

    def progress(self) -> Progress:
        """How far the copy is, also of a run that another controller started."""
        if self.settings.through_controller:
            return self._relay.progress()
        return self._meter.progress(self._look())

    def wait(self, say: Say) -> Progress:
        """Until all bytes are on the target and the source's checksums are taken; ``say`` gets a line now and then."""
        if self.settings.through_controller:
            return self._relay.run(say, self._heard)
        said, last = 0.0, ""
        while True:
            now = self.progress()
            self._heard(now)
            if now.state in ("done", "failed", "none"):
                break
            if now.state != last or time.monotonic() - said > 15:
                say(now.line)
                said, last = time.monotonic(), now.state
            time.sleep(EVERY)
        if now.state != "done":
            raise self._failure(now)
        say(now.line)
        return now

    def _heard(self, now: Progress) -> None:
        if self.heard is not None:
            self.heard(now)

    def verify(self, *, final: bool = False) -> list[str]:
        """What differs between source and target, a line each; none: equal, by SHA-256 of every file.

        Folders that somebody writes to count only with ``final``, after ``delta``. What was found equal and lies in its
        place is not read again as long as every file is the very same one.
        """
        if not self.settings.through_controller and self._look().active:
            return [f"{self.source.name}: the copy is not at its end"]
        found: list[str] = []
        for part in self._meant(final):
            state, staged = self._state(part)
            if state == "placed":
                if not part.folder.immutable or proof.proven(self.source, self.target, part, self.run):
                    continue
            elif not part.folder.immutable and not self._followed(part):
                found.append(f"{self.source.name}: {part.folder.source_path} was not copied after the drain")
                continue
            elif state == "absent" and not staged:
                found.append(f"{self.target.name}: {part.target.path} is not there")
                continue
            how = "absent" if not part.folder.immutable else state
            found += proof.verify(self.source, self.target, part, self.run, how)
        return found

    def retake(self, before: Callable[[], object]) -> bool:
        """Folders that this run put in place and that are not equal any more go back to where they are gathered, to be
        copied again: True. ``before`` is called first: who reads them must not."""
        spoiled = [
            part
            for part in self._meant(final=False)
            if self._state(part)[0] == "placed"
            and not proof.proven(self.source, self.target, part, self.run)
            and proof.verify(self.source, self.target, part, self.run, "placed")
        ]
        if spoiled:
            before()
        for part in spoiled:
            script = place.back(part.target, self.run)
            ends.at(self.target, part.target, script, f"taking {part.target.path} back", timeout=600)
        return bool(spoiled)

    def place(self, *, final: bool = False) -> None:
        """Puts what was verified in its place, in one step each. What somebody else put there stays."""
        for part in self._meant(final):
            state, staged = self._state(part)
            if state == "placed" or not staged or (state == "there" and part.folder.immutable):
                continue
            if not proof.gathered(self.target, part, self.run):
                raise CopyFailed(
                    f"{self.target.name}: what was gathered for {part.target.path} is not what was found equal",
                    "a service would read files that nobody verified",
                    "go on with --resume: it is compared again",
                )
            script = place.put(part.target, self.run, part.number)
            ends.at(self.target, part.target, script, f"putting {part.target.path} in place", timeout=600)

    def placed(self) -> bool:
        """Is every folder that nobody writes to in its place on the target?"""
        return all(self._state(part)[0] != "absent" for part in self._meant(final=False))

    def delta(self, say: Say) -> None:
        """After the drain: folders that somebody wrote to are copied once more."""
        late = tuple(
            part for part in self.parts if not part.folder.immutable and self._state(part)[0] != "placed"
        )
        if not late:
            return
        if not self.settings.through_controller:
            if self._look().active:
                self.wait(say)
            # A restart of the source takes the key with it.
            if not self.source.host(scripts.has(self.run, "key.0.pub")).ok:
                self.prepare()
        self._begin(late)
        self.wait(say)
        for part in late:
            way.write(self.source, self.run, f"{part.number}/followed", b"")

    def undo_delta(self) -> None:
        """Takes back what ``delta`` brought into its place."""
        self._take([part for part in self.parts if not part.folder.immutable])

    def clean(self) -> None:
        """Nothing of the copy is left but what is in place: no unit, key, line or staging folder. A source that is not
        reached keeps the target from nothing; its error comes at the end."""
        lost: OSError | None = None
        try:
            ends.run(self.source, unit.clear(self.run), "ending the copy", timeout=120)
        except OSError as error:
            lost = error
        ends.run(self.target, unauthorized(self.run), "removing the key")
        ends.run(self.target, unit.clear_target(self.run), "removing the run's folder")
        for part in self.parts:
            script = place.clear(part.target, self.run)
            ends.at(self.target, part.target, script, "removing what was gathered", timeout=600)
        if lost is not None:
            raise lost

    def undo(self) -> None:
        """As if nothing had been copied: what this run put in place is removed too, and what stood there is back."""
        lost: OSError | None = None
        try:
            self.clean()
        except OSError as error:
            lost = error
        self._take(list(self.parts))
        self.forget()
        if lost is not None:
            raise lost

    def forget(self) -> None:
        """There is no way back any more: the record, and what stood at the places before, are gone."""
        for part in self.parts:
            script = place.forget(part.target, self.run, part.number)
            ends.at(self.target, part.target, script, "closing the copy", timeout=600)

    def _take(self, some: list[Part]) -> None:
        for part in some:
            script = place.take(part.target, self.run, part.number)
            ends.at(self.target, part.target, script, f"removing {part.target.path}", timeout=600)

    def _meant(self, final: bool) -> list[Part]:
        return [part for part in self.parts if part.folder.immutable or final]

    def _begin(self, some: tuple[Part, ...]) -> None:
        if not self.settings.through_controller and self._look().active:
            return
        jobs, total = [], 0
        for part in some:
            entries = self._before(part)
            total += sizes(entries).size
            jobs.append(self._job(part, entries))
        if self.settings.through_controller:
            self._relay.take(some, jobs, total)
            return
        way.write(self.source, self.run, "total", str(total).encode())
        way.write(self.source, self.run, unit.SHELL, unit.FOLLOWING.encode())
        way.write(self.source, self.run, "copy", unit.script(self.run, jobs, self.settings).encode())
        self._meter = Meter()
        ends.run(self.source, unit.start(self.run, self.settings), "starting the copy")

    def _before(self, part: Part) -> Listing:
        path = part.folder.source_path
        script = scripts.before(self.run, part.number, part.source)
        done = ends.run(self.source, script, f"listing {path}", timeout=600)
        try:
            return listing(done.stdout)
        except NotRead as error:
            raise ends.unreadable(self.source, path, error) from error

    def _job(self, part: Part, entries: Listing) -> unit.Job:
        state = self._state(part)[0]
        send = state == "absent" or (state == "there" and not part.folder.immutable)
        if not send:
            return unit.Job(part.number, part.source, part.target.name, part.key, send=False)
        if entries["."].kind == "f" and part.source.name != part.target.name:
            raise CopyFailed(
                f"{part.folder.source_path} is a file, and {part.folder.target_path} has another name",
                "a single file is copied under its own name",
                "give both the same name",
            )
        ours, theirs = ends.ids(self.source), ends.ids(self.target, place=part.target)
        lists = split(entries, self.settings.streams)
        if not self.settings.through_controller:
            for number, paths in enumerate(lists):
                data = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
                way.write(self.source, self.run, f"{part.number}/list.{number}", data)
        return unit.Job(
            part.number,
            part.source,
            part.target.name,
            part.key,
            tuple(pairs((entry.uid for entry in entries.values()), ours, theirs)),
            tuple(pairs((entry.gid for entry in entries.values()), ours, theirs)),
            len(lists),
        )

    def _look(self) -> Seen:
        return seen(ends.run(self.source, look(self.run), "looking at the copy").text)

    def _state(self, part: Part) -> tuple[str, bool]:
        """``placed``, ``there`` or ``absent``, and whether something is gathered."""
        script = place.state(part.target, self.run, part.number)
        words = ends.at(self.target, part.target, script, "looking at the target").text.split()
        return words[0], words[1:] == ["staged"]

    def _followed(self, part: Part) -> bool:
        return self.source.host(scripts.has(self.run, f"{part.number}/followed")).ok

    def _failure(self, now: Progress) -> CopyFailed:
        if now.state == "none":
            return CopyFailed(
                f"{self.source.name}: the copy's unit is gone after {now.bytes_done} bytes",
                "it was stopped from outside, or the machine was restarted",
                "go on with --resume: what arrived is kept",
            )
        row = reasons.reason(now.why)
        seen = f"{self.source.name}: the copy stopped after {now.bytes_done} of {now.bytes_total} bytes: {now.why}"
        if row is reasons.FULL:
            seen += f"; {self._missing(now)}"
        return CopyFailed(seen, row.why, row.next)

    def _missing(self, now: Progress) -> str:
        found = []
        for part in with_keys(self.parts):
            done = ends.at(self.target, part.target, place.free(part.target), "looking at the target's disk")
            free, inodes = [*done.text.split(), "?", "?"][:2]
            found.append(
                f"{part.target.parent} on {self.target.name} has {free} bytes and {inodes} inodes free"
            )
        return f"{now.bytes_total - now.bytes_done} bytes are missing there, and {named(found)}"
