"""vLLM: the parser of ``vllm serve`` as its ``make_arg_parser`` builds it from config dataclasses."""

from __future__ import annotations

import ast
from typing import Any

from checks.flags.maker.evaluate import Type
from checks.flags.maker.hints import Atom, Field, atoms, fields
from checks.flags.maker.interpret import Interpreter
from checks.flags.maker.objects import object_fields
from checks.flags.maker.rows import row_of
from checks.flags.maker.sources import Found, Wheel, find

REGISTRIES = {
    "--tool-call-parser": ("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
    "--reasoning-parser": ("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),
}
"""Options whose value is looked up in a registry after parsing (``validate_api_server_args``)."""


def registered(wheel: Wheel, module: str, name: str) -> list[str]:
    """The names a registry is filled with at import; plug-ins may add others."""
    found = find(wheel, module, name)
    keys = found.node.keys if found and isinstance(found.node, ast.Dict) else []
    return sorted(key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


def human_readable(wheel: Wheel) -> set[str]:
    """The integer options that take suffixes: the names listed in vLLM's ``_compute_kwargs``."""
    tree = wheel.tree("vllm.engine.arg_utils")
    listed: set[object] = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, (ast.Tuple, ast.Set)):
            names = {item.value for item in node.elts if isinstance(item, ast.Constant)}
            listed |= names if "max_num_batched_tokens" in names else set()
    return {name for name in listed if isinstance(name, str)}


def kwargs_of_field(
    wheel: Wheel, item: Field, suffixed: set[str], objects: dict[str, Found]
) -> dict[str, Any]:
    """The ``add_argument`` keywords of one config field, by the rules of vLLM's ``_compute_kwargs``."""
    kinds = atoms(wheel, item.module, item.annotation)
    by_kind = {atom.kind: atom for atom in kinds}
    out: dict[str, Any] = {"help": item.doc}
    none = "none" in by_kind
    if "record" in by_kind:
        found = by_kind["record"].record
        assert found is not None
        objects[by_kind["record"].values[0]] = found  # type: ignore[index]
        out |= {"type": Type("json_counts"), "object": by_kind["record"].values[0]}
    elif set(by_kind) == {"bool", "str", "none"}:
        return out | {"type": Type("str"), "nargs": "?"}
    elif "bool" in by_kind:
        return out | {"action": "BooleanOptionalAction"}
    elif "literal" in by_kind:
        out |= _literal(by_kind["literal"], open_ended="str" in by_kind)
    elif container := next((by_kind[k] for k in ("tuple", "list", "set") if k in by_kind), None):
        out |= _container(container)
    elif "int" in by_kind:
        kind = "count_or_auto" if item.name == "max_model_len" and suffixed else "int"
        kind = "count" if item.name in suffixed and item.name != "max_model_len" else kind
        out |= {"type": Type(kind)}
    elif "float" in by_kind:
        out |= {"type": Type("float")}
    elif "dict" in by_kind:
        out |= {"type": Type("str" if {"str", "other"} & set(by_kind) else "json")}
    else:
        out |= {"type": Type("str")}
    if none:
        out["type"] = Type(out["type"].kind, none=True)
    return out


def _literal(atom: Atom, *, open_ended: bool) -> dict[str, Any]:
    kind = type(atom.values[0]).__name__
    return {"type": Type(kind), **({} if open_ended else {"choices": sorted(atom.values, key=str)})}


def _container(atom: Atom) -> dict[str, Any]:
    first = atom.inner[0] if atom.inner else (Atom("str"),)
    nargs: Any = "+" if atom.variadic else len(atom.inner)
    if len(first) > 1:
        return {"type": Type("str"), "nargs": nargs}
    if first[0].kind == "literal":
        return {**_literal(first[0], open_ended=False), "nargs": nargs}
    kind = first[0].kind if first[0].kind in ("int", "float", "str") else "str"
    return {"type": Type(kind), "nargs": nargs}


def table(wheel: Wheel) -> dict[str, Any]:
    """Rows, JSON objects and habits of the parser of this wheel's ``vllm serve``."""
    rows: list[dict[str, Any]] = []
    objects: dict[str, Found] = {}
    suffixed = human_readable(wheel)
    utils = wheel.tree("vllm.utils.argparse_utils") or wheel.tree("vllm.utils")
    paired = utils is not None and any(
        isinstance(n, ast.ClassDef) and n.name == "EnableDisableAction" for n in utils.body
    )

    def kwargs_of(found: Found) -> dict[str, Any]:
        return {n: kwargs_of_field(wheel, f, suffixed, objects) for n, f in fields(wheel, found).items()}

    def emit(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if args and str(args[0]).startswith("-"):
            rows.append(row_of(args, kwargs, paired=paired))

    maker = find(wheel, "vllm.entrypoints.cli.serve", "make_arg_parser")
    assert maker is not None
    Interpreter(wheel, emit, kwargs_of).call(maker, None, {})
    rows.append({"names": ["-h", "--help"], "nargs": 0})
    speculative = find(wheel, "vllm.config", "SpeculativeConfig")
    dashed = 'k.replace("-", "_"): v' in wheel.text("vllm/engine/arg_utils.py")
    for row in rows:
        if "--speculative-config" in row["names"] and speculative:
            objects["SpeculativeConfig"] = speculative
            row |= {"object": "SpeculativeConfig"} | ({"dashed": True} if dashed else {})
        for name, registry in REGISTRIES.items():
            if name in row["names"]:
                row["known"] = registered(wheel, *registry)
    return {"flags": rows, "objects": object_fields(wheel, objects), "positional": True}
