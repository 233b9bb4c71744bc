"""The chain on a Proxmox VE node whose programs are doubles and whose container is real: from nothing to an answer."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.guest.proxmox.grammar import parse
from provision.guest.proxmox.judge import findings
from tests.guest.proxmox_rig import Node

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
    assert conf.value("mp0") == f"{node.models},mp=/srv/models,backup=0"
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
