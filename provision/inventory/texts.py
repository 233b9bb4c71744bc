"""Validation errors in operators' words. pydantic knows the rule; what to write instead is told here."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from provision.forms import Where


def told(root: type[BaseModel], error: ErrorDetails) -> tuple[Where, str]:
    """The field and the text for one line of a ValidationError of ``root``."""
    where, owner = _place(root, error["loc"])
    kind, context, given = error["type"], error.get("ctx", {}), error.get("input")
    if kind == "extra_forbidden":
        return where, _no_such_field(str(where[-1]), owner)
    if kind == "missing":
        return where, "is missing"
    if kind == "literal_error":
        return where, _none_of(given, str(context["expected"]))
    if kind == "string_type" and "environment" in where:
        return where, "must be text in quotes (its value is not shown, it may be a secret)"
    if kind == "string_type":
        return where, _text(given)
    if kind in ("int_type", "int_parsing", "int_from_float"):
        return where, f"must be a whole number without quotes, not {given!r}"
    if kind == "greater_than_equal":
        return where, f"{given!r} is too small: at least {context['ge']}"
    if kind == "greater_than":
        return where, f"{given!r} is too small: it must be more than {context['gt']:g}"
    if kind == "less_than_equal":
        return where, f"{given!r} is too large: at most {context['le']}"
    if kind == "less_than":
        return where, f"{given!r} is too large: it must be less than {context['lt']:g}"
    if kind == "bool_type":
        return where, f"must be True or False, not {given!r}"
    if kind in ("tuple_type", "list_type"):
        return where, f"must be a list in square brackets, not {_short(given)}"
    if kind in ("model_type", "model_attributes_type"):
        return where, f"must be a {context.get('class_name', 'spec')}(…), not {_short(given)}"
    if kind == "too_short":
        return where, "is empty: at least one is needed"
    if kind == "string_pattern_mismatch":
        return where, f"{given!r} is no host name: user and port have fields of their own"
    if kind == "string_too_short":
        return where, "is empty"
    return where, str(error["msg"]).removeprefix("Value error, ")


def _no_such_field(name: str, owner: type[BaseModel] | None) -> str:
    if owner is None:
        return "there is no such field"
    fields = list(owner.model_fields)
    near = get_close_matches(name, fields, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(fields)}"
    return f"{owner.__name__} has no field {name!r}: {hint}"


def _none_of(given: Any, expected: str) -> str:
    choices = [word.strip().strip("'") for word in expected.replace(" or ", ", ").split(",")]
    near = get_close_matches(str(given), choices, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{given!r} is unknown: {hint}there are {', '.join(map(repr, choices))}"


def _text(given: Any) -> str:
    if isinstance(given, float):
        return f"must be text in quotes: without them Python reads 3.10 as 3.1 (here {given!r})"
    if isinstance(given, int):
        return f"must be text in quotes, not {given!r}"
    return f"must be text, not {_short(given)}"


def _short(given: Any) -> str:
    """What was given, without its content where that may be long or secret."""
    if isinstance(given, str | int | float | bool) or given is None:
        return repr(given)
    return f"a {type(given).__name__}"


def _place(root: type[BaseModel], loc: Where) -> tuple[Where, type[BaseModel] | None]:
    """The field without the names of classes that pydantic puts in where one of several may be given, and the spec
    class that has (or lacks) it."""
    where: list[str | int] = []
    owners: list[type[BaseModel]] = []
    choices = [root]
    for part in loc:
        tagged = [choice for choice in choices if choice.__name__ == part]
        if tagged and len(choices) > 1:
            choices = tagged
            continue
        where.append(part)
        owners = choices
        if isinstance(part, str):
            fields = (choice.model_fields.get(part) for choice in choices)
            choices = [owner for field in fields if field for owner in _classes(field.annotation)]
    return tuple(where), owners[0] if owners else None


def _classes(annotation: Any) -> list[type[BaseModel]]:
    """The spec classes that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [owner for argument in get_args(annotation) for owner in _classes(argument)]
