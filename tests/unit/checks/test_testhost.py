"""The test-host marker, and the gate that asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.gpus.report import gated
from checks.model import Finding, Report, Status
from checks.testhost import MARKER, MarkerRefused, marker

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
LINE = f"kpro-test-host {UUID}\n"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="a marker belongs to root, so only root can make one"
)


def mark(root: Path, text: str = LINE, mode: int = 0o444) -> Path:
    path = Path(f"{root}{MARKER}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def machine(root: Path, product: str | None, *, virtual: bool = True, container: bool = False) -> None:
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(
        f"processor : 0\nflags\t\t: fpu {'hypervisor ' if virtual else ''}sse\n"
    )
    if product is not None:
        (root / "sys/class/dmi/id").mkdir(parents=True)
        (root / "sys/class/dmi/id/product_name").write_text(product + "\n")
    if container:
        (root / "run/systemd").mkdir(parents=True)
        (root / "run/systemd/container").write_text("lxc\n")


def test_no_marker_is_no_test_host(tmp_path: Path) -> None:
    assert marker(str(tmp_path)) is None


def test_a_right_marker_gives_its_uuid(tmp_path: Path) -> None:
    mark(tmp_path)
    assert marker(str(tmp_path)) == UUID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kpro-test-host\n",
        f"kpro-test-host {UUID}\nmore\n",
        f" kpro-test-host {UUID}\n",
        "kpro-test-host x\n",
        f"kpro-test-host {UUID.upper()}\n",
        LINE + "\x00" * 300,
    ],
)
def test_a_malformed_marker_is_refused(text: str, tmp_path: Path) -> None:
    mark(tmp_path, text)
    with pytest.raises(MarkerRefused, match="one line"):
        marker(str(tmp_path))


@pytest.mark.parametrize("mode", [0o644, 0o464, 0o446, 0o400, 0o4444])
def test_a_marker_of_another_mode_is_refused(mode: int, tmp_path: Path) -> None:
    mark(tmp_path, mode=mode)
    with pytest.raises(MarkerRefused, match="0444"):
        marker(str(tmp_path))


def test_a_marker_of_another_owner_is_refused(tmp_path: Path) -> None:
    os.chown(mark(tmp_path), 1000, 0)
    with pytest.raises(MarkerRefused, match="uid 1000"):
        marker(str(tmp_path))


@pytest.mark.parametrize(
    ("maps", "uid", "believed"),
    [
        ("         0     100000      65536\n", 65534, True),
        ("         0     100000      65536\n", 0, True),
        ("         0     100000      65536\n", 1000, False),
        ("         0          0 4294967295\n", 65534, False),
        ("         0          0          1\n         1     100000      65536\n", 65534, False),
        ("", 65534, False),
    ],
)
def test_nobodys_marker_counts_only_where_the_machines_root_shows_as_nobody(
    maps: str, uid: int, believed: bool, tmp_path: Path
) -> None:
    os.chown(mark(tmp_path), uid, 0)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/uid_map").write_text(maps)
    if believed:
        assert marker(str(tmp_path)) == UUID
    else:
        with pytest.raises(MarkerRefused, match=f"uid {uid}"):
            marker(str(tmp_path))


def test_a_link_or_a_folder_is_no_marker(tmp_path: Path) -> None:
    real = mark(tmp_path).rename(tmp_path / "real")
    Path(f"{tmp_path}{MARKER}").symlink_to(real)
    with pytest.raises(MarkerRefused):
        marker(str(tmp_path))
    Path(f"{tmp_path}{MARKER}").unlink()
    Path(f"{tmp_path}{MARKER}").mkdir()
    with pytest.raises(MarkerRefused):
        marker(str(tmp_path))


@pytest.mark.parametrize("product", ["Standard PC (Q35 + ICH9, 2009)", None])
def test_a_marker_copied_to_another_virtual_machine_marks_nothing(
    product: str | None, tmp_path: Path
) -> None:
    mark(tmp_path)
    machine(tmp_path, product)
    with pytest.raises(MarkerRefused, match="SMBIOS"):
        marker(str(tmp_path))


def test_the_smbios_product_agrees_or_the_container_answers(tmp_path: Path) -> None:
    for number, (product, virtual, container) in enumerate(
        [("kpro-test-host", True, False), ("PowerEdge", False, False), ("anything", True, True)]
    ):
        root = tmp_path / str(number)
        mark(root)
        machine(root, product, virtual=virtual, container=container)
        assert marker(str(root)) == UUID


def test_a_replayed_verdict_opens_a_gate_on_a_test_host_only(tmp_path: Path) -> None:
    report = Report("gpus", (Finding("gpu.count", Status.PASS, "host", "2 of 2 GPUs"),), "replayed")
    closed = gated(report, str(tmp_path))
    assert (closed.verdict, closed.exit_code(), closed.findings[-1].id) == (
        Status.UNKNOWN,
        3,
        "node.test_host",
    )
    mark(tmp_path, mode=0o644)
    assert "0444" in (gated(report, str(tmp_path)).findings[-1].cause or "")
    mark(tmp_path)
    assert gated(report, str(tmp_path)).exit_code() == 0


def test_the_gate_leaves_a_red_verdict_red(tmp_path: Path) -> None:
    report = Report("gpus", (Finding("gpu.lost", Status.FAIL, "gpu0", "lost"),), "replayed")
    mark(tmp_path)
    assert gated(report, str(tmp_path)).exit_code() == 1


def test_gate_on_the_command_line(
    tmp_path: Path, healthy: Callable[..., Any], provcheck: Callable[..., Any]
) -> None:
    import json

    path = tmp_path / "dump.json"
    path.write_text(json.dumps(healthy(2)))
    assert provcheck("gpus", "--replay", path, "--json").code == 0
    said = provcheck("gpus", "--replay", path, "--json", "--gate")
    assert (said.code, said.status("node.test_host", "host")) == (3, "unknown")
