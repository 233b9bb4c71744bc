"""Who has a GPU open: what was seen counts, whoever looked; what was not seen may be there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provision.host.tree import observe_tree
from provision.inspect.examine import examine
from provision.inspect.requests import requests
from tests.unit.vms.tree import Tree


def gpu(tree: Tree) -> dict[str, Any]:
    found = examine(observe_tree(tree.root, requests(recorded=True)), recorded=True).as_dict()["gpus"]
    assert isinstance(found, list)
    return dict(found[0])


@pytest.mark.parametrize(
    ("target", "used"),
    [
        ("/dev/vfio/25", True),
        ("/dev/vfio/25 (deleted)", True),
        ("/dev/vfio/noiommu-25", True),
        ("anon_inode:[vfio-device]", True),
        ("/dev/vfio/255", False),
        ("/dev/vfio/vfio", False),
    ],
)
@pytest.mark.parametrize("user", ["0", "1000", None])
def test_an_opener_that_was_seen_refuses_whoever_looked(
    target: str, used: bool, user: str | None, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).cmd("openers", f"123\t{target}\tqemu-system-x86_64 -id 101\n")
    if user is not None:
        tree.cmd("id-u", f"{user}\n")
    told = gpu(tree)
    assert (told["release"]["how"] == "refused") is used
    assert bool(told["in_use_by"]) is used
    assert ("open device files" in told["use_not_looked_at"]) is (user != "0")
    assert ("in use: process 123" in tree.refused) is used


def test_one_that_has_a_group_open_has_the_devices_of_that_group(tmp_path: Path) -> None:
    tree = Tree(tmp_path).cmd("openers", "9\tanon_inode:[vfio-device]\tqemu\n9\t/dev/vfio/10\tqemu\n")
    assert gpu(tree)["in_use_by"] == []
    assert tree.refused == ""
