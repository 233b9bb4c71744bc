"""Type annotations as sets of atoms, the way the engines' own argument builders read them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from checks.flags.maker.sources import Found, Wheel, find

BUILTINS = {"int", "float", "str", "bool", "bytes", "dict", "list", "set", "tuple", "frozenset"}
CONTAINERS = {
    "List": "list",
    "Set": "set",
    "Tuple": "tuple",
    "Dict": "dict",
    "Mapping": "dict",
    "Sequence": "list",
}


@dataclass(frozen=True)
class Atom:
    """One alternative of a union: ``kind`` is a builtin, ``none``, ``literal``, ``record`` or ``other``."""

    kind: str
    values: tuple[object, ...] = ()
    inner: tuple[tuple[Atom, ...], ...] = ()
    variadic: bool = False
    record: Found | None = None


def is_record(wheel: Wheel, found: Found) -> bool:
    """A dataclass by decorator (``dataclass``, pydantic's, or the engine's own ``config``)."""
    node = found.node
    if not isinstance(node, ast.ClassDef):
        return False
    return any(
        word in ast.dump(decorator)
        for decorator in node.decorator_list
        for word in ("'dataclass'", "'config'")
    )


def atoms(wheel: Wheel, module: str, node: ast.AST, depth: int = 0) -> tuple[Atom, ...]:
    """The alternatives of an annotation, unions and ``Annotated`` flattened, aliases followed."""
    if depth > 20:
        return (Atom("other"),)
    if isinstance(node, ast.Constant):
        if node.value is None:
            return (Atom("none"),)
        if isinstance(node.value, str):
            return atoms(wheel, module, ast.parse(node.value, mode="eval").body, depth + 1)
        return (Atom("other"),)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _unique(
            atoms(wheel, module, node.left, depth + 1) + atoms(wheel, module, node.right, depth + 1)
        )
    if isinstance(node, ast.Subscript):
        return _subscript(wheel, module, node, depth)
    if isinstance(node, ast.Name):
        if node.id in BUILTINS:
            return (Atom(node.id, variadic=True),)
        if node.id in CONTAINERS:
            return (Atom(CONTAINERS[node.id], variadic=True),)
        found = find(wheel, module, node.id)
        if found is None:
            return (Atom("other"),)
        if isinstance(found.node, ast.ClassDef):
            plain = [base.value if isinstance(base, ast.Subscript) else base for base in found.node.bases]
            bases = [base.id for base in plain if isinstance(base, ast.Name)]
            if is_record(wheel, found):
                return (Atom("record", (found.node.name,), record=found),)
            return (Atom("dict") if "dict" in bases else Atom("other"),)
        if isinstance(found.node, (ast.Name, ast.Subscript, ast.BinOp, ast.Constant)):
            return atoms(wheel, found.module, found.node, depth + 1)
    return (Atom("other"),)


def _subscript(wheel: Wheel, module: str, node: ast.Subscript, depth: int) -> tuple[Atom, ...]:
    head = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if head == "Literal":
        return (Atom("literal", tuple(literals(wheel, module, parts))),)
    if head == "Optional":
        return _unique((*atoms(wheel, module, parts[0], depth + 1), Atom("none")))
    if head == "Union":
        return _unique(tuple(a for part in parts for a in atoms(wheel, module, part, depth + 1)))
    if head in ("Annotated", "A", "SkipValidation", "Final"):
        return atoms(wheel, module, parts[0], depth + 1)
    kind = CONTAINERS.get(head, head)
    if kind in BUILTINS:
        ellipsis = [p for p in parts if isinstance(p, ast.Constant) and p.value is ...]
        inner = tuple(atoms(wheel, module, p, depth + 1) for p in parts if p not in ellipsis)
        return (Atom(kind, inner=inner, variadic=kind != "tuple" or bool(ellipsis)),)
    return (Atom("other"),)


def literals(wheel: Wheel, module: str, parts: list[ast.expr]) -> list[object]:
    """The values of a ``Literal``, nested aliases flattened."""
    out: list[object] = []
    for part in parts:
        if isinstance(part, ast.Constant):
            out.append(part.value)
        elif isinstance(part, ast.UnaryOp) and isinstance(part.operand, ast.Constant):
            out.append(ast.literal_eval(part))
        elif isinstance(part, (ast.Name, ast.Subscript)):
            for atom in atoms(wheel, module, part):
                out.extend(atom.values if atom.kind == "literal" else ())
    return list(dict.fromkeys(out))


def _unique(values: tuple[Atom, ...]) -> tuple[Atom, ...]:
    return tuple(dict.fromkeys(values))


@dataclass(frozen=True)
class Field:
    """One annotated field of a record: its annotation, default expression and documentation."""

    name: str
    module: str
    annotation: ast.expr
    default: ast.expr | None
    doc: str


def fields(wheel: Wheel, found: Found) -> dict[str, Field]:
    """The fields of a record in definition order, bases first, class variables left out."""
    node, out = found.node, {}
    assert isinstance(node, ast.ClassDef)
    for base in node.bases:
        above = find(wheel, found.module, base.id) if isinstance(base, ast.Name) else None
        if above and isinstance(above.node, ast.ClassDef):
            out.update(fields(wheel, above))
    for item, after in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
        if not (isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)):
            continue
        if "ClassVar" in ast.dump(item.annotation):
            continue
        text = (
            after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        )
        doc = text if isinstance(text, str) else ""
        out[item.target.id] = Field(item.target.id, found.module, item.annotation, item.value, doc)
    return out
