"""The Python sources inside one wheel: modules parsed on demand, names followed across imports."""

from __future__ import annotations

import ast
import hashlib
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ENV_NAME = re.compile(r"(?:VLLM|SGLANG|SGL)_[A-Z0-9_]*[A-Z0-9]")


@dataclass
class Wheel:
    """One ``.whl`` file. Nothing of it is unpacked to disk or executed."""

    path: Path
    _files: dict[str, str] = field(default_factory=dict)
    _trees: dict[str, ast.Module | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._zip = zipfile.ZipFile(self.path)
        self._names = set(self._zip.namelist())

    @property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        with self.path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
        return digest.hexdigest()

    def text(self, name: str) -> str:
        if name not in self._files:
            self._files[name] = self._zip.read(name).decode("utf-8", "replace")
        return self._files[name]

    def module_file(self, module: str) -> str | None:
        base = module.replace(".", "/")
        return next((name for name in (f"{base}.py", f"{base}/__init__.py") if name in self._names), None)

    def tree(self, module: str) -> ast.Module | None:
        """The syntax tree of a module of this wheel; None for anything outside it."""
        if module not in self._trees:
            name = self.module_file(module)
            self._trees[module] = ast.parse(self.text(name)) if name else None
        return self._trees[module]

    def modules(self, prefix: str) -> list[str]:
        """Modules directly under a package, sorted."""
        base = prefix.replace(".", "/") + "/"
        inside = (
            name[len(base) : -3] for name in self._names if name.startswith(base) and name.endswith(".py")
        )
        return sorted(f"{prefix}.{stem}" for stem in inside if "/" not in stem and stem != "__init__")

    def python_files(self) -> Iterator[str]:
        return (name for name in sorted(self._names) if name.endswith(".py"))

    def binary_names(self) -> Iterator[str]:
        """Environment-variable names inside compiled members: a native front end reads some of its own."""
        pattern = re.compile(rb"(?<![A-Z0-9_])(?:VLLM|SGLANG|SGL)_[A-Z0-9_]*[A-Z0-9]")
        for name in sorted(self._names):
            if name.endswith((".py", ".json", ".md", ".txt")) or "/" not in name:
                continue
            if self._zip.getinfo(name).file_size > 700 << 20:
                continue
            for found in set(pattern.findall(self._zip.read(name))):
                yield found.decode("ascii")


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Module-level statements as they run: the ``else`` of ``if TYPE_CHECKING`` comes before its body."""
    for node in body:
        if isinstance(node, ast.If):
            checking = "TYPE_CHECKING" in ast.dump(node.test)
            yield from statements(node.orelse if checking else node.body)
            yield from statements(node.body if checking else node.orelse)
        elif isinstance(node, ast.Try):
            yield from statements(node.body)
            for handler in node.handlers:
                yield from statements(handler.body)
        else:
            yield node


@dataclass(frozen=True)
class Found:
    """Where a name is defined: the module and the node (class, function or assigned expression)."""

    module: str
    node: ast.AST


def find(wheel: Wheel, module: str, name: str, depth: int = 0) -> Found | None:
    """Follow a name from a module through re-exports to its definition; None when it leaves the wheel."""
    tree = wheel.tree(module)
    if tree is None or depth > 12:
        return None
    is_package = (wheel.module_file(module) or "").endswith("__init__.py")
    for node in statements(tree.body):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return Found(module, node)
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            return Found(module, node.value)
        if (
            isinstance(node, ast.AnnAssign)
            and node.value is not None
            and getattr(node.target, "id", "") == name
        ):
            return Found(module, node.value)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name != (name if alias.name == "*" else alias.asname or alias.name):
                    continue
                parent = module if is_package else module.rpartition(".")[0]
                for _ in range(max(node.level - 1, 0)):
                    parent = parent.rpartition(".")[0]
                source = ".".join(filter(None, (parent if node.level else "", node.module or "")))
                found = find(wheel, source, name if alias.name == "*" else alias.name, depth + 1)
                if found:
                    return found
    return None
