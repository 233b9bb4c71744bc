"""What moves with a service, each thing with its kind and way, and what does not. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from provision.migrate.case import Case
from provision.migrate.ends import End
from provision.migrate.seen import Extra, Folder
from provision.migrate.translate import Setting, settings
from provision.stack import baselines

Kind = Literal[
    "model",
    "drafter",
    "engine environment",
    "unit",
    "variables",
    "secret",
    "baseline",
    "container",
    "extra path",
]
How = Literal[
    "copied",
    "is there",
    "built anew",
    "written anew",
    "by standard input",
    "compared with",
    "translated",
    "put by the target",
]

_ORIGINS = {
    "in place": "has to lie there",
    "path": "from a folder of it",
    "folder": "from the controller",
    "hub": "from the hub",
}


@dataclass(frozen=True)
class Move:
    """``source`` and ``target``: where it lies, in the guests. ``size`` in bytes and ``count`` of files where files are
    copied; None: not known before it is copied, or no files."""

    kind: Kind
    how: How
    what: str
    source: str
    target: str
    size: int | None = None
    count: int | None = None
    note: str = ""

    @property
    def bytes_copied(self) -> int:
        return self.size or 0 if self.how == "copied" else 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "how": self.how,
            "what": self.what,
            "source": self.source,
            "target": self.target,
            "bytes": self.size,
            "files": self.count,
            "note": self.note,
        }


@dataclass(frozen=True)
class Stays:
    """What is left where it is, and why."""

    what: str
    why: str

    def as_dict(self) -> dict[str, str]:
        return {"what": self.what, "why": self.why}


@dataclass(frozen=True)
class Moves:
    """The whole list of a service. ``container``: the settings of both containers, side by side."""

    moves: tuple[Move, ...]
    stays: tuple[Stays, ...]
    container: tuple[Setting, ...]

    @property
    def size(self) -> int:
        """Bytes that go from machine to machine."""
        return sum(one.bytes_copied for one in self.moves)

    @property
    def count(self) -> int:
        return sum(one.count or 0 for one in self.moves if one.how == "copied")

    def as_dict(self) -> dict[str, Any]:
        return {
            "moves": [one.as_dict() for one in self.moves],
            "stays": [one.as_dict() for one in self.stays],
            "container": [one.as_dict() for one in self.container],
            "bytes": self.size,
            "files": self.count,
        }


def moves(case: Case) -> Moves:
    """The list for a pair, with sizes where the source's guest was looked into."""
    found = (*_models(case), *_rest(case), *_extras(case))
    return Moves(found, tuple(_stays(case)), settings(case.pair))


def _models(case: Case) -> Iterator[Move]:
    source, target = case.pair.ends
    seen = dict(case.folders())
    theirs = {(model.repo, model.revision): role for role, model in source.models}
    revisions = {model.revision: role for role, model in source.models}
    for role, model in target.models:
        kind: Kind = "drafter" if role == "drafter" else "model"
        at = theirs.get((model.repo, model.revision)) or revisions.get(model.revision)
        what = f"{model.repo}@{model.revision[:12]}"
        if case.source is None or at is None:
            why = "the source is not there" if case.source is None else f"{source.name} serves without it"
            yield Move(
                kind, "put by the target", what, "", model.directory, note=f"{_ORIGINS[model.origin]}: {why}"
            )
            continue
        folder = seen.get(at)
        size, count = (folder.size, folder.count) if isinstance(folder, Folder) else (None, None)
        there = isinstance(folder, Folder) and case.has(at, folder)
        links = isinstance(folder, Folder) and folder.outside > 0
        yield Move(
            kind,
            "is there" if there else "copied",
            what,
            source.folder(at) or "",
            model.directory,
            size,
            count,
            note="links of the hub's cache are followed: files arrive as files" if links else "",
        )


def _rest(case: Case) -> Iterator[Move]:
    source, target = case.pair.ends
    one, two = source.service, target.service
    engine = f"{two.engine.kind} {two.engine.version}, profile {two.profile}"
    home = one.found.engine or "" if one.found else "/opt/kpro/envs"
    yield Move(
        "engine environment",
        "built anew",
        engine,
        home,
        "/opt/kpro/envs",
        note="from the target's own lock: an environment holds paths and libraries of its machine",
    )
    folder = "/etc/systemd/system"
    yield Move("unit", "written anew", two.unit, f"{folder}/{one.unit}", f"{folder}/{two.unit}")
    names = ", ".join(sorted(two.environment)) or "kpro's own alone"
    yield Move(
        "variables", "written anew", names, _file(source), f"/etc/kpro/{two.name}.env", note="mode 0600"
    )
    if target.has_key:
        yield Move(
            "secret",
            "by standard input",
            "API key",
            str(one.api_key_file or _file(source)),
            f"/etc/kpro/{two.name}.key",
            note="from the controller's file, mode 0600, in no argument and no journal",
        )
    place, of_source = (f"{baselines.FOLDER}/{name}" for name in (two.name, one.name))
    if case.source is None:
        note = "what the target is held against"
        yield Move("baseline", "written anew", "the inventory's figure", "", place, note=note)
    else:
        note = "what the target does is held against it; the inventory's figure and its own reading are kept there"
        yield Move("baseline", "compared with", "the source's reading", of_source, place, note=note)
    other = [setting for setting in settings(case.pair) if not setting.same]
    yield Move(
        "container",
        "translated",
        f"{source.guest.backend} {source.guest.id}",
        source.guest.id,
        target.guest.id,
        note=f"{len(other)} setting(s) are other ones on {target.name}",
    )


def _file(end: End) -> str:
    return f"the unit {end.service.unit}" if end.service.found else f"/etc/kpro/{end.service.name}.env"


def _extras(case: Case) -> Iterator[Move]:
    if case.source is None or case.source.guest is None:
        for path in case.pair.extra_paths if case.source is not None else ():
            yield Move("extra path", "copied", path, path, path)
        return
    for path in case.pair.extra_paths:
        seen = case.source.guest.extras.get(path)
        size, count = (seen.size, seen.count) if isinstance(seen, Extra) else (None, None)
        note = "copied once more when the service has stopped"
        yield Move("extra path", "copied", path, path, path, size, count, note=note)


def _stays(case: Case) -> Iterator[Stays]:
    source, target = case.pair.ends
    others = [
        f"{service.name} (in {guest.name})"
        for guest in source.machine.guests
        for service in guest.services
        if service is not source.service
    ]
    if others:
        yield Stays(f"other services of {source.name}: {', '.join(others)}", "one service moves at a time")
    if source.service.candidate or target.service.candidate:
        yield Stays(
            "the candidate, and verdicts on candidates", "a trial is of one machine; it is tried anew there"
        )
    if case.source is None and case.pair.extra_paths:
        yield Stays(
            f"extra paths: {', '.join(case.pair.extra_paths)}", "the source is not there to copy them from"
        )
    yield from STAYS


STAYS = (
    Stays("logs and the journal of the source", "they tell what happened there"),
    Stays("compile caches (/var/cache/kpro)", "code for its GPUs, driver and engine; made anew at the start"),
    Stays(
        "measurements of the GPUs (load, nccl)", "they are of these GPUs and their links; measured anew there"
    ),
    Stays("the container's root: packages, users, cron, sshd", "made by the target's inventory, not copied"),
    Stays("driver, kernel and their settings", "the target's own inventory pins them"),
    Stays("network, firewall, DNS and certificates of the machine", "they belong to the machine and its net"),
    Stays("monitoring of the source (kpro-guard, scrapers)", "whoever set it up points it at the target"),
    Stays("the hub's token", "models come from the source, and the controller has the token"),
)
"""What never moves. What else stays (other services, a candidate) depends on the pair."""
