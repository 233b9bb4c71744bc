"""From a profile to the flags of one service: what the drafter's config, the guest's GPUs and the operator say.

The operator's own flags win over a profile's, and what that means is said. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from checks.drafter import config as drafter_config
from provision.data import parallel
from provision.data.around import CONFIG, Around
from provision.data.flag_names import canonical, spellings
from provision.data.profile_form import Flag, Profile

if TYPE_CHECKING:
    from provision.data.engines import Kind
    from provision.spec import Service

JSON = "--speculative-config"
SHORT = {
    "--spec-method": "method",
    "--spec-model": "model",
    "--spec-tokens": "num_speculative_tokens",
}
"""vLLM 0.33.0 ``_get_speculative_config``: each is refused beside the key of the JSON that it stands for."""


@dataclass
class Launch:
    """``flags``: the profile's, the topology's, then the operator's. ``notes``: what was chosen, and by what.
    ``open``: what cannot be decided before more is known. ``wrong``: (what was seen, why it matters, next step)."""

    flags: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    wrong: list[tuple[str, str, str]] = field(default_factory=list)


def launch(service: Service, kind: Kind, profile: Profile, around: Around) -> Launch:
    """Raises ValueError for a version that cannot do the profile and for a drafter that is missing."""
    made = Launch()
    version = service.engine.version
    drafter = service.drafter.directory if service.drafter else None
    if not profile.fits(version) or (profile.drafter and drafter is None):
        profile.words(version, drafter, 16)
    mine = groups(service.flags)
    block = _block(service, profile, around, mine, made)
    words: list[str] = []
    for flag in profile.of(version):
        if flag.words[0] == JSON:
            text, mine = _merged(flag.written(drafter, block), mine, made)
            words += text
            continue
        theirs = _given(service, flag, mine)
        if theirs is None:
            words += flag.written(drafter, block)
        else:
            made.notes.append(
                f"flags say {' '.join(theirs)} where profile {profile.name} has "
                f"{' '.join(flag.written(drafter, block))}: the inventory's flags win"
            )
    named = canonical(service.engine.kind, version, service.flags)
    split = parallel.split(named, kind.parallel_flags, around)
    made.notes += split.notes
    made.wrong += split.wrong
    made.flags = (*words, *split.flags, *(word for group in mine for word in group))
    return made


def groups(flags: Sequence[str]) -> list[list[str]]:
    """The operator's flags, each with its values."""
    found: list[list[str]] = []
    for word in flags:
        if (word.startswith("-") and not word[1:2].isdecimal()) or not found:
            found.append([])
        found[-1].append(word)
    return found


def _given(service: Service, flag: Flag, mine: Iterable[Sequence[str]]) -> Sequence[str] | None:
    engine, version = service.engine.kind, service.engine.version
    names = spellings(engine, version, flag.words[0])
    return next((g for g in mine if canonical(engine, version, g[:1])[0].partition("=")[0] in names), None)


def _block(
    service: Service, profile: Profile, around: Around, mine: Sequence[Sequence[str]], made: Launch
) -> int | None:
    """The drafter's block size, from its own config. A stand-in while it is not known: such a unit is never put."""
    if not profile.reads_block:
        return None
    drafts = _operators_drafts(service, profile, mine)
    where = f"{service.drafter.directory if service.drafter else 'the drafter'}/{CONFIG}"
    if around.drafter is None:
        if drafts is None:
            made.open.append(
                f"how many tokens are drafted: {where} is not there to be read yet, and says the block size"
            )
        return (drafts or 15) + 1
    read = drafter_config.parse(around.drafter)
    if read.block is None or read.block < 2 or read.other_block not in (None, read.block):
        if drafts is None:
            seen = "no block size" if read.block is None else f"block size {read.block}"
            also = f" and {read.other_block}" if read.other_block not in (None, read.block) else ""
            made.wrong.append(
                (
                    f"{where} says {seen}{also}",
                    f"profile {profile.name} drafts one block less its anchor, and the engine would take a default "
                    "that the drafter was not trained for",
                    "provcheck drafter says what belongs there; or set the number of draft tokens in flags",
                )
            )
        return (drafts or 15) + 1
    if drafts is None:
        count = "drafts" if service.engine.kind != "sglang" else "draft tokens, anchor included"
        number = read.block - 1 if service.engine.kind != "sglang" else read.block
        made.notes.append(f"{number} {count}: block size {read.block} in {where}")
    elif drafts != read.block - 1:
        worse = (
            "it was not trained for more" if drafts >= read.block else "some of what it drafts is not used"
        )
        made.notes.append(
            f"flags ask for {drafts} drafts where the block size in {where} is {read.block}: {worse}; the "
            "inventory's flags win"
        )
    return read.block


def _operators_drafts(service: Service, profile: Profile, mine: Sequence[Sequence[str]]) -> int | None:
    """How many tokens the operator's own flags draft, the anchor not counted."""
    if service.engine.kind == "sglang":
        flag = next(flag for flag in profile.of(service.engine.version) if flag.reads_block)
        group = _given(service, flag, mine)
        value = _value(group) if group else None
        return int(value) - 1 if value is not None and value.isdecimal() else None
    for group in mine:
        key = _key(group)
        value = _value(group)
        if key == ["num_speculative_tokens"] and value is not None and value.isdecimal():
            return int(value)
    return None


def _value(group: Sequence[str]) -> str | None:
    _, equals, value = group[0].partition("=")
    return value if equals else (group[1] if len(group) > 1 else None)


def _key(group: Sequence[str]) -> list[str] | None:
    """The keys of vLLM's JSON that a flag sets, ``--speculative-config.method`` or ``--spec-method``; else None."""
    name = group[0].partition("=")[0]
    if name in SHORT:
        return [SHORT[name]]
    head, dot, keys = name.partition(".")
    return keys.split(".") if dot and head.replace("_", "-") in (JSON, "-sc") else None


def _merged(words: Sequence[str], mine: list[list[str]], made: Launch) -> tuple[list[str], list[list[str]]]:
    """The profile's JSON with the operator's keys in it. vLLM would take the dotted keys as a whole new value: the
    parser puts them behind what was written, and the last one counts (FlexibleArgumentParser.parse_args)."""
    values: dict[str, Any] = json.loads(words[1])
    left: list[list[str]] = []
    for group in mine:
        keys, value = _key(group), _value(group)
        if not keys or value is None:
            left.append(group)
            continue
        here: Any = values
        for key in keys[:-1]:
            here = here.setdefault(key, {}) if isinstance(here, dict) else {}
        before = here.get(keys[-1]) if isinstance(here, dict) else None
        now = _json(value)
        if before is not None and before != now:
            made.notes.append(
                f"flags say {'.'.join(keys)} {now} where the profile has {before}: the inventory's flags win"
            )
        if isinstance(here, dict):
            here[keys[-1]] = now
    return [words[0], json.dumps(values)], left


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def told(values: Mapping[str, str]) -> str:
    """Variables in words."""
    return " ".join(f"{name}={value}" for name, value in sorted(values.items()))
