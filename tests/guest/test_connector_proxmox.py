"""The guest connector over ``pct``: commands, and files of any size through one pipe."""

from __future__ import annotations

import hashlib
import io
import random
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyinfra.api.host import Host
from pyinfra.api.state import StateStage

from provision.guest.connector import GuestUnavailable
from provision.guest.states import GuestState
from provision.host import transport
from provision.host.transport import CommandTimeout, TransportError
from provision.spec import Guest, Machine
from tests.guest.proxmox_rig import TEMPLATE, Node
from tests.guest.rig import connected, host

LARGE = random.Random(42).randbytes(48 << 20)
"""Far more than any buffer on the way, every byte value in it."""


@pytest.fixture(scope="module")
def node(alone: None, guest_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("connector"), guest_root)
    for words in (
        ("create", node.id, TEMPLATE, "-unprivileged", "0", "-rootfs", "tank:8", "-memory", "1024"),
        ("start", node.id),
    ):
        done = node.run("pct", *words)
        assert done.returncode == 0, done.stderr
    yield node
    node.remove()


@pytest.fixture
def inside(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """The container, while changes are made; pct is found as on a node."""
    monkeypatch.setenv("PATH", node.path())
    guest = Guest(name="llm", backend="pct", id=node.id)
    with connected(Machine(name="box", guests=[guest])) as state:
        state.set_stage(StateStage.Execute)
        yield host(state, "@guest/@local/llm")


def files(node: Node) -> set[str]:
    return {path.name for path in (node.container.rootfs / "root").iterdir()}


def elsewhere(node: Node) -> list[str]:
    """Large files of the node outside its container."""
    return [
        str(path)
        for path in node.folder.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_size >= len(LARGE)
    ]


def test_a_large_file_goes_in_and_comes_back_whole_and_lies_nowhere_else(inside: Host, node: Node) -> None:
    transport.put(inside, io.BytesIO(LARGE), "/root/large", mode="0640", owner="nobody:nogroup")
    there = node.container.rootfs / "root/large"
    with there.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").digest() == hashlib.sha256(LARGE).digest()
    assert (there.stat().st_mode & 0o7777, there.stat().st_uid) == (0o640, 65534)
    back = io.BytesIO()
    assert inside.get_file("/root/large", back)
    assert back.getvalue() == LARGE
    assert elsewhere(node) == []
    assert not {"push", "pull", "None"} & set(node.asked())


@pytest.mark.parametrize("name", ["plain", "a b'c\"d$e\\f", "ünï\ncode"])
@pytest.mark.parametrize("content", [b"", bytes(range(256)) * 300, b"no newline"])
def test_names_and_contents_of_any_kind_arrive_as_they_are(inside: Host, name: str, content: bytes) -> None:
    assert inside.put_file(io.BytesIO(content), f"/root/{name}")
    back = io.BytesIO()
    assert inside.get_file(f"/root/{name}", back)
    assert back.getvalue() == content


def test_a_put_that_is_cut_leaves_the_old_file_and_no_piece(inside: Host, node: Node) -> None:
    transport.put(inside, io.BytesIO(b"old"), "/root/kept")
    before = files(node)

    class Breaks(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 1 << 20:
                raise OSError("the source broke")
            return super().read(size)

    with pytest.raises(OSError, match="the source broke"):
        transport.put(inside, Breaks(LARGE), "/root/kept")
    assert (node.container.rootfs / "root/kept").read_bytes() == b"old"
    until = time.monotonic() + 20
    while files(node) != before and time.monotonic() < until:
        time.sleep(0.2)  # the shell inside sees the end of its input, and tidies up
    assert files(node) == before


def test_a_file_that_cannot_be_had_or_put_is_an_error(inside: Host) -> None:
    with pytest.raises(TransportError, match="No such file"):
        inside.get_file("/root/none", io.BytesIO())
    with pytest.raises(TransportError, match="was not written"):
        inside.put_file(io.BytesIO(b"x"), "/none/x")


@pytest.mark.parametrize("code", [0, 1, 2, 7, 113, 255])
def test_the_status_of_a_command_is_its_own(inside: Host, code: int) -> None:
    done = transport.run(inside, f"echo out; echo err >&2; exit {code}")
    assert (done.rc, done.stdout, done.stderr) == (code, b"out\n", b"err\n")


@pytest.mark.parametrize("word", ["it's", "$HOME `id` $(id)", "two\nlines", "é ü 日本", "", "-n", "a;b&c|d"])
def test_every_argument_arrives_as_it_is_and_the_environment_is_clean(inside: Host, word: str) -> None:
    assert transport.run(inside, f"printf '<%s>' {shlex.quote(word)}").stdout == f"<{word}>".encode()
    lines = set(transport.run(inside, "env; pwd").text.splitlines())
    assert {"HOME=/root", "LANG=C.UTF-8", "/"} <= lines
    assert not [line for line in lines if line.startswith(("PYTHON", "XDG", "SSH_"))]


def test_a_deadline_ends_the_wait_and_the_next_command_works(inside: Host) -> None:
    began = time.monotonic()
    with pytest.raises(CommandTimeout):
        transport.run(inside, "sleep 15", timeout=2)
    assert time.monotonic() - began < 12
    assert transport.run(inside, "echo here").stdout == b"here\n"


def test_one_that_does_not_run_or_is_not_there_is_told_from_an_empty_answer(inside: Host, node: Node) -> None:
    node.container.stop()
    for state in (GuestState.STOPPED, GuestState.ABSENT):
        with pytest.raises(GuestUnavailable) as caught:
            transport.run(inside, "true")
        assert caught.value.seen.state is state
        node.conf.unlink(missing_ok=True)
