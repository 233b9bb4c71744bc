"""A model from the hub, fetched inside a real container by the real act, through the real huggingface_hub: what goes
wrong there, that nothing is fetched twice, and that the token is seen nowhere.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from provision.acts import fetch
from provision.acts.voice import Voice
from provision.hub.order import Order
from provision.run.errors import ActFailed
from provision.spec import Machine
from tests.doubles.hub.server import TOKEN, Hub, Repo, commit_of
from tests.guest.rig import Container, connected, controller, eventually, host, said

BIG = os.urandom(1 << 20) * 24
FILES = {"config.json": b'{"architectures": []}', "README.md": b"# tiny\n", "model.safetensors": BIG}
GIT = {"config.json": FILES["config.json"], "README.md": FILES["README.md"]}


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    hub.add("org/tiny", dict(FILES))
    yield hub
    hub.close()


@dataclass
class Inside:
    """The container as the host of the act."""

    machine: Machine
    container: Container
    hub: Hub
    lines: list[str] = field(default_factory=list)

    def order(self, name: str = "org/tiny", **more: Any) -> Order:
        revision = more.pop(
            "revision", self.hub.repos[name].commit if name in self.hub.repos else commit_of(name)
        )
        directory = more.pop("directory", f"/srv/models/{name.replace('/', '--')}@{revision}")
        return replace(
            Order(name, revision, directory, endpoint=self.hub.endpoint, reserve=1 << 20, tries=2), **more
        )

    def fetch(self, order: Order) -> None:
        with connected(self.machine) as state:
            inside = host(state, self.machine.guest_host_name(self.machine.guests[0]))
            fetch.run(inside, order, fetch.put_program(inside), Voice("test", self.lines.append))

    def refused(self, order: Order) -> str:
        with pytest.raises(ActFailed) as caught:
            self.fetch(order)
        return str(caught.value)

    def path(self, order: Order) -> Path:
        return self.container.rootfs / order.directory[1:]

    def is_whole(self, order: Order, repo: Repo | None = None) -> bool:
        files = (repo or self.hub.repos[order.repo]).files
        return all((self.path(order) / name).read_bytes() == data for name, data in files.items())


@pytest.fixture
def inside(container: Container, hub: Hub) -> Iterator[Inside]:
    yield Inside(Machine(name="box", guests=(container.spec(),)), container, hub)
    container.attach("sh", "-c", "rm -rf /srv/models /opt/kpro/kpro-hub-*")


def test_files_are_fetched_verified_and_put_in_place_once(inside: Inside) -> None:
    order = inside.order()
    inside.fetch(order)
    assert inside.is_whole(order)
    manifest = (inside.path(order) / "kpro-manifest.json").read_text()
    assert inside.hub.repos["org/tiny"].sha256("model.safetensors") in manifest
    listed = inside.container.attach("find", "/srv/models", "-printf", "%M %U:%G %P\\n").splitlines()
    assert not any("partial" in line or ".incoming" in line for line in listed)
    assert all(line.split()[1] == "0:0" for line in listed)
    assert any("in all" in line or "verified" in line for line in inside.lines)
    sent = inside.hub.sent()
    assert sent == sum(map(len, FILES.values()))
    inside.fetch(order)
    assert inside.hub.sent() == sent
    (inside.path(order) / "config.json").write_bytes(b"damaged")
    inside.fetch(order)
    assert inside.is_whole(order)
    assert inside.hub.sent() == sent + len(FILES["config.json"])


def test_a_gated_model_without_a_token_is_told_and_no_file_is_asked_for(inside: Inside) -> None:
    inside.hub.add("org/gated", dict(FILES), gated=True, members=(TOKEN,))
    text = inside.refused(inside.order("org/gated"))
    assert "is gated, and no token was given" in text
    assert "token_file" in text
    assert f"{inside.hub.endpoint}/org/gated" in text
    assert inside.hub.sent() == 0
    inside.fetch(inside.order("org/gated", token=TOKEN))
    assert inside.is_whole(inside.order("org/gated"))


@pytest.mark.parametrize(
    ("token", "more", "text"),
    [
        ("hf_" + "x" * 30, {}, "does not know the token"),
        (TOKEN, {"members": ()}, "is not on its list"),
        (TOKEN, {"waiting": (TOKEN,)}, "still waits for its authors"),
    ],
    ids=["wrong", "not allowed", "waiting"],
)
def test_a_token_that_opens_nothing_is_told_by_its_reason(
    inside: Inside, token: str, more: dict[str, Any], text: str
) -> None:
    inside.hub.add("org/gated", dict(FILES), gated=True, **more)
    told = inside.refused(inside.order("org/gated", token=token))
    assert text in told
    assert token not in told
    assert inside.hub.sent() == 0


def test_a_moved_revision_a_missing_and_a_renamed_repository_are_told(inside: Inside) -> None:
    now = inside.hub.repos["org/tiny"].commit
    text = inside.refused(inside.order(revision=commit_of("pushed away")))
    assert "has no commit" in text
    assert f"its main is at {now} now" in text
    assert "has no model org/nothing" in inside.refused(inside.order("org/nothing"))
    inside.hub.add("org/old", dict(FILES), moved_to="org/tiny")
    assert "org/old is called org/tiny now" in inside.refused(inside.order("org/old", revision=now))
    assert inside.hub.sent() == 0
    assert not inside.path(inside.order()).parent.exists()


def test_a_connection_cut_again_and_again_goes_on_from_where_it_was(inside: Inside) -> None:
    inside.hub.faults.cut["model.safetensors"] = [9_000_001, 5_000_001, 4_000_001]
    order = inside.order()
    inside.fetch(order)
    assert inside.is_whole(order)
    # Chunks of one MiB: what each cut costs.
    assert len(BIG) < inside.hub.sent(large_only=True) <= len(BIG) + (3 << 20)
    ranges = [one.range for one in inside.hub.asked if one.path.startswith("/cdn/")]
    assert ranges[0] is None
    assert all(ranges[1:])


def test_a_hub_that_stays_away_ends_the_fetch_and_the_next_one_goes_on(inside: Inside) -> None:
    inside.hub.faults.cut["model.safetensors"] = [10 << 20] + [0] * 30
    order = inside.order(tries=1)
    text = inside.refused(order)
    assert "stopped coming after" in text
    assert "run again" in text
    assert not inside.path(order).exists()
    inside.hub.faults.cut.clear()
    inside.fetch(order)
    assert inside.is_whole(order)
    assert inside.hub.sent(large_only=True) <= len(BIG) + (1 << 20)


def test_a_file_that_arrives_damaged_is_fetched_again_and_never_put_in_place_damaged(inside: Inside) -> None:
    inside.hub.faults.damage["model.safetensors"] = 1
    inside.fetch(inside.order())
    assert inside.is_whole(inside.order())
    assert any("arrived damaged" in line for line in inside.lines)
    for name in ("model.safetensors", "config.json"):
        repo = inside.hub.add(f"org/bad-{name[0]}", dict(FILES))
        inside.hub.faults.damage = {name: -1}
        order = inside.order(f"org/bad-{name[0]}")
        text = inside.refused(order)
        assert f"{name} arrived with hash" in text
        assert not inside.path(order).exists()
        inside.hub.faults.damage.clear()
        inside.fetch(order)
        assert inside.is_whole(order, repo)


@pytest.fixture
def small_disk(inside: Inside) -> Iterator[str]:
    """16 MiB, and half as much as the model needs."""
    inside.container.attach(
        "sh", "-c", "mkdir -p /srv/small && mount -t tmpfs -o size=16m kpro-test /srv/small"
    )
    yield "/srv/small"
    inside.container.attach("sh", "-c", "umount /srv/small && rmdir /srv/small")


def test_a_disk_that_is_too_small_is_told_before_the_first_byte(inside: Inside, small_disk: str) -> None:
    text = inside.refused(inside.order(directory=f"{small_disk}/models/org--tiny@x"))
    assert re.search(r"\d+ bytes are needed .* and \d+ are free", text)
    assert inside.hub.sent() == 0


def test_a_disk_that_others_fill_meanwhile_is_told_and_the_rest_comes_later(
    inside: Inside, small_disk: str
) -> None:
    repo = inside.hub.add("org/fits", {**GIT, "model.safetensors": BIG[: 8 << 20]})
    inside.hub.faults.rate = 4 << 20
    order = inside.order("org/fits", directory=f"{small_disk}/org--fits@x")

    def fill() -> None:
        # A thread of its own: nothing of gevent here.
        while inside.hub.sent(large_only=True) < 1 << 20:
            time.sleep(0.05)
        words = ["lxc-attach", "-n", inside.container.name, "--", "sh", "-c"]
        subprocess.run(
            [*words, f"head -c 16M /dev/zero >{small_disk}/full"], capture_output=True, check=False
        )

    filler = threading.Thread(target=fill)
    filler.start()
    text = inside.refused(order)
    filler.join()
    assert "No space left on device" in text
    assert "goes on from there" in text
    inside.container.attach("rm", f"{small_disk}/full")
    arrived = inside.hub.sent(large_only=True)
    inside.hub.faults.rate = None
    inside.fetch(order)
    listed = inside.container.attach("sha256sum", f"{order.directory}/model.safetensors")
    assert repo.sha256("model.safetensors") in listed
    assert inside.hub.sent(large_only=True) - arrived < len(repo.files["model.safetensors"])


def test_what_somebody_else_put_there_is_left_alone(inside: Inside) -> None:
    order = inside.order()
    inside.container.attach(
        "sh", "-c", f"mkdir -p {order.directory} && echo mine >{order.directory}/config.json"
    )
    assert "has no manifest of ours" in inside.refused(order)
    assert (inside.path(order) / "config.json").read_text() == "mine\n"
    assert inside.hub.sent() == 0


def test_a_folder_of_the_machine_is_copied_and_verified_without_any_hub(inside: Inside) -> None:
    script = "mkdir -p /data/m/blobs && echo '{}' >/data/m/blobs/1 && ln -s blobs/1 /data/m/config.json && "
    inside.container.attach("sh", "-c", script + "head -c 3M /dev/urandom >/data/m/model.safetensors")
    order = inside.order(path="/data/m")
    inside.fetch(order)
    assert (inside.path(order) / "config.json").read_text() == "{}\n"
    assert not (inside.path(order) / "config.json").is_symlink()
    assert "model.safetensors" in (inside.path(order) / "kpro-manifest.json").read_text()
    assert inside.hub.asked == []
    missing = inside.order(path="/data/nowhere", directory="/srv/models/other")
    assert "there is no folder /data/nowhere" in inside.refused(missing)


def test_a_python_that_cannot_run_it_is_told_and_nothing_begins(inside: Inside) -> None:
    old = "/usr/local/bin/python3"
    inside.container.attach("sh", "-c", f"printf '#!/bin/sh\\nexit 1\\n' >{old} && chmod 755 {old}")
    try:
        text = inside.refused(inside.order())
    finally:
        inside.container.attach("rm", old)
    assert "python3 is missing, older than 3.11 or has no ssl" in text
    assert inside.hub.asked == []


@contextmanager
def watched(word: str, known: int) -> Iterator[list[str]]:
    """Looks for a word in every process's words and variables, as often as it can. Those of ``known`` are its own, also
    in a fork of it that has not become another program yet."""
    seen: list[str] = []
    own = Path(f"/proc/{known}/cmdline").read_bytes()
    over = threading.Event()
    needle = word.encode()

    def look() -> None:
        while not over.is_set():
            for folder in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    try:
                        found, words = (
                            needle in (folder / name).read_bytes(),
                            (folder / "cmdline").read_bytes(),
                        )
                    except OSError:
                        continue
                    if found and words != own:
                        seen.append(f"{name} of {folder.name} {words!r}")
            time.sleep(0.02)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


_FETCH = """\
from provision.acts import fetch
from provision.acts.voice import Voice
from provision.hub.controller import hide_token, token_of
from provision.hub.order import Order
from provision.spec import Hub, Model
from dataclasses import replace
hide_token()
order = Order.from_json(arguments[0])
order = replace(order, token=token_of(Model(repo=order.repo, revision=order.revision, source="hub"), Hub()))
program = fetch.put_program(inside)
print("begins", flush=True)
fetch.run(inside, order, program, Voice("test", lambda line: print("said", line, flush=True)))
print("done", flush=True)
"""


@pytest.mark.parametrize("way", ["local", "ssh"])
def test_a_killed_controller_takes_nothing_with_it_and_the_token_is_seen_nowhere(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, way: str
) -> None:
    """The controller has the token in its own environment, and is killed half-way: the fetch goes on, the token in no
    other process, and afterwards in no file."""
    if way == "ssh":
        ssh = request.getfixturevalue("sshd").ssh()
        inside.machine = inside.machine.model_copy(update={"ssh": ssh})
    inside.hub.add("org/gated", dict(FILES), gated=True, members=(TOKEN,))
    inside.hub.faults.rate = 8 << 20
    order = inside.order("org/gated")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    running = controller(inside.machine, _FETCH, order.to_json())
    monkeypatch.delenv("HF_TOKEN")
    with watched(TOKEN, running.pid) as seen:
        said(running, "begins")
        eventually(lambda: inside.hub.sent(large_only=True) > 4 << 20, "bytes arrive")
        os.kill(running.pid, signal.SIGKILL)
        running.wait(10)
        eventually(lambda: inside.path(order).exists(), "the fetch went on to its end", 30)
    assert seen == []
    assert inside.is_whole(order)
    assert inside.hub.sent(large_only=True) == len(BIG)
    places = "/srv /opt /etc /var /run /tmp /root"
    left = inside.container.attach("sh", "-c", f"grep -rIlF {TOKEN[:20]} {places} || true")
    assert left.strip() == ""
    assert TOKEN not in inside.container.attach("journalctl", "--no-pager", check=False)
    # A token is never shown to the host that a redirect leads to.
    assert {one.token for one in inside.hub.asked if one.path.startswith("/cdn/")} == {None}
    assert TOKEN in {one.token for one in inside.hub.asked}
