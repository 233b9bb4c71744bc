"""An unprivileged container, through the whole chain: its ids are its own, inside nothing differs, all can go back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guest.place import Place
from tests.guest.rig import LXC, Container

pytestmark = pytest.mark.usefixtures("one_operator")

SUBIDS = (Path("/etc/subuid"), Path("/etc/subgid"))


@pytest.fixture(scope="module")
def made(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An undisturbed run from nothing."""
    before = {path: path.read_bytes() for path in SUBIDS}
    place = Place(
        tmp_path_factory.mktemp("place"), Container(f"kprotest-{os.getpid()}-own"), unprivileged=True
    )
    place.write()
    yield place
    place.remove()
    for path, data in before.items():
        path.write_bytes(data)


def first_id(place: Place) -> int:
    lines = (LXC / place.container.name / "config").read_text().splitlines()
    return next(int(line.split()[4]) for line in lines if line.startswith("lxc.idmap = u 0 "))


def test_one_command_takes_nothing_to_a_service_in_an_unprivileged_container(made: Place) -> None:
    kinds = [item["kind"] for item in made.plan()["machines"][0]["items"]]
    assert kinds[:3] == ["container.ids", "container.create", "container.start"]
    done = made.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert made.answer().strip()
    assert made.container.attach("cat", "/proc/self/uid_map").split() == ["0", str(first_id(made)), "65536"]


def test_a_second_run_changes_nothing_and_restarts_nothing(made: Place) -> None:
    pid = made.main_pid()
    done = made.provision("apply", str(made.inventory), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changed"] == []
    assert made.main_pid() == pid
