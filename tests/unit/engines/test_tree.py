"""A tree as it lies in a guest: what a look says of it, and when it is no environment. The look is really run."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from provision.stack.engine import tree
from provision.stack.engine.desired import DesiredEngine, Tree
from tests.unit.engines.conftest import lay


def look(engine: DesiredEngine) -> tree.Seen:
    assert engine.tree is not None
    done = subprocess.run(
        ["sh", "-c", tree.look(engine, engine.tree)], capture_output=True, text=True, check=True, cwd="/"
    )
    assert not done.stderr
    return tree.parse(done.stdout)


def reasons(engine: DesiredEngine, seen: tree.Seen) -> list[str]:
    assert engine.tree is not None
    return [str(refusal) for refusal in tree.refusals(engine, engine.tree, seen, "engine")]


def test_a_whole_tree_is_taken(engine: DesiredEngine) -> None:
    seen = look(engine)
    assert seen.python == "{}.{}.{}".format(*sys.version_info)
    assert seen.versions == ("0.20.1",)
    assert reasons(engine, seen) == []


def test_two_looks_at_the_same_tree_agree(engine: DesiredEngine) -> None:
    assert look(engine) == look(engine)


@pytest.mark.parametrize(
    "change",
    [
        lambda site: (site / "vllm/__init__.py").write_text("another length\n"),
        lambda site: (site / "vllm/more.py").write_text(""),
        lambda site: (site / "vllm/__init__.py").unlink(),
        lambda site: (site / "vllm-0.20.1.dist-info/RECORD").write_text("vllm/__init__.py,sha256=abd,24\n"),
        lambda site: lay(site, "2.11.0", "torch"),
    ],
)
def test_a_changed_tree_has_another_digest(
    engine: DesiredEngine, site: Path, change: Callable[[Path], object]
) -> None:
    before = look(engine)
    change(site)
    assert look(engine).digest != before.digest


def test_what_python_caches_while_it_runs_is_no_change(engine: DesiredEngine, site: Path) -> None:
    before = look(engine)
    (site / "vllm/__pycache__").mkdir()
    (site / "vllm/__pycache__/__init__.cpython-311.pyc").write_bytes(b"x")
    assert look(engine) == before


def test_every_reason_is_told_at_once(engine: DesiredEngine) -> None:
    bad = replace(engine, tree=Tree("/nowhere/python3.12", ("/nowhere/site", *engine.tree.folders)))  # type: ignore[union-attr]
    told = reasons(bad, look(bad))
    assert told[0].startswith("engine.interpreter: the guest has no /nowhere/python3.12;")
    assert told[1].startswith("engine.folders: the guest has no /nowhere/site;")
    assert len(told) == 2


def test_a_tree_of_another_version_is_refused(engine: DesiredEngine) -> None:
    other = replace(engine, version="0.33.0")
    assert "says it is 0.20.1" in reasons(other, look(other))[0]


def test_a_tree_that_does_not_say_its_version_is_refused(engine: DesiredEngine, site: Path) -> None:
    (site / "vllm-0.20.1.dist-info/METADATA").unlink()
    assert "does not say which version" in reasons(engine, look(engine))[0]


def test_a_build_of_the_same_release_counts(tmp_path: Path, engine: DesiredEngine) -> None:
    own = lay(tmp_path / "own", "0.20.1+cu130")
    built = replace(engine, tree=Tree(sys.executable, (str(own),)))
    assert reasons(built, look(built)) == []


def test_another_python_than_the_inventory_says_is_refused(engine: DesiredEngine) -> None:
    other = replace(engine, python="3.9")
    assert "and the inventory says 3.9" in reasons(other, look(other))[0]


def test_an_interpreter_that_does_not_run_is_refused_with_its_words(
    engine: DesiredEngine, tmp_path: Path
) -> None:
    fake = tmp_path / "python3.12"
    fake.write_text("#!/bin/sh\necho \"libm.so.6: version 'GLIBC_2.38' not found\" >&2; exit 1\n")
    fake.chmod(0o755)
    broken = replace(engine, tree=replace(engine.tree, interpreter=str(fake)))  # type: ignore[type-var]
    assert "GLIBC_2.38" in reasons(broken, look(broken))[0]


def test_the_wrapper_runs_the_tree_and_leaves_arguments_whole(site: Path, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(tree.wrapper(Tree(sys.executable, (str(site), str(tmp_path)))))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    code = "import sys, vllm; print(vllm.__file__, sys.argv[1:])"
    done = subprocess.run(
        [program, "-c", code, "a b", "*"], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout.strip() == f"{site}/vllm/__init__.py ['a b', '*']"


def test_a_program_of_the_tree_is_run_as_its_module(site: Path, tmp_path: Path) -> None:
    (site / "vllm/__main__.py").write_text("import sys; print('served', sys.argv[1:])")
    program = tmp_path / "vllm"
    program.write_text(tree.wrapper(Tree(sys.executable, (str(site),)), "vllm"))
    program.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": "/nowhere"}
    done = subprocess.run(
        [program, "serve", "M"], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "served ['serve', 'M']"
