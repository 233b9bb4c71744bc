"""SGLang: ``ServerArgs.add_cli_args``, and since 0.5.14 the annotated fields it registers by itself."""

from __future__ import annotations

import ast
from typing import Any

from checks.flags.maker.evaluate import UNKNOWN, Type
from checks.flags.maker.hints import Field, atoms, fields
from checks.flags.maker.interpret import Interpreter
from checks.flags.maker.rows import row_of
from checks.flags.maker.sources import Found, Wheel, find

SERVER_ARGS = "sglang.srt.server_args"
FIELDS = "sglang.srt.arg_groups.fields"


def annotation(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The type and the metadata of ``A[T, "help"]`` or ``A[T, Arg(...)]``; None for a field without."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return None
    if getattr(node.value, "id", "") not in ("A", "Annotated"):
        return None
    kind, *rest = node.slice.elts
    for item in rest:
        if isinstance(item, ast.Call) and getattr(item.func, "id", "") == "Arg":
            return kind, item
        if isinstance(item, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            return kind, item
    return None


def row_of_field(wheel: Wheel, item: Field, evaluate: Interpreter) -> dict[str, Any] | None:
    """The option of one annotated field, by the rules of ``add_cli_args_from_dataclass``."""
    found = annotation(item.annotation)
    if found is None:
        return None
    kind_node, meta_node = found
    evaluate.scope.append((item.module, {}, None))
    try:
        meta: dict[str, Any] = {}
        if isinstance(meta_node, ast.Call):
            meta = {k.arg: evaluate.value(k.value) for k in meta_node.keywords if k.arg}
        else:
            meta = {"help": evaluate.value(meta_node)}
    finally:
        evaluate.scope.pop()
    if meta.get("no_cli"):
        return None
    names = [meta.get("cli_name") or "--" + item.name.replace("_", "-"), *(meta.get("aliases") or [])]
    kwargs: dict[str, Any] = {"help": meta.get("help", "")}
    if meta.get("action") is not None:
        extra = meta.get("action_kwargs")
        kwargs |= {"action": meta["action"], **(extra if isinstance(extra, dict) else {})}
        return row_of(tuple(names), kwargs, paired=False)
    kinds = [atom for atom in atoms(wheel, item.module, kind_node) if atom.kind != "none"]
    kind = kinds[0] if len(kinds) == 1 else None
    given = meta.get("type_parser")
    parser = given if isinstance(given, Type) else Type("any") if given is not None else None
    choices = meta.get("choices")
    if kind and kind.kind == "literal":
        kwargs |= {
            "type": parser or _scalar(type(kind.values[0]).__name__),
            "choices": choices or list(kind.values),
        }
    elif kind and kind.kind == "list" and parser is None:
        inner = kind.inner[0][0].kind if kind.inner and len(kind.inner[0]) == 1 else "str"
        kwargs |= {"type": _scalar(inner), "nargs": meta.get("nargs") or "+", "choices": choices}
    elif kind and kind.kind == "bool":
        kwargs |= {"action": "store_true"}
    else:
        kwargs |= {"type": parser or _scalar(kind.kind if kind else "str"), "choices": choices}
        if meta.get("nargs"):
            kwargs["nargs"] = meta["nargs"]
        if meta.get("required") is True or (meta.get("required") is None and item.default is None):
            kwargs["required"] = True
    return row_of(tuple(names), kwargs, paired=False)


def _scalar(kind: str) -> Type:
    return Type(kind if kind in ("int", "float") else "str")


def algorithms(wheel: Wheel) -> list[str]:
    """The built-in names of ``SpeculativeAlgorithm.from_string``; plug-ins may register others."""
    found = find(wheel, "sglang.srt.speculative.spec_info", "SpeculativeAlgorithm")
    body = found.node.body if found and isinstance(found.node, ast.ClassDef) else []
    names = [t.id for n in body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
    return sorted([*(name for name in names if name != "NONE"), "NEXTN"])


def table(wheel: Wheel) -> dict[str, Any]:
    """Rows and habits of the parser behind ``sglang serve`` and ``python -m sglang.launch_server``."""
    rows: list[dict[str, Any]] = []

    def emit(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if args and str(args[0]).startswith("-"):
            rows.append(row_of(args, kwargs, paired=False))

    interpreter = Interpreter(wheel, emit, lambda _: {}, types={"human_readable_int": "count_iec"})
    server_args = find(wheel, SERVER_ARGS, "ServerArgs")
    assert server_args is not None

    def register(_: Found) -> None:
        sources = [server_args]
        for module in wheel.modules(FIELDS):
            tree = wheel.tree(module)
            sources += [Found(module, n) for n in (tree.body if tree else []) if isinstance(n, ast.ClassDef)]
        for source in sources:
            for item in fields(wheel, source).values():
                row = row_of_field(wheel, item, interpreter)
                if row:
                    rows.append(row)

    interpreter.register = register
    method = next(
        Found(server_args.module, node)
        for node in server_args.node.body  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef) and node.name == "add_cli_args"
    )
    interpreter.call(method, server_args, {"parser": UNKNOWN})
    rows.append({"names": ["-h", "--help"], "nargs": 0})
    for row in rows:
        if "--speculative-algorithm" in row["names"] and "choices" not in row:
            row["known"] = algorithms(wheel)
    serve = wheel.text("sglang/cli/serve.py") if wheel.module_file("sglang.cli.serve") else ""
    if "_extract_model_type_override" in serve:
        rows.append({"names": ["--model-type"], "type": "str"})
    return {"flags": rows, "objects": {}, "positional": "_normalize_positional_model_path" in serve}
