"""Expressions of the sources evaluated without running them: constants, lists, names across modules.

Whatever cannot be known from the source is ``UNKNOWN`` and spreads; the row then simply lacks that knowledge,
and the maker counts it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from checks.flags.maker.sources import Found, Wheel, find


class Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"

    def __deepcopy__(self, memo: object) -> Unknown:
        return self


UNKNOWN = Unknown()

TYPES = {
    "int": "int",
    "float": "float",
    "str": "str",
    "loads": "json",
    "json_loads": "json",
    "human_readable_int": "count",
    "human_readable_int_or_auto": "count_or_auto",
    "union_dict_and_str": "str",
    "parse_reasoning_parser": "str",
    "json_list_type": "json",
    "parse_cuda_graph_config_arg": "json",
    "parse_cuda_graph_backend_arg": "str",
}
OPTIONAL_TYPES = {"nullable_str": "str"}
"""Type callables by the name they have in the sources, as the kinds that the judge knows."""


@dataclass(frozen=True)
class Type:
    """The ``type=`` of an argument: a kind, and whether ``None`` and an empty text are accepted."""

    kind: str
    none: bool = False


@dataclass
class Evaluator:
    """Evaluates expressions in a stack of scopes: (module, local names, class that owns the running method).

    ``emit`` receives every ``add_argument`` with its evaluated arguments, ``kwargs_of`` answers
    ``get_kwargs``, ``register`` an ``add_cli_args_from_dataclass``; ``types`` overrides TYPES.
    """

    wheel: Wheel
    emit: Callable[[tuple[Any, ...], dict[str, Any]], None]
    kwargs_of: Callable[[Found], dict[str, Any]]
    register: Callable[[Found], None] = lambda _: None
    types: dict[str, str] = field(default_factory=dict)
    scope: list[tuple[str, dict[str, Any], Found | None]] = field(default_factory=list)

    def value(self, node: ast.AST | None) -> Any:
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        return handler(node) if handler else UNKNOWN

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _list(self, node: ast.List) -> Any:
        return self._sequence(node.elts)

    def _tuple(self, node: ast.Tuple) -> Any:
        return self._sequence(node.elts)

    def _set(self, node: ast.Set) -> Any:
        return self._sequence(node.elts)

    def _sequence(self, elements: list[ast.expr]) -> Any:
        out: list[Any] = []
        for element in elements:
            inner = self.value(element.value if isinstance(element, ast.Starred) else element)
            if inner is UNKNOWN:
                return UNKNOWN
            out.extend(inner) if isinstance(element, ast.Starred) else out.append(inner)
        return out

    def _dict(self, node: ast.Dict) -> Any:
        out: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item)
            if key is None:
                if not isinstance(value, dict):
                    return UNKNOWN
                out.update(value)
            else:
                out[self.value(key)] = value
        return out

    def _joinedstr(self, node: ast.JoinedStr) -> Any:
        parts = []
        for part in node.values:
            inner = self.value(part.value) if isinstance(part, ast.FormattedValue) else self.value(part)
            parts.append("…" if inner is UNKNOWN else str(inner))
        return "".join(parts)

    def _ifexp(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        return UNKNOWN if test is UNKNOWN else self.value(node.body if test else node.orelse)

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Add) and type(left) is type(right) and isinstance(left, (list, str)):
            return left + right
        if isinstance(node.op, ast.Add) and isinstance(left, str) and right is UNKNOWN:
            return left + "…"
        return UNKNOWN

    def _compare(self, node: ast.Compare) -> Any:
        left, right = self.value(node.left), self.value(node.comparators[0])
        if UNKNOWN in (left, right) or len(node.ops) != 1:
            return UNKNOWN
        if isinstance(node.ops[0], (ast.In, ast.NotIn)) and isinstance(right, (dict, list, str)):
            return (left in right) is isinstance(node.ops[0], ast.In)
        return UNKNOWN

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        inner = self.value(node.operand)
        if inner is UNKNOWN:
            return UNKNOWN
        return (
            not inner
            if isinstance(node.op, ast.Not)
            else -inner
            if isinstance(node.op, ast.USub)
            else UNKNOWN
        )

    def _name(self, node: ast.Name) -> Any:
        module, local, _ = self.scope[-1]
        if node.id in local:
            return local[node.id]
        if node.id in TYPES:
            return Type(self.types.get(node.id, TYPES[node.id]))
        if node.id in OPTIONAL_TYPES:
            return Type(OPTIONAL_TYPES[node.id], none=True)
        return self.defined(find(self.wheel, module, node.id))

    def defined(self, found: Found | None, local: dict[str, Any] | None = None) -> Any:
        """A module-level definition: classes and functions as they are, an expression as its value."""
        if found is None:
            return UNKNOWN
        if isinstance(found.node, (ast.ClassDef, ast.FunctionDef)):
            return found
        self.scope.append((found.module, local or {}, None))
        try:
            return self.value(found.node) if len(self.scope) < 40 else UNKNOWN
        finally:
            self.scope.pop()

    def _attribute(self, node: ast.Attribute) -> Any:
        if node.attr == "BooleanOptionalAction":
            return "BooleanOptionalAction"
        if node.attr == "loads":
            return Type("json")
        owner = self.value(node.value)
        if isinstance(owner, Found) and isinstance(owner.node, ast.ClassDef):
            for item in owner.node.body:
                names = [t.id for t in getattr(item, "targets", []) if isinstance(t, ast.Name)]
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    names = [item.target.id]
                if node.attr in names and isinstance(item, (ast.Assign, ast.AnnAssign)) and item.value:
                    return self.defined(Found(owner.module, item.value), _constants(owner.node))
        return UNKNOWN

    def _subscript(self, node: ast.Subscript) -> Any:
        holder, key = self.value(node.value), self.value(node.slice)
        if isinstance(holder, dict) and key in holder:
            return holder[key]
        if isinstance(holder, list) and isinstance(key, int) and -len(holder) <= key < len(holder):
            return holder[key]
        return UNKNOWN

    def _lambda(self, node: ast.Lambda) -> Any:
        text = ast.unparse(node.body)
        return Type("lower_") if re.fullmatch(r"\w+\.lower\(\)\.replace\('-', '_'\)", text) else Type("any")


def _constants(cls: ast.ClassDef) -> dict[str, Any]:
    """Plain values assigned in a class body: later attributes of the class refer to them by bare name."""
    return {
        target.id: item.value.value
        for item in cls.body
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
        for target in item.targets
        if isinstance(target, ast.Name)
    }
