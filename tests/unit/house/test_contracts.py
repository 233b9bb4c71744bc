"""The import contracts of pyproject.toml: none is empty, and a module that calls itself pure is pure."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import grimp
import pytest

ACTS = {"pyinfra", "gevent", "paramiko", "subprocess", "socket", "tempfile", "shutil", "time", "random"}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("provision", "checks", include_external_packages=True, cache_dir=None)


def unmatched(expressions: Iterable[str], modules: set[str]) -> list[str]:
    """Expressions (``*`` one name, ``**`` one or more) that stand for no module: a rule without effect."""
    found = []
    for expression in expressions:
        pattern = re.escape(expression).replace(r"\*\*", ".+").replace(r"\*", r"[^.]+")
        if not any(re.fullmatch(pattern, module) for module in modules):
            found.append(expression)
    return found


def test_every_name_in_a_contract_stands_for_modules_that_exist(
    repo_root: Path, graph: grimp.ImportGraph
) -> None:
    contracts = tomllib.loads((repo_root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    ours = {
        name
        for contract in contracts
        for key in ("source_modules", "allowed_importers")
        for name in contract.get(key, [])
    }
    assert len(contracts) >= 6
    assert unmatched(ours, graph.modules) == []


def test_a_name_that_stands_for_nothing_is_found() -> None:
    modules = {"checks.gpus.judge", "checks.model"}
    assert unmatched(["checks.**.judge", "checks.*", "checks.**.verdict"], modules) == ["checks.**.verdict"]


def pure_modules(texts: dict[Path, str]) -> list[str]:
    """Modules whose docstring says ``Pure.``"""
    return [
        ".".join(name.with_suffix("").parts)
        for name, text in texts.items()
        if name.suffix == ".py"
        and name.parts[0] in ("provision", "checks")
        and re.search(r"\bPure\.", ast.get_docstring(ast.parse(text)) or "")
    ]


def ways_out(graph: grimp.ImportGraph, module: str) -> list[tuple[str, ...]]:
    chains = (graph.find_shortest_chain(module, name) for name in sorted(ACTS & graph.modules))
    return [chain for chain in chains if chain]


def test_a_module_that_calls_itself_pure_reaches_nothing_that_acts(
    texts: dict[Path, str], graph: grimp.ImportGraph
) -> None:
    pure = pure_modules(texts)
    assert len(pure) >= 5
    assert [chain for module in pure for chain in ways_out(graph, module)] == []


def test_a_module_that_acts_is_found_through_another_one() -> None:
    graph = grimp.ImportGraph()
    graph.add_import(importer="provision.host.decide", imported="provision.host.look")
    graph.add_import(importer="provision.host.look", imported="subprocess")
    assert ways_out(graph, "provision.host.decide") == [
        ("provision.host.decide", "provision.host.look", "subprocess")
    ]
    assert pure_modules(
        {Path("checks/a.py"): '"""Judges. Pure."""', Path("checks/b.py"): '"""Purely."""'}
    ) == ["checks.a"]
