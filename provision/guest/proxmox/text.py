"""The text of a container's configuration file with some lines replaced, removed or added, and how Proxmox itself would
write it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

from provision.guest.proxmox.grammar import PENDING, Conf, Line, parse, properties
from provision.guest.proxmox.schema import MOUNT, field_of


def with_raw(text: str, lines: Iterable[tuple[str, str]], dropped: Iterable[str] = ()) -> str:
    """The file with raw lines in its current section, and without those that are dropped."""
    return written(text, {}, (), lines, dropped)


_COMMENT = re.compile(r"#(?:[\x20-\x24\x26-\x39\x3b-\x7e]|%(?!0A)(?:[01][0-9A-F]|25|3A|7F|[89A-F][0-9A-F]))*")
"""A line of the description as Proxmox writes it: control characters, bytes above 7E, ``:`` and ``%`` are escaped. An
escaped line feed would come out again as the end of the line."""


def written(
    text: str,
    options: Mapping[str, str],
    delete: Iterable[str],
    lines: Iterable[tuple[str, str]],
    dropped: Iterable[str],
) -> str:
    """The lines of the file with some replaced, removed, and new ones put before the first section: an option behind
    the last one that sorts before it, raw lines at the end of the current configuration. One that is pending is
    replaced or removed where it waits."""
    conf = parse(text)
    gone, without = set(delete), set(dropped)
    waiting = set(conf.options(PENDING))
    rows: list[tuple[str, str]] = []
    rest: list[str] = []
    placed: set[str] = set()
    for at, line in enumerate(conf.lines):
        text_of = line.text
        if line.section in ("", PENDING) and line.kind == "option":
            if line.key in gone:
                continue
            if line.key in options and (line.section == PENDING or line.key not in placed | waiting):
                text_of = f"{line.key}: {options[line.key]}"
            placed |= {line.key} & set(options)
        elif line.section == "" and line.kind == "raw" and line.text in without:
            continue
        if at < conf.boundary:
            rows.append((line.key if line.kind == "option" else "", text_of))
        else:
            rest.append(text_of)
    for key in sorted(set(options) - placed):
        rows.insert(_behind(rows, key), (key, f"{key}: {options[key]}"))
    new = [("", f"{key}: {value}") for key, value in lines]
    if new:
        end = _end(rows)
        rows[end:end] = new
    texts = [row for _, row in rows] + rest
    last = "\n" if text.endswith("\n") or not text or conf.boundary == len(conf.lines) else ""
    if texts == [line.text for line in conf.lines]:
        return text
    return "\n".join(texts) + (last if texts else "")


def _behind(rows: list[tuple[str, str]], key: str) -> int:
    """Where a new option goes: behind the last one that sorts before it; else before the first option or raw line;
    else at the end, before blank lines."""
    before = [at for at, (other, _) in enumerate(rows) if other and other < key]
    if before:
        return before[-1] + 1
    first = [at for at, (_, row) in enumerate(rows) if row.strip() and not row.startswith("#")]
    return first[0] if first else _end(rows)


def _end(rows: list[tuple[str, str]]) -> int:
    """Behind the last line that is not blank."""
    return next((at + 1 for at in reversed(range(len(rows))) if rows[at][1].strip()), 0)


def is_normal(text: str) -> bool:
    """Does the file look as Proxmox writes it? Then ``pct set`` leaves all other lines as they are; else it would sort
    them, move comments to the top and drop what it cannot read (PVE::LXC::Config::write_pct_config)."""
    conf = parse(text)
    rows: list[str] = []
    names = list(dict.fromkeys(conf.sections))
    ordered = [name for name in names if name == PENDING] + sorted(name for name in names if name != PENDING)
    for name in ("", *ordered):
        lines = [
            line for line in conf.lines if line.section == name and line.kind not in ("section", "blank")
        ]
        rows += ["", f"[{name}]"] if name else []
        comments = [line.text for line in lines if line.kind == "comment"]
        if comments[-1:] == ["#"] or not all(map(_comes_out_again, comments)):
            return False
        if name == PENDING and not lines:
            return False
        if name == "" and (any(line.kind == "state" for line in lines) or _gives_up_volumes(conf)):
            return False
        rows += comments
        options = [line for line in lines if line.kind in ("option", "delete", "state")]
        rows += [f"{line.key}: {_plain(line)}" for line in sorted(options, key=lambda line: line.key)]
        rows += [f"{line.key}: {line.value}" for line in lines if line.kind == "raw"]
        if any(line.problem or line.kind in ("description", "unread") for line in lines):
            return False
        if len({line.key for line in options}) != len(options):
            return False
    return text == "".join(f"{row}\n" for row in rows)


def _comes_out_again(comment: str) -> bool:
    """Bytes that are no UTF-8 are replaced when Proxmox reads them."""
    try:
        unquote_to_bytes(comment).decode()
    except UnicodeDecodeError:
        return False
    return _COMMENT.fullmatch(comment) is not None


def _gives_up_volumes(conf: Conf) -> bool:
    """Is there an ``unusedN`` of a volume that is in use after all? Proxmox leaves it out."""
    options = conf.options()
    used = {
        properties(line.value, MOUNT)[0].get("volume")
        for key, line in options.items()
        if key == "rootfs" or key.startswith("mp")
    }
    return any(line.value in used for key, line in options.items() if key.startswith("unused"))


def _plain(line: Line) -> str:
    """A value as it comes out again: numbers without zeros before them, too long ones rounded (Perl counts to 2**64),
    booleans as 0 and 1."""
    field = field_of(line.key)
    if field is not None and field.type == "integer" and line.problem is None:
        number = int(line.value)
        return str(number) if number < 2**64 else f"{float(number):.15g}"
    if field is not None and field.type == "boolean":
        return "1" if re.fullmatch("1|on|yes|true", line.value, re.I) else "0"
    return line.value
