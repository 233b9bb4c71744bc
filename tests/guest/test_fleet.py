"""Several machines, and a machine that changes behind the plan."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guest.place import Place
from tests.guest.rig import LXC, Container, Sshd

pytestmark = pytest.mark.usefixtures("one_operator")


@pytest.fixture(scope="module")
def first(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("first"), Container(f"kprotest-{os.getpid()}-first"))
    place.write()
    yield place
    place.remove()


@pytest.fixture
def fleet(first: Place, sshd: Sshd, tmp_path: Path) -> Iterator[tuple[Path, Place]]:
    """Two machines in one inventory: this one, and this one again as it is reached over SSH, with another guest."""
    second = Place(
        tmp_path,
        Container(f"kprotest-{os.getpid()}-second"),
        ssh=f"Ssh(**{sshd.ssh().model_dump()!r})",
    )
    second.write()
    yield tmp_path / "fleet.py", second
    second.remove()


def _write_fleet(path: Path, *places: Place) -> None:
    """One inventory from the places' own."""
    parts = ["from provision.spec import Engine, Fleet, Guest, Machine, Model, Service, Ssh"]
    for index, place in enumerate(places):
        body = place.inventory.read_text().split("machine = ", 1)[1].split("\nmetal, guests", 1)[0]
        parts.append(f"_m{index} = " + body.replace('name="box"', f'name="box{index or ""}"'))
    names = ", ".join(f"_m{index}" for index in range(len(places)))
    parts.append(f"fleet = Fleet(machines=({names},))\nmetal, guests = fleet.pyinfra_groups()\n")
    path.write_text("\n".join(parts))


def test_a_canary_that_fails_keeps_the_others_from_being_touched(
    first: Place, fleet: tuple[Path, Place]
) -> None:
    path, second = fleet
    first.write(flags=("--fault", "crash"))
    _write_fleet(path, first, second)
    done = first.provision("apply", str(path), "--yes")
    assert done.returncode == 1, done.stderr
    assert "the machines that are left were not touched" in done.stderr
    assert not (LXC / second.container.name).exists()


def test_all_machines_come_up_one_after_the_other(first: Place, fleet: tuple[Path, Place]) -> None:
    path, second = fleet
    first.write()
    _write_fleet(path, first, second)
    done = first.provision("apply", str(path), "--yes", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    assert first.answer().strip()
    assert second.answer().strip()
    assert len(json.loads(done.stdout)["runs"]) == 2


_BEHIND = """
from gevent import monkey; monkey.patch_all()
import json, sys
from pathlib import Path
from provision.plan import PHASES
from provision.run import runner

said = []
with runner.connected(Path(sys.argv[1]), phases=PHASES, reason="test", say=said.append) as run:
    run.plans()
    Path(sys.argv[2]).unlink()
    outcome = run.execute(runner.Progress(run.session, said.append))
print(json.dumps({"exit": outcome.exit_code, "changed": outcome.changed, "said": said}))
"""


def test_more_than_what_was_shown_is_not_done(first: Place) -> None:
    first.write()
    done = first.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    staged = first.container.rootfs / "etc/kpro/staged/kpro-tiny.service"
    done = first.run(sys.executable, "-c", _BEHIND, str(first.inventory), str(staged))
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["exit"] == 1
    assert outcome["changed"] == []
    assert "changed under us" in " ".join(outcome["said"])
    assert first.apply().returncode == 0
