"""The controller is killed (-9) once in every step; each restart goes on from there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guest.place import Place
from tests.guest.rig import LXC, Container

STEPS = [
    ("operation", "1 inspect"),
    ("begin", "container.create"),
    ("begin", "container.start"),
    ("begin", "stack.base"),
    ("begin", "stack.provcheck"),
    ("begin", "stack.uv"),
    ("begin", "stack.engine"),
    ("begin", "stack.model"),
    ("begin", "stack.stage"),
    ("operation", "9 gate"),
    ("begin", "service.cutover"),
    ("operation", "10 service: generates"),
]
"""Where the controller dies: as soon as the journal says that the step began."""

DELAYS = [float(text) for text in os.environ.get("KPRO_KILL_DELAYS", "0.1").split(",")]
"""Seconds between the beginning of a step and the kill; the long tests use several."""


pytestmark = pytest.mark.usefixtures("one_operator")


@pytest.fixture(scope="module")
def places(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    """One that is killed and one that is not."""
    made = tuple(
        Place(tmp_path_factory.mktemp(name), Container(f"kprotest-{os.getpid()}-{name}"))
        for name in ("killed", "whole")
    )
    for place in made:
        place.write()
    yield made[0], made[1]
    for place in made:
        place.remove()


@pytest.mark.parametrize("delay", DELAYS)
def test_a_controller_killed_in_every_step_ends_where_an_undisturbed_run_ends(
    places: tuple[Place, Place], delay: float
) -> None:
    killed, whole = places
    killed.remove()
    died_in = []
    for event, name in STEPS:
        before = _count(killed, event, name)
        process = killed.start_apply()
        reached = killed.wait_for(
            lambda seen, event=event, name=name: _is(seen, event, name),  # type: ignore[misc]
            process,
            before + 1,
        )
        if reached:
            time.sleep(delay)
            if process.poll() is None:
                killed.kill(process)
                died_in.append(name)
        process.wait(240)
        log = (killed.folder / "apply.log").read_text()
        assert "Traceback" not in log, log
        assert "is locked by" not in log, log
    # A short step may be over, or carried out by what outlived the last controller, before it can be killed in.
    assert len(died_in) >= len(STEPS) - 3, died_in

    done = killed.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert killed.answer().strip()
    if not (LXC / whole.container.name).exists():
        undisturbed = whole.apply()
        assert undisturbed.returncode == 0, undisturbed.stderr[-3000:]
    assert killed.leftovers() == []
    assert _comparable(killed) == _comparable(whole)
    again = killed.apply()
    assert "0 changed" in again.stderr


def _is(seen: dict[str, object], event: str, name: str) -> bool:
    return seen.get("event") == event and name in (seen.get("kind"), seen.get("name"))


def _count(place: Place, event: str, name: str) -> int:
    return sum(_is(seen, event, name) for seen in place.events())


def _comparable(place: Place) -> dict[str, str]:
    """Digests, without those of files that name the place's own port, and thereby their own digest. What was measured
    differs from run to run."""
    return {
        path: ""
        if path.startswith(("/etc/systemd/system/kpro-", "/etc/kpro/staged/", "/var/lib/kpro/good/"))
        else digest
        for path, digest in place.digests().items()
        if not path.startswith(("/var/lib/kpro/trials/", "/var/lib/kpro/baselines/"))
    }


def test_the_lock_of_a_dead_controller_does_not_block(places: tuple[Place, Place]) -> None:
    killed, _ = places
    process = killed.start_apply()
    before = _count(killed, "operation", "1 inspect")
    killed.wait_for(lambda seen: _is(seen, "operation", "1 inspect"), process, max(1, before))
    killed.kill(process)
    assert Path("/run/kpro/lock").exists()
    done = killed.apply()
    assert done.returncode == 0, done.stderr[-2000:]
