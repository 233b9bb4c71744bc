"""A lock is taken over from a controller that is dead for certain, and from nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from provision.run.lock import Owner, _is_dead


@pytest.fixture
def here() -> Owner:
    return Owner.here("20261130T120000Z-a1b2c3", "migrate kpro6 kpro5")


def ended_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(30)
    return done.pid


def test_a_controller_that_ended_on_this_computer_holds_nothing(here: Owner) -> None:
    assert _is_dead(replace(here, pid=ended_pid()).line(), here)


def test_this_very_process_may_take_its_lock_over_a_new_connection(here: Owner) -> None:
    assert _is_dead(replace(here, pid=os.getpid()).line(), here)


def test_a_controller_that_lives_keeps_its_lock(here: Owner) -> None:
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not _is_dead(replace(here, pid=living.pid).line(), here)
    finally:
        living.communicate(b"\n", timeout=30)


@pytest.mark.parametrize("field", ["owner", "place"])
def test_a_pid_of_another_computer_boot_or_container_says_nothing(here: Owner, field: str) -> None:
    other = replace(here, pid=ended_pid(), **{field: "elsewhere"})  # type: ignore[arg-type]
    assert not _is_dead(other.line(), here)


def test_a_line_of_an_older_version_or_a_torn_one_is_believed_to_live(here: Owner) -> None:
    old = asdict(replace(here, pid=ended_pid()))
    del old["place"]
    for line in (json.dumps(old), here.line()[:20], "", "{}"):
        assert not _is_dead(line, here)


def test_a_controller_that_cannot_tell_its_place_takes_nothing_over(here: Owner) -> None:
    nowhere = replace(here, place="", pid=ended_pid())
    assert not _is_dead(nowhere.line(), nowhere)
