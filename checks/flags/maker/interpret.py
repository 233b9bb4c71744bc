"""A small interpreter for the functions of a wheel that register arguments; nothing is executed."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from typing import Any

from checks.flags.maker.evaluate import UNKNOWN, Evaluator, Type
from checks.flags.maker.hints import atoms
from checks.flags.maker.sources import Found, Wheel, find


@dataclass
class Interpreter(Evaluator):
    """Walks function bodies. A branch whose condition is unknown is taken both ways."""

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
        elif isinstance(node, ast.AugAssign):
            added = ast.BinOp(node.target, node.op, node.value)
            self.assign(node.target, self.value(added))
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
        if isinstance(holder, list) and name == "remove" and args[0] in holder:
            holder.remove(args[0])
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
