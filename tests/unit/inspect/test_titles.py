"""What an operator reads of containers, mappings and switches is words, and a title says whose tree was read."""

from __future__ import annotations

import pytest

from provision.inspect.examine import examine
from provision.inspect.show_host import lines
from provision.spec import Machine
from tests.unit.inspect.test_looked_at import seen, shown

HOST = {
    "containers": [
        {
            "id": "120",
            "unprivileged": True,
            "verdict": "accepted",
            "devices": [
                {"path": "/dev/nvidia0", "how": "dev0 mode=0666", "line": 4},
                {"path": "/dev/nvidiactl", "how": "dev1", "line": 5},
                {"path": "/dev/nvidia1", "how": "raw bind mount", "line": 6},
            ],
        }
    ],
    "mappings": [
        {"mapping": "a", "node": "n", "functions": ["0000:42:00.0"], "where": "/x:2", "wrong": None},
        {"mapping": "b", "node": "n", "functions": [], "where": "/x:3", "wrong": "no path"},
    ],
    "nvswitches": [{"bdf": "0000:05:00.0", "iommu_group": "114"}],
}


def test_devices_mappings_and_switches_are_told_in_words() -> None:
    said = dict(lines(HOST))
    assert said["container"].endswith(
        "passes in /dev/nvidia0 (dev0, mode=0666, line 4), /dev/nvidiactl (dev1, line 5), "
        "/dev/nvidia1 (raw bind mount, line 6)"
    )
    assert [text for heading, text in lines(HOST) if heading == "mapping"] == [
        "a is 0000:42:00.0 on node n (/x:2)",
        "b is no function on node n (/x:3); wrong: no path",
    ]
    assert said["NVSwitch"] == "0000:05:00.0, IOMMU group 114"


@pytest.mark.parametrize(
    ("name", "title"), [("gpu01", "gpu01, read from a tree of kpro5"), ("kpro5", "kpro5"), (None, "kpro5")]
)
def test_a_machine_that_is_judged_by_another_s_tree_says_so(name: str | None, title: str) -> None:
    report = examine(seen("kpro5"), Machine(name=name) if name else None, recorded=True)
    assert shown(report).splitlines()[0] == title


def test_a_live_machine_is_titled_by_its_name_alone() -> None:
    report = examine(seen("kpro5"), Machine(name="gpu01"))
    assert shown(report).splitlines()[0] == "gpu01"
    assert "tree_of" not in report.as_dict()


@pytest.mark.parametrize(
    ("installed", "told"), [("unknown", ""), (["6.8.1"], "; also installed: 6.8.1"), ([], "")]
)
def test_kernels_that_could_not_be_listed_are_no_list_of_letters(installed: object, told: str) -> None:
    host = {"kernel_running": "6.17.1", "kernel_next": "unknown", "kernels_installed": installed}
    assert dict(lines(host))["kernel"] == f"6.17.1 runs, next boot: unknown{told}"
