"""What speaks against copying: files, room, places, and what would be left behind. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from checks.snapshot import CouldNotLook
from provision.data import migrating
from provision.data.migrating import GIB
from provision.guest.mounts import mounts
from provision.migrate.case import Case, Rule, sure
from provision.migrate.ends import End
from provision.migrate.seen import Extra, Folder, Place, Unseen
from provision.plan import Refusal


def _files(case: Case) -> Iterator[Refusal]:
    if case.source is None or case.source.guest is None:
        return
    end = case.pair.source
    for role, _ in end.models:
        if end.folder(role) is None:
            raise CouldNotLook(
                f"{end.where}.{role}: which folder {end.service.unit} reads it from is not known"
            )
    for role, seen in case.folders():
        path = end.folder(role)
        if isinstance(seen, Unseen):
            raise CouldNotLook(f"{end.name}: {seen.why}")
        if seen is None or seen.count == 0:
            yield Refusal(
                f"{end.where}.{role}",
                f"{path} {'is not there' if seen is None else 'holds no files'}",
                "there is nothing to copy",
                "correct the inventory, or mount the folder in the guest",
            )
        elif seen.odd:
            yield Refusal(
                f"{end.where}.{role}",
                f"{path} holds {seen.odd} broken link(s), sockets or devices",
                "what is no file cannot be vouched for",
                f"find them in the guest: find -L {path} ! -type f ! -type d",
            )
        elif seen.damaged:
            yield Refusal(
                f"{end.where}.{role}",
                f"{path}: {len(seen.damaged)} file(s) are missing or of another size than its manifest says "
                f"({', '.join(seen.damaged[:3])})",
                "a damaged model would be copied as it is",
                f"put it again: provision apply {end.inventory}",
            )
        elif end.service.found is None and seen.outside:
            yield Refusal(
                f"{end.where}.{role}",
                f"{path} holds {seen.outside} link(s) that lead out of it",
                "what they show would not travel along",
                "copy the files themselves into it (cp -L)",
            )


def _revision(case: Case) -> Iterator[Refusal]:
    end = case.pair.source
    if case.source is None:
        return
    wanted = {role: model.revision for role, model in end.models}
    for role, seen in case.folders():
        if isinstance(seen, Folder) and seen.count and seen.revision != wanted[role]:
            yield Refusal(
                f"{end.where}.{role}.revision",
                f"{seen.path} holds {seen.revision or 'no revision that is recorded'}, and not {wanted[role]}",
                "other weights would be moved than the inventories say",
                "write what lies there into both inventories (provision init tells it)",
            )


def _needed(case: Case) -> tuple[int, int]:
    """Bytes and inodes that the target's folder of models has to take: those files that it has not."""
    return sum(one.size for _, one in case.copied), sum(one.count for _, one in case.copied)


def _room(case: Case) -> Iterator[Refusal]:
    if case.source is None:
        return
    place = sure(case.target.machine.models)
    size, count = _needed(case)
    where = f"machine {case.pair.target.name}"
    wanted = size + migrating.limit("headroom")
    if size and place.free < wanted:
        yield Refusal(
            where,
            f"{place.mount}, where {place.path} lies, has {_gib(place.free)} GiB free",
            f"the copy takes {_gib(size)} GiB, and {_gib(migrating.limit('headroom'))} GiB are kept free",
            f"free {_gib(wanted - place.free)} GiB there, or set Machine(models=…) to a larger file system",
        )
    inodes = count + migrating.limit("inodes")
    if count and place.inodes is not None and place.inodes < inodes:
        yield Refusal(
            where,
            f"{place.mount}, where {place.path} lies, has {place.inodes} inodes free",
            f"the copy makes {count} files, and {migrating.limit('inodes'):.0f} inodes are kept free",
            "remove small files there, or set Machine(models=…) to another file system",
        )


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}"


def _place(case: Case) -> Iterator[Refusal]:
    if case.source is None:
        return
    target, seen = case.pair.target, case.target.machine
    if any(target.on_metal(model.directory) is None for _, model in target.models):
        yield Refusal(
            f"{target.name}: machine.guests[{target.machine.guests.index(target.guest)}].mounts",
            "no folder of the machine is mounted at /srv/models",
            "model files would land in the container's own root, and every backup of it would hold them",
            f"Mount(source={target.machine.models!r}, target='/srv/models')",
        )
    models, staging = sure(seen.models), sure(seen.staging)
    where = f"machine {case.pair.target.name}"
    for place in (models, staging):
        if not place.folder:
            yield _unfit(where, place, "is no folder", "move that file away")
        elif not place.writable:
            yield _unfit(where, place, "cannot be written to by root", "mount it writable")
    if models.there and (models.device, models.mount) != (staging.device, staging.mount):
        yield Refusal(
            where,
            f"{staging.path} lies on {staging.mount} and {models.path} on {models.mount}",
            "files come there first and take their place by a rename, which no two file systems share",
            f"unmount {staging.mount}, or mount both by one file system",
        )


def _unfit(where: str, place: Place, what: str, next_step: str) -> Refusal:
    return Refusal(where, f"{place.nearest} {what}", f"the copy is put below {place.path}", next_step)


def _in_the_way(case: Case) -> Iterator[Refusal]:
    if case.source is None:
        return
    for role, seen in case.folders():
        there = case.target.machine.incoming.get(role)
        if isinstance(there, Unseen):
            raise CouldNotLook(f"{case.pair.target.name}: {there.why}")
        if (
            isinstance(there, Folder)
            and isinstance(seen, Folder)
            and there.count
            and not case.has(role, seen)
        ):
            yield Refusal(
                f"machine {case.pair.target.name}",
                f"{there.path} is there with other files ({there.count} of {_gib(there.size)} GiB) than the source's "
                f"({seen.count} of {_gib(seen.size)} GiB)",
                "one revision has one content, and what lies there is never written over",
                "look whose it is, and move it away or remove it yourself",
            )


def _extras(case: Case) -> Iterator[Refusal]:
    if case.source is None or case.source.guest is None:
        return
    end = case.pair.source
    where = f"{case.pair.target.where}.migration.extra_paths"
    for path in case.pair.extra_paths:
        seen = sure(case.source.guest.extras.get(path, Unseen(f"{path} was not looked at")))
        if seen is None:
            yield Refusal(
                where,
                f"{path} is not in {end.guest.name} of {end.name}",
                "there is nothing to move",
                "correct it, or take it out",
            )
        elif why := _strange(seen):
            yield Refusal(
                where,
                f"{path} of {end.name} {why}",
                "what a link shows outside would not travel along, and a device is of one machine",
                f"name {seen.real if seen.kind == 'link' else 'the files themselves'}, or take the links out",
            )


def _strange(seen: Extra) -> str:
    if seen.kind == "link":
        return f"is a link to {seen.real}"
    if seen.kind == "other":
        return "is neither file nor folder"
    if seen.real != seen.path:
        return f"lies behind a link, in {seen.real}"
    return f"holds {seen.outside} link(s) that lead out of it" if seen.outside else ""


def _mounts(case: Case) -> Iterator[Refusal]:
    """What lies on a folder of the source's machine must not land in the root of the target's container."""
    source, target = case.pair.ends
    for path in case.pair.extra_paths:
        here, there = source.on_metal(path), target.on_metal(path)
        where = f"{target.name}: machine.guests[{target.machine.guests.index(target.guest)}].mounts"
        if here is not None and there is None:
            yield Refusal(
                where,
                f"nothing is mounted at {path}, which is {here} of the machine on {source.name}",
                "it would land in the container's own root, and every backup of it would hold it",
                f"add a mount that holds {path} to the target's inventory",
            )
        elif there is not None and _read_only(target, path) and not _read_only(source, path):
            yield Refusal(
                where,
                f"{path} is read-only on {target.name}, and can be written to on {source.name}",
                "the service could not write there any more",
                "mount it with read_only=False",
            )
        elif path.rstrip("/") in {one.target.rstrip("/") for one in mounts(target.machine, target.guest)}:
            yield Refusal(
                where,
                f"{path} is itself where a folder of the machine is mounted",
                "what is copied is put in place by one rename, and the running container would go on to show the old "
                "folder",
                f"mount the folder above it, so that {path} lies in a mount, on {target.name}",
            )


def _read_only(end: End, path: str) -> bool:
    holding = [
        one
        for one in mounts(end.machine, end.guest)
        if path == one.target or path.startswith(f"{one.target.rstrip('/')}/")
    ]
    return bool(holding) and max(holding, key=lambda one: len(one.target)).read_only


def _named(case: Case) -> Iterator[Refusal]:
    """A flag may name a file that nobody moves: a chat template, a configuration."""
    if case.source is None or case.source.guest is None:
        return
    target = case.pair.target
    for path, there in sure(case.source.guest.named).items():
        if not there or target.on_metal(path) is not None:
            continue
        if not any(
            path == extra or path.startswith(f"{extra.rstrip('/')}/") for extra in case.pair.extra_paths
        ):
            yield Refusal(
                f"{target.where}.flags",
                f"{path} is named there, lies in the source's container, and does not move",
                "the engine would not find it on the target",
                "name it in migration.extra_paths, or mount a folder of the target that holds it",
            )


RULES = (
    Rule(
        "model files",
        "the source's model files are not there, or hold what cannot be vouched for",
        _files,
        about="served",
    ),
    Rule(
        "files' revision",
        "the source's model folder holds another revision than its inventory says",
        _revision,
        about="served",
    ),
    Rule(
        "room", "the target has fewer bytes or inodes free than the copy takes and what is kept free", _room
    ),
    Rule(
        "place",
        "the target's folder of models cannot be written to, or is not one file system with the staging",
        _place,
        "rename(2): EXDEV",
    ),
    Rule("in the way", "a folder of that model lies on the target with other files", _in_the_way),
    Rule(
        "extra paths",
        "an extra path is not there, is a link, or holds links that lead out",
        _extras,
        about="served",
    ),
    Rule(
        "mounts",
        "an extra path lies on a folder of the machine that the target does not mount, or read-only",
        _mounts,
    ),
    Rule("named files", "a flag names a file that does not move", _named, about="served"),
)
