"""What an engine's own parser takes a flag's name for: vLLM's underscores, abbreviations, the other spellings. Pure.

Both engines use argparse with abbreviations allowed (checks/flags/read.py): ``--hos`` is ``--host``. A rule that asks
for one spelling is walked around by the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from checks.flags.table import BUILDS, ENGINES, Option, history, nearest


def _tables(engine: str, version: str) -> Iterator[Mapping[str, Option]]:
    """Those of the version, or of its two neighbours; none of an engine or a version that nobody knows."""
    engine = BUILDS.get(engine, engine)
    if engine not in ENGINES:
        return
    known = history(engine)
    try:
        near = nearest(known, version)
    except ValueError:
        return  # no version number: another rule says so
    for one in dict.fromkeys(filter(None, near)):
        yield known.table(one).options


def spellings(engine: str, version: str, name: str) -> frozenset[str]:
    """All names that the version's parser has for one option."""
    for options in _tables(engine, version):
        if name in options:
            return frozenset(options[name].names)
    return frozenset({name})


def canonical(engine: str, version: str, flags: Sequence[str]) -> tuple[str, ...]:
    """The flags with their whole names: one word stays one word, what is not known stays as it is."""
    return tuple(_whole(engine, version, word) if word.startswith("--") else word for word in flags)


def _whole(engine: str, version: str, word: str) -> str:
    name, equals, value = word.partition("=")
    head, dot, keys = name.partition(".")
    plain = head.replace("_", "-") if BUILDS.get(engine, engine) == "vllm" else name
    rest = f"{dot}{keys}{equals}{value}" if BUILDS.get(engine, engine) == "vllm" else f"{equals}{value}"
    tables = list(_tables(engine, version))
    if len(plain) < 3 or any(plain in options for options in tables):
        return plain + rest
    fits = [{one for one in options if one.startswith(plain)} for options in tables]
    if fits and len(fits[0]) == 1 and all(one == fits[0] for one in fits):
        return fits[0].pop() + rest
    return plain + rest


def taken_for(engine: str, version: str, word: str, names: Collection[str]) -> str | None:
    """Which of ``names`` the parser takes a flag for, or may: a beginning that no option has for its whole name
    counts. A dotted name sets keys of an option, and is none of them."""
    name = (
        _whole(engine, version, word).partition("=")[0] if word.startswith("--") else word.partition("=")[0]
    )
    if "." in name:
        return None
    if name in names:
        return name
    for own in names:
        if name in spellings(engine, version, own):
            return own
    if (
        len(name) < 3
        or not name.startswith("--")
        or any(name in options for options in _tables(engine, version))
    ):
        return None
    return next((own for own in names if own.startswith(name)), None)
