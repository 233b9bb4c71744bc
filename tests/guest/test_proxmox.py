"""The chain on a Proxmox VE node whose programs are doubles and whose container is real: from nothing to an answer."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.guest.proxmox.grammar import parse
from provision.guest.proxmox.judge import findings
from tests.guest.proxmox_rig import TEMPLATE, Node

pytestmark = pytest.mark.usefixtures("one_operator")


@pytest.fixture(scope="module")
def node(alone: None, guest_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("node"), guest_root)
    node.write()
    yield node
    node.remove()


def answer(node: Node) -> str:
    body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 4, "ignore_eos": True}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{node.port}/v1/completions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        text: str = json.load(reply)["choices"][0]["text"]
    return text


def test_one_command_takes_nothing_to_a_service_in_a_container_that_pct_made(node: Node) -> None:
    assert node.kinds()[:3] == ["container.create", "container.configure", "container.start"]
    done = node.provision("apply", "--yes")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert answer(node).strip()
    conf = parse(node.conf.read_text())
    assert findings(conf) == ()
    assert (conf.value("tags"), conf.value("swap"), conf.value("onboot")) == ("kpro", "0", "1")
    assert conf.value("mp0") == f"{node.models},mp=/srv/models,backup=0,replicate=0"
    assert [line.value for line in conf.of("raw")] == [
        "tmpfs dev/shm tmpfs rw,nosuid,nodev,size=96m,create=dir 0 0"
    ]
    assert "98304" in node.container.attach("df", "-k", "/dev/shm")
    assert set(node.asked()) >= {"create", "set", "start", "exec", "status"}
    assert "None" not in node.asked(), "pct was asked something that it was not given"


def test_a_second_run_changes_nothing(node: Node) -> None:
    before = node.conf.read_bytes()
    done = node.provision("apply", "--json")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert json.loads(done.stdout)["changed"] == []
    assert node.conf.read_bytes() == before


def test_what_was_made_is_stopped_by_the_way_back_and_its_disks_stay(node: Node) -> None:
    done = node.undo()
    assert done.returncode == 0, done.stdout + done.stderr
    assert node.run("pct", "status", node.id).stdout == "status: stopped\n"
    assert parse(node.conf.read_text()).value("onboot") == "0"
    assert (node.container.rootfs / "etc/hostname").exists()
    again = node.undo()
    assert again.returncode == 0, again.stdout + again.stderr


@pytest.fixture(scope="module")
def by_hand(alone: None, guest_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose operator made an unprivileged container, and wrote in its file."""
    node = Node(tmp_path_factory.mktemp("by-hand"), guest_root, number=1)
    node.write(unprivileged=True, made=False, serves=False)
    # A user namespace mounts /sys only with a network of its own.
    (node.state / "lxc").write_text("lxc.net.0.type = empty\n")
    words = ["-hostname", "theirs", "-rootfs", "tank:8", "-memory", "1024", "-features", "keyctl=1"]
    made = node.run("pct", "create", node.id, TEMPLATE, *words)
    assert made.returncode == 0, made.stderr
    yield node
    node.remove()


def test_a_container_made_by_hand_gets_what_it_lacks_and_the_way_back_gives_every_byte(by_hand: Node) -> None:
    original = by_hand.conf.read_text().replace("hostname", "# ask Ana before you touch this\nhostname")
    original += "\n[before]\nhostname: theirs\nmemory: 512\nsnaptime: 1700000000\n"
    by_hand.conf.write_text(original)
    assert by_hand.kinds() == ["container.configure", "container.start"]
    done = by_hand.provision("apply", "--yes")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    now = by_hand.conf.read_text()
    kept = [line for line in now.splitlines() if line in original.splitlines()]
    assert kept == [line for line in original.splitlines() if not line.startswith("features")]
    assert "features: keyctl=1,nesting=1\n" in now
    assert "100000" in by_hand.container.attach("cat", "/proc/self/uid_map")
    assert by_hand.kinds() == []
    back = by_hand.undo()
    assert back.returncode == 0, back.stdout + back.stderr
    assert by_hand.conf.read_text() == original


def test_pct_sets_what_it_can_where_the_file_is_as_proxmox_writes_it(by_hand: Node) -> None:
    by_hand.run("pct", "stop", by_hand.id)
    text = by_hand.conf.read_text().replace("# ask Ana before you touch this\n", "")
    by_hand.conf.write_text(text)
    asked = by_hand.asked().count("set")
    done = by_hand.provision("apply", "--yes")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert by_hand.asked().count("set") == asked + 1
    assert by_hand.kinds() == []
    by_hand.undo()
    assert by_hand.conf.read_text() == text


def test_what_the_operator_changed_since_is_left_by_the_way_back(by_hand: Node) -> None:
    by_hand.run("pct", "stop", by_hand.id)
    assert by_hand.provision("apply", "--yes").returncode == 0
    by_hand.run("pct", "set", by_hand.id, "-memory", "2048")
    now = by_hand.conf.read_text()
    back = by_hand.undo()
    assert "was changed by somebody else" in back.stdout + back.stderr
    assert by_hand.conf.read_text() == now
