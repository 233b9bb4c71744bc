"""A small interpreter for the functions that register arguments: constants and dictionaries, nothing executed.

Whatever cannot be known from the source is ``UNKNOWN`` and spreads; the row then simply lacks that knowledge,
and the maker counts it.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .hints import atoms, fields, literals
from .sources import Found, Wheel, find


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
class Interpreter:
    """Walks a function body; ``emit`` receives every ``add_argument`` with its evaluated arguments."""

    wheel: Wheel
    emit: Callable[[tuple[Any, ...], dict[str, Any]], None]
    kwargs_of: Callable[[Found], dict[str, Any]]
    register: Callable[[Found], None] = lambda _: None
    types: dict[str, str] = field(default_factory=dict)
    scope: list[tuple[str, dict[str, Any], Found | None]] = field(default_factory=list)

    def call(self, found: Found, owner: Found | None, arguments: dict[str, Any]) -> Any:
        """Run a function of the wheel; returns its last evaluated return value."""
        assert isinstance(found.node, ast.FunctionDef)
        if len(self.scope) > 8:
            return UNKNOWN
        self.scope.append((found.module, arguments, owner))
        try:
            return self.block(found.node.body)
        finally:
            self.scope.pop()

    # statements

    def block(self, body: list[ast.stmt]) -> Any:
        result: Any = UNKNOWN
        for node in body:
            if isinstance(node, ast.Return):
                got = self.value(node.value) if node.value else None
                return got if got is not UNKNOWN else result
            got = self.statement(node)
            result = got if got is not UNKNOWN else result
        return result

    def statement(self, node: ast.stmt) -> Any:
        _, local, _ = self.scope[-1]
        if isinstance(node, ast.Expr):
            self.value(node.value)
        elif isinstance(node, ast.Assign):
            value = self.value(node.value)
            for target in node.targets:
                self.assign(target, value)
        elif isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
            local[node.target.id] = self.value(node.value)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    holder, key = self.value(target.value), self.value(target.slice)
                    if isinstance(holder, dict):
                        holder.pop(key, None)
        elif isinstance(node, ast.If):
            test = self.value(node.test)
            branches = [node.body, node.orelse] if test is UNKNOWN else [node.body if test else node.orelse]
            results = [self.block(branch) for branch in branches]
            return next((result for result in results if result is not UNKNOWN), UNKNOWN)
        elif isinstance(node, ast.For):
            items = self.value(node.iter)
            for item in list(items) if isinstance(items, (list, tuple)) else []:
                self.assign(node.target, item)
                self.block(node.body)
        elif isinstance(node, (ast.With, ast.Try)):
            self.block(node.body)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                local[alias.asname or alias.name] = self.defined(
                    find(self.wheel, node.module or "", alias.name)
                )
        return UNKNOWN

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.scope[-1][1][target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, (list, tuple)):
            for part, item in zip(target.elts, value, strict=False):
                self.assign(part, item)
        elif isinstance(target, ast.Subscript):
            holder, key = self.value(target.value), self.value(target.slice)
            if isinstance(holder, dict):
                holder[key] = value

    # expressions

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
        """A module-level definition: classes and functions as they are, expressions evaluated in their module."""
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

    def _call(self, node: ast.Call) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name == "add_argument":
            args = self._sequence(node.args)
            kwargs: dict[str, Any] = {}
            for keyword in node.keywords:
                value = self.value(keyword.value)
                if keyword.arg is None:
                    kwargs.update(value if isinstance(value, dict) else {"unknown": True})
                else:
                    kwargs[keyword.arg] = value
            if args is not UNKNOWN:
                self.emit(tuple(args), kwargs)
            return UNKNOWN
        return self._known_call(name, node)

    def _known_call(self, name: str, node: ast.Call) -> Any:
        args = [self.value(a) for a in node.args]
        first = args[0] if args else UNKNOWN
        if name == "get_kwargs" and isinstance(first, Found):
            return copy.deepcopy(self.kwargs_of(first))
        if name == "add_cli_args_from_dataclass":
            self.register(args[1] if isinstance(args[1], Found) else Found("", ast.Pass()))
            return UNKNOWN
        if name in ("optional_type", "parse_type") and isinstance(first, Type):
            return Type(first.kind, none=first.none or name == "optional_type")
        if name == "get_args" and node.args:
            return self._literal_values(node.args[0])
        if name in ("list", "sorted", "set", "tuple", "frozenset"):
            if isinstance(first, (list, tuple, dict)):
                return list(first) if name != "sorted" else sorted(first)
            return [] if not node.args else UNKNOWN
        if isinstance(node.func, ast.Attribute):
            return self._method(name, node.func.value, args)
        helper = self.value(node.func) if isinstance(node.func, ast.Name) and not node.args else UNKNOWN
        if isinstance(helper, Found) and isinstance(helper.node, ast.FunctionDef):
            return self.call(helper, None, {})
        return UNKNOWN

    def _literal_values(self, node: ast.expr) -> Any:
        module, local, _ = self.scope[-1]
        if isinstance(node, ast.Name) and isinstance(local.get(node.id), Found):
            found = local[node.id]
            found_atoms = atoms(self.wheel, found.module, found.node)
        else:
            found_atoms = atoms(self.wheel, module, node)
        values = [value for atom in found_atoms if atom.kind == "literal" for value in atom.values]
        return values or UNKNOWN

    def _method(self, name: str, holder_node: ast.expr, args: list[Any]) -> Any:
        if name in ("add_cli_args", "_customize_cli_kwargs"):
            return self._class_method(name, holder_node, args)
        holder = self.value(holder_node)
        if isinstance(holder, dict):
            if name in ("keys", "values", "items"):
                pairs = {"keys": list(holder), "values": list(holder.values())}
                return pairs.get(name, [list(pair) for pair in holder.items()])
            if name == "pop":
                return holder.pop(args[0], args[1] if len(args) > 1 else UNKNOWN)
            if name == "get":
                return holder.get(args[0], args[1] if len(args) > 1 else None)
            if name == "update" and isinstance(args[0], dict):
                holder.update(args[0])
            if name == "copy":
                return dict(holder)
        if isinstance(holder, list) and name in ("append", "extend"):
            holder.append(args[0]) if name == "append" else holder.extend(
                args[0] if args[0] is not UNKNOWN else []
            )
        if isinstance(holder, str) and name in ("replace", "lower", "upper", "strip", "lstrip"):
            return getattr(holder, name)(*args) if UNKNOWN not in args else UNKNOWN
        return UNKNOWN

    def _class_method(self, name: str, holder_node: ast.expr, args: list[Any]) -> Any:
        _, _, owner = self.scope[-1]
        is_super = isinstance(holder_node, ast.Call)
        target = owner if is_super else self.value(holder_node)
        target = owner if isinstance(holder_node, ast.Name) and holder_node.id == "cls" else target
        if not isinstance(target, Found):
            return UNKNOWN
        method = method_of(self.wheel, target, name, skip_own=is_super)
        if method is None:
            return UNKNOWN
        assert isinstance(method.node, ast.FunctionDef)
        parameters = [a.arg for a in method.node.args.args]
        bound = dict(zip([p for p in parameters if p != "cls"], args, strict=False)) | {"cls": target}
        bound.setdefault("async_args_only", False)
        defining = method_owner(self.wheel, target, name, skip_own=is_super)
        return self.call(method, defining if is_super else target, bound)


def _constants(cls: ast.ClassDef) -> dict[str, Any]:
    """Plain values assigned in a class body: later attributes of the class refer to them by bare name."""
    return {
        target.id: item.value.value
        for item in cls.body
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
        for target in item.targets
        if isinstance(target, ast.Name)
    }


def method_owner(wheel: Wheel, cls: Found, name: str, *, skip_own: bool = False) -> Found | None:
    """The class in the inheritance chain that defines a method."""
    assert isinstance(cls.node, ast.ClassDef)
    if not skip_own and any(isinstance(i, ast.FunctionDef) and i.name == name for i in cls.node.body):
        return cls
    for base in cls.node.bases:
        above = find(wheel, cls.module, base.id) if isinstance(base, ast.Name) else None
        if above and isinstance(above.node, ast.ClassDef):
            owner = method_owner(wheel, above, name)
            if owner:
                return owner
    return None


def method_of(wheel: Wheel, cls: Found, name: str, *, skip_own: bool = False) -> Found | None:
    """A method looked up along the inheritance chain."""
    owner = method_owner(wheel, cls, name, skip_own=skip_own)
    if owner is None:
        return None
    assert isinstance(owner.node, ast.ClassDef)
    return next(
        Found(owner.module, item)
        for item in owner.node.body
        if isinstance(item, ast.FunctionDef) and item.name == name
    )


__all__ = ["UNKNOWN", "Interpreter", "Type", "fields", "literals", "method_of"]
