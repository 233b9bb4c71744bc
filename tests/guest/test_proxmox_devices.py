"""Device nodes of a Proxmox container: what was planned is what the container has, also after a minor moved."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.guest.proxmox.grammar import parse
from tests.guest.proxmox_rig import TEMPLATE, Node

pytestmark = pytest.mark.usefixtures("one_operator")

NULL = os.makedev(1, 3)


@pytest.fixture(scope="module")
def node(alone: None, guest_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("devices"), guest_root, number=0)
    made = node.run(
        "pct", "create", node.id, TEMPLATE, "-unprivileged", "0", "-rootfs", "tank:8", "-memory", "1024"
    )
    assert made.returncode == 0, made.stderr
    yield node
    node.remove()


@pytest.fixture(scope="module")
def nodes(node: Node) -> Path:
    """NVIDIA's names on the null device: only the nodes are looked at."""
    folder = node.folder / "dev"
    folder.mkdir()
    for name in ("nvidia1", "nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
        os.mknod(folder / name, 0o666 | stat.S_IFCHR, NULL)
        (folder / name).chmod(0o600)
    return folder


def act(node: Node, nodes: Path, minor: int, *change: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tests.guest.acts_on_node", node.id, str(minor), *change]
    return node.run(*words, nodes=nodes)


def inside(node: Node) -> set[str]:
    script = "stat -c '%n %a %F' /dev/nvidia*"
    return set(node.container.attach("sh", "-c", script).splitlines())


def test_a_file_that_changed_meanwhile_is_not_replaced(node: Node, nodes: Path) -> None:
    before = node.conf.read_text()
    done = act(node, nodes, 3, "#hello")
    assert done.returncode == 1
    assert "changed under us" in done.stderr
    assert node.conf.read_text() == f"{before}#hello\n"
    node.conf.write_text(before)


def test_a_node_that_is_not_there_is_refused_before_anything_is_done(node: Node, nodes: Path) -> None:
    before = node.conf.read_bytes()
    done = act(node, nodes, 7)
    assert done.returncode == 3
    assert "/dev/nvidia7 is not there" in done.stderr
    assert node.conf.read_bytes() == before


def test_the_container_has_its_nodes_for_everybody_and_no_other(node: Node, nodes: Path) -> None:
    done = act(node, nodes, 3)
    assert done.stdout.split() == ["container.configure", "container.start"], done.stderr
    assert inside(node) == {
        f"/dev/{name} 666 character special file"
        for name in ("nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
    }
    assert parse(node.conf.read_text()).of("raw")[0].text == "lxc.prlimit.memlock: unlimited"
    assert act(node, nodes, 3).stdout == ""


def test_a_minor_that_moved_moves_the_line_and_the_restart_brings_it(node: Node, nodes: Path) -> None:
    done = act(node, nodes, 1)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.split() if line.startswith("container.")] == [
        "container.configure",
        "container.restart",
    ]
    assert {line.split()[0] for line in inside(node)} >= {"/dev/nvidia1"}
    assert "/dev/nvidia3" not in {line.split()[0] for line in inside(node)}
    conf = parse(node.conf.read_text())
    assert conf.value("dev0") == "/dev/nvidia1,mode=0666"
    assert conf.sections == ()
    assert act(node, nodes, 1).stdout == ""


def test_after_another_driver_it_starts_with_the_minor_that_its_gpu_has_then_and_without_a_second_restart(
    node: Node, nodes: Path
) -> None:
    asked = node.asked().count("shutdown")
    done = act(node, nodes, 3, "asleep")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.split() if line.startswith("container.")] == [
        "container.configure",
        "container.start",
    ]
    assert node.asked().count("shutdown") == asked + 1
    assert "/dev/nvidia3" in {line.split()[0] for line in inside(node)}
    assert parse(node.conf.read_text()).value("dev0") == "/dev/nvidia3,mode=0666"
    assert act(node, nodes, 3).stdout == ""


def test_on_the_way_back_it_is_stopped_once_more_and_runs_with_the_nodes_that_it_had(
    node: Node, nodes: Path
) -> None:
    looked = node.run("sh", "/var/lib/kpro/undo.sh", "--look", "exchange-3", nodes=nodes)
    assert "would stop container" in looked.stdout
    done = node.run("sh", "/var/lib/kpro/undo.sh", "exchange-3", nodes=nodes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"container {node.id} runs again" in done.stdout
    assert parse(node.conf.read_text()).value("dev0") == "/dev/nvidia1,mode=0666"
    assert {line.split()[0] for line in inside(node)} >= {"/dev/nvidia1"}
    assert "/dev/nvidia3" not in {line.split()[0] for line in inside(node)}
    assert act(node, nodes, 1).stdout == "", "it runs with what its file says"
    assert not (node.folder / "kpro/exchange").exists()


def test_each_run_and_all_go_back_to_the_bytes_that_were_there(node: Node, nodes: Path) -> None:
    now = node.conf.read_text()
    looked = node.run("sh", "/var/lib/kpro/undo.sh", "--look")
    assert node.conf.read_text() == now
    assert looked.stdout.count("would put") == 2, looked.stdout
    one = node.run("sh", "/var/lib/kpro/undo.sh", "run-1")
    assert one.returncode == 0, one.stdout + one.stderr
    assert parse(node.conf.read_text()).value("dev0") == "/dev/nvidia3,mode=0666"
    done = node.undo()
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [line for line in parse(node.conf.read_text()).lines if line.key.startswith(("dev", "lxc"))]
    again = node.undo()
    assert again.returncode == 0, again.stdout + again.stderr
