"""What is other on the target than on the source, and may be: told, never refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from provision.data.engines import KEY_VARIABLES
from provision.data.migrating import BROKEN, CONFINED_RSYNC, version_of
from provision.migrate.case import Case
from provision.migrate.ends import End, Pair
from provision.migrate.seen import Folder, Rsync, Sshd, UnitLook
from provision.spec import Service
from provision.stack import engine_words

_FAMILIES = re.compile(r"(?:NCCL|VLLM|SGLANG|SGL|CUDA|OMP|TORCH|PYTORCH|FLASHINFER|TRITON|HF)_")
"""Variables that change what an engine does; others of a process (PATH, HOME) are its unit's."""
_QUANTISED = ("--quantization", "-q")


def notes(case: Case) -> list[str]:
    """In the order of weight: what changes answers or speed first."""
    return [
        *_profile(case.pair),
        *_gpus(case),
        *_environment(case),
        *_mounts(case.pair),
        *_ways(case),
        *_other(case),
    ]


def _profile(pair: Pair) -> Iterator[str]:
    source, target = (end.service for end in pair.ends)
    rows = [
        (
            "engine",
            f"{source.engine.kind} {source.engine.version}",
            f"{target.engine.kind} {target.engine.version}",
        ),
        ("engine's source", source.engine.source, target.engine.source),
        ("profile", source.profile, target.profile),
        ("drafter", _drafter(source), _drafter(target)),
    ]
    one, two = (_said(pair, end) for end in pair.ends)
    if one is not None and two is not None:
        rows += [
            ("context length", one.context, two.context),
            ("tensor parallel size", _option(one.words, "--tp"), _option(two.words, "--tp")),
            ("kind of cache", _option(one.words, "--kv-cache-dtype"), _option(two.words, "--kv-cache-dtype")),
            ("tokens per draft", str(one.drafts), str(two.drafts)),
        ]
    rows.append(("quantisation", _flag(source.flags, _QUANTISED), _flag(target.flags, _QUANTISED)))
    for what, here, there in rows:
        if here != there:
            yield f"{what}: {here} on {pair.source.name}, {there} on {pair.target.name}"
    ours, theirs = set(source.flags), set(target.flags)
    if ours != theirs:
        gone, new = (", ".join(sorted(one)) or "none" for one in (ours - theirs, theirs - ours))
        yield f"flags: only on {pair.source.name}: {gone}; only on {pair.target.name}: {new}"


def _drafter(service: Service) -> str:
    return f"{service.drafter.repo}@{service.drafter.revision[:12]}" if service.drafter else "none"


def _said(pair: Pair, end: End) -> engine_words.Said | None:
    words, engine = pair.commands.get(end.role, ()), end.service.engine
    if not words or not engine_words.known(engine.kind):
        return None
    try:
        return engine_words.said(engine.kind, engine.version, words)
    except ValueError:
        return None


def _option(words: Sequence[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words else "the model's own"


def _flag(flags: Sequence[str], names: Sequence[str]) -> str:
    for at, word in enumerate(flags):
        name, equals, text = word.partition("=")
        if name in names:
            return text if equals else "".join(flags[at + 1 : at + 2])
    return "none asked for"


def _gpus(case: Case) -> Iterator[str]:
    kinds = []
    for end in case.pair.ends:
        models = {gpu.bdf: gpu.model for gpu in end.machine.gpus}
        kinds.append(tuple(sorted(models.get(bdf, "a GPU") for bdf in end.guest.gpus)))
    if kinds[0] != kinds[1]:
        here, there = (", ".join(one) or "none" for one in kinds)
        yield (
            f"GPUs: {here} on {case.pair.source.name}, {there} on {case.pair.target.name}: answers need not be "
            "equal to the last digit, and speed is another one"
        )
    if case.source is not None:
        one, two = case.source.machine.driver, case.target.machine.driver
        if isinstance(one, tuple) and isinstance(two, tuple) and one != two:
            yield f"driver: {' '.join(one)} on {case.pair.source.name}, {' '.join(two)} on {case.pair.target.name}"


def _environment(case: Case) -> Iterator[str]:
    """Names alone: what a variable holds may be a secret."""
    source, target = case.pair.ends
    here, there = dict(source.service.environment), target.service.environment
    for name in sorted(here.keys() & there.keys()):
        if here[name] != there[name]:
            yield f"variable {name} has another value on {target.name}"
    names = set(here)
    if source.service.found is not None:
        names |= {name for name in source.service.found.environment if _FAMILIES.match(name)}
        unit = case.source.guest.unit if case.source is not None and case.source.guest is not None else None
        if isinstance(unit, UnitLook):
            names |= {name for name in unit.names if _FAMILIES.match(name)}
    names -= set(KEY_VARIABLES)
    for only, others, end in ((names, set(there), source), (set(there), names, target)):
        left = sorted(only - others)
        if left:
            yield f"variables only on {end.name}: {', '.join(left)}"


def _mounts(pair: Pair) -> Iterator[str]:
    theirs = {mount.target for mount in pair.target.guest.mounts} | {"/srv/models"}
    left = [
        f"{mount.target} ({mount.source})" for mount in pair.source.guest.mounts if mount.target not in theirs
    ]
    if left:
        yield f"folders that only the source's container shows, and that do not move: {', '.join(left)}"


def _ways(case: Case) -> Iterator[str]:
    reach = case.pair.reach
    if reach is not None and reach.route == "controller":
        yield (
            f"{case.pair.source.name} cannot reach {case.pair.target.name} by itself ({reach.why}): the copy goes "
            "through the controller, at the speed of its connection, and ends with it"
        )
    for end, seen in case.ends:
        found = seen.rsync
        if not isinstance(found, Rsync):
            continue
        called = found.package or found.version
        for row in BROKEN:
            if not row.refuse and row.hits(found.version, found.package, receives=end.role == "target"):
                yield f"rsync {called} of {end.name}: {row.text} ({row.source})"
        if end.role == "target" and version_of(found.version) < CONFINED_RSYNC:
            yield (
                f"rsync {called} of {end.name} is older than {'.'.join(map(str, CONFINED_RSYNC))}: whoever holds the "
                "copy's one-off key (root of the source) could write outside its folder (CVE-2026-53783)"
            )
    if case.source is not None:
        one, two = case.source.machine.sshd, case.target.machine.sshd
        if isinstance(one, Sshd) and isinstance(two, Sshd) and set(one.fingerprints) & set(two.fingerprints):
            yield "both machines show one SSH host key (cloned?): nobody can tell them apart by it"


def _other(case: Case) -> Iterator[str]:
    source, target = case.pair.ends
    if source.has_key and target.has_key and case.pair.same_key is None:
        yield f"whether {source.name} asks for the same key as {target.name} is not known: clients have to have both"
    for end, seen in case.ends:
        if seen.ntp is False:
            yield f"no NTP sets the clock of {end.name}"
    if case.source is not None and case.source.guest is not None:
        unit = case.source.guest.unit
        if isinstance(unit, UnitLook) and unit.at_boot not in ("enabled", ""):
            here, there = case.pair.source.name, case.pair.target.name
            yield f"{unit.name} is {unit.at_boot} on {here}; on {there} it starts at boot"
        if isinstance(unit, UnitLook) and unit.restarts:
            yield f"{unit.name} was restarted by systemd {unit.restarts} time(s) since it was last started by hand"
    for role, seen_folder in case.folders():
        if isinstance(seen_folder, Folder) and case.has(role, seen_folder):
            there = f"are on {case.pair.target.name} already, by names and sizes"
            yield f"the {role}'s files {there}: they are verified, not copied"
    for one in case.pair.asked:
        if one.verdict in ("unknown", "warn"):
            yield f"provcheck {one.gate} for {case.pair.target.name}: {one.verdict}: {'; '.join(one.lines)[:300]}"
    yield from case.plan.notes
