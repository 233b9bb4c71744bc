"""Values against what an option takes: texts, numbers, choices, JSON objects. The rules are the engines' own.

Kinds: ``int float str any json``; ``count`` (vLLM's ``human_readable_int``: 1k 2m decimal, 1K 2M binary),
``count_or_auto`` (also ``auto`` and -1), ``count_iec`` (SGLang: 1k decimal, 1Ki binary), ``lower_`` (a choice
in any case, dashes for underscores), ``json_counts`` (vLLM's config records: bare 80m and 1K are numbers).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from checks.flags.table import Option

MAX_DEPTH = 40
MAX_TEXT = 1 << 18


class BadValue(ValueError):
    """Why a text is not a value of its option, to be read after the option's name."""


def convert(option: Option, text: str) -> Any:
    """The value that the engine would see. Raises BadValue."""
    if option.none and text in ("", "None"):
        return None
    value = _KINDS.get(option.type, str)(text)
    if option.choices is not None and value not in option.choices:
        raise BadValue(f"{text!r} is none of {_choices(option.choices, text)}")
    return value


_SAID = {
    "int": "a whole number, like 2",
    "float": "a number, like 0.9",
    "count": "a whole number, like 4096 or 4k",
}
"""By the beginning of an option's type."""


def fitting(option: Option, spelled: str, check: str) -> str:
    """What to give instead of a value that the option does not take; ``check``: ``choice``, ``json`` or ``value``."""
    if check == "choice":
        return f"give {spelled} one of those"
    if check == "json":
        return f"give {spelled} one JSON value as one word, in single quotes for the shell"
    what = next(
        (said for kind, said in _SAID.items() if option.type.startswith(kind)), "a value that it takes"
    )
    return f"give {spelled} {what}"


def _choices(choices: tuple[Any, ...], text: str) -> str:
    close = near(text, [str(c) for c in choices])
    shown = ", ".join(str(c) for c in choices[:12]) + (
        f" … ({len(choices)} in all)" if len(choices) > 12 else ""
    )
    return shown + (f"; did you mean {close}?" if close else "")


def near(word: str, known: list[str]) -> str | None:
    """The closest known spelling, if any is close. Words are cut: difflib is quadratic in their length."""
    from difflib import get_close_matches

    found = get_close_matches(word[:120], known, n=1, cutoff=0.75)
    return found[0] if found else None


def _int(text: str) -> int:
    try:
        return int(text[:200])
    except ValueError:
        raise BadValue(f"{text[:60]!r} is no whole number") from None


def _float(text: str) -> float:
    try:
        return float(text[:200])
    except ValueError:
        raise BadValue(f"{text[:60]!r} is no number") from None


def _count(text: str) -> int:
    match = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?)([kKmMgGtT])", text.strip())
    if not match:
        return _int(text)
    number, suffix = match.groups()
    power = "kmgt".index(suffix.lower()) + 1
    if suffix.islower():
        return int(Decimal(number) * Decimal(1000) ** power)
    if "." in number:
        raise BadValue(
            f"{text!r} has decimals before a binary suffix; {number}{suffix.lower()} would be decimal"
        )
    return int(number) << (10 * power)


def _count_or_auto(text: str) -> int:
    return -1 if text.strip().lower() in ("auto", "-1") else _count(text)


def _count_iec(text: str) -> int:
    match = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?)(Ki|Mi|Gi|Ti|k|M|G|T)", text.strip())
    if not match:
        return _int(text)
    number, suffix = match.groups()
    power = "kMGT".index(suffix[0].replace("K", "k")) + 1
    if suffix.endswith("i") and "." in number:
        raise BadValue(f"{text!r} has decimals before a binary suffix")
    base = 1024 if suffix.endswith("i") else 1000
    return int(Decimal(number) * Decimal(base) ** power)


def parse_json(text: str) -> Any:
    """JSON with bounds on size and depth; a number of thousands of digits is refused by Python itself."""
    if len(text) > MAX_TEXT:
        raise BadValue(f"is {len(text)} characters of JSON, more than any engine option needs")
    if text.count("{") + text.count("[") > 4000:
        raise BadValue("consists of brackets rather than of content")
    try:
        value = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise BadValue("nests too deeply to be read") from None
    except ValueError as error:
        where = (
            f"character {error.pos + 1}: {error.msg}"
            if isinstance(error, json.JSONDecodeError)
            else str(error)[:80]
        )
        hint = ""
        if "'" in text and '"' not in text:
            hint = "; JSON wants double quotes"
        elif '"' not in text and "{" in text:
            hint = "; the shell took its quotes: put the whole value in single ones"
        raise BadValue(f"is not JSON ({where}){hint}: {text[:80]}") from None
    if _depth(value) > MAX_DEPTH:
        raise BadValue("nests too deeply to be read")
    return value


def dotted_value(text: str) -> Any:
    """The value of a dotted key: JSON, else a number with a suffix, else the text (vLLM's parse_args)."""
    for attempt in (parse_json, _count):
        try:
            return attempt(text)
        except BadValue:
            continue
    return text


def _json_counts(text: str) -> Any:
    """Bare numbers with a suffix are expanded first (vLLM's ``_expand_json_human_readable_numbers``)."""
    if len(text) > MAX_TEXT:
        return parse_json(text)
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    number = re.compile(r"\b\d{1,20}(?:\.\d{1,20})?[kKmMgGtT]\b")
    parts[::2] = [number.sub(lambda match: str(_count(match.group())), part) for part in parts[::2]]
    return parse_json("".join(parts))


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        level = [
            c
            for v in level
            for c in (v.values() if isinstance(v, dict) else v if isinstance(v, list) else ())
        ]
        depth += 1
    return depth


def _lower(text: str) -> str:
    return text.lower().replace("-", "_")


_KINDS: Mapping[str, Callable[[str], Any]] = {
    "int": _int,
    "float": _float,
    "count": _count,
    "count_or_auto": _count_or_auto,
    "count_iec": _count_iec,
    "json": parse_json,
    "json_counts": _json_counts,
    "lower_": _lower,
}


def object_problems(
    record: str, value: Any, objects: Mapping[str, Mapping[str, Any]], path: str = ""
) -> list[tuple[str, str]]:
    """Problems of a JSON value against a record as ``(kind, text)``; kind is ``key`` or ``value``."""
    if not isinstance(value, dict):
        return [("value", f"{path or record} must be a JSON object and is {_named(value)}")]
    if record not in objects:
        return []
    keys = objects[record]
    out: list[tuple[str, str]] = []
    for key, inner in value.items():
        where = f"{path}.{key}" if path else key
        entry = keys.get(key)
        if entry is None or entry.get("internal"):
            out.append(("key", where))
            continue
        if entry.get("object") and isinstance(inner, dict):
            out += object_problems(entry["object"], inner, objects, where)
        elif not fits(inner, entry["kinds"]):
            wanted = " or ".join(k for k in entry["kinds"] if k != "none")
            out.append(("value", f"{where} wants {wanted} and is {_named(inner)}"))
        elif entry.get("choices") and isinstance(inner, str) and inner not in entry["choices"]:
            out.append(("value", f"{where}: {_choices_text(inner, entry['choices'])}"))
        else:
            out += [("value", f"{where} is {inner} and must be {text}") for text in bounds(inner, entry)]
    return out


def _choices_text(inner: str, choices: list[Any]) -> str:
    return f"{inner!r} is none of {_choices(tuple(choices), inner)}"


def bounds(value: Any, entry: Mapping[str, Any]) -> list[str]:
    """The limits of a field that a number is outside of: ``at least -1``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return []
    tests = {"gt": value.__gt__, "ge": value.__ge__, "lt": value.__lt__, "le": value.__le__}
    signs = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
    return [f"{signs[k]} {entry[k]}" for k, test in tests.items() if k in entry and test(entry[k]) is False]


def fits(value: Any, kinds: list[str]) -> bool:
    """Whether pydantic in its lax mode, as vLLM uses it, takes a JSON value for one of the kinds."""
    return any(_fits(value, kind) for kind in kinds)


def _fits(value: Any, kind: str) -> bool:
    if kind in ("other", "any"):
        return True
    if kind == "none":
        return value is None
    if kind == "bool":
        words = ("true", "false", "1", "0", "yes", "no", "on", "off", "t", "f", "y", "n")
        return value in (0, 1) or (isinstance(value, str) and value.lower() in words)
    if kind in ("int", "float"):
        return (isinstance(value, (int, float)) and (kind == "float" or value == int(value))) or _numeric(
            value, kind
        )
    if kind == "str":
        return isinstance(value, str)
    return isinstance(value, list if kind == "list" else dict)


def _numeric(value: Any, kind: str) -> bool:
    pattern = r"[+-]?\d{1,30}" + ("" if kind == "int" else r"(\.\d*)?([eE][+-]?\d{1,4})?")
    return isinstance(value, str) and re.fullmatch(pattern, value.strip()) is not None


def _named(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    text = json.dumps(value)
    return f"{text[:40]}{'…' if len(text) > 40 else ''} ({names.get(type(value), 'a number')})"
