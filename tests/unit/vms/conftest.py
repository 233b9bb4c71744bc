"""The tree that the tests of this folder fill."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.vms.tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "host of the tests")
