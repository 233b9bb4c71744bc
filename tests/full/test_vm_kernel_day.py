"""A kernel arrives on a machine that serves, gets its driver, is booted: in sync. Compiles for a second kernel."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from provision.testhost.vm.image import Image
from tests.vm import packages, test_driver_day
from tests.vm.conftest import metal
from tests.vm.place import Metal
from tests.vm.test_driver_day import OLD, arrived, daemon, defaults, in_service, offered, other

__all__ = ["arrived", "daemon", "metal", "offered", "other"]

pytestmark = pytest.mark.usefixtures("one_operator")


def test_the_shorter_story_comes_first(
    metal: Metal, vm_image: Image, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    test_driver_day.test_a_machine_serves_with_the_first_driver(metal)
    archive = request.getfixturevalue("other")
    test_driver_day.test_a_stranger_is_named_and_nobody_is_stopped(
        metal, request.getfixturevalue("daemon"), archive
    )
    test_driver_day.test_a_driver_that_does_not_load_gives_way_to_the_old_one_and_the_service_answers(
        metal, request.getfixturevalue("offered"), archive, vm_image, tmp_path
    )


def test_another_driver_takes_over(metal: Metal, other: Path) -> None:
    test_driver_day.test_another_driver_takes_over_and_the_service_answers(metal, other)


def test_a_controller_that_dies_half_way_leaves_what_the_next_apply_completes(metal: Metal) -> None:
    metal.write()
    applying = metal.start_apply()
    until = time.monotonic() + 300
    while not [
        event for event in metal.events() if (event["event"], event.get("kind")) == ("done", "guests.stop")
    ][1:]:
        assert time.monotonic() < until
        assert applying.poll() is None
        time.sleep(0.2)
    os.killpg(applying.pid, signal.SIGKILL)
    applying.wait()
    done = metal.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    in_service(metal, OLD)


def test_a_kernel_that_no_driver_can_be_had_for_is_not_booted(
    metal: Metal, offered: Path, vm_image: Image, arrived: str
) -> None:
    metal.write()
    plan = metal.plan()["machines"][0]
    assert [item["kind"] for item in plan["items"]] == ["kernel.hold"]
    assert any(
        f"kernel {arrived} is not booted yet" in note and "build-driver" in note for note in plan["notes"]
    )
    done = metal.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert f">gnulinux-{vm_image.kernel}-advanced-" in defaults(metal)
    assert metal.plan()["exit"] == 0
    assert metal.answer().strip()


def test_a_kernel_that_arrives_gets_its_driver_before_it_boots_and_all_is_in_sync(
    metal: Metal,
    arrived: str,
    daemon: None,
) -> None:
    packages.driver(*OLD, arrived)
    metal.write()
    done = metal.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert "gnulinux-" not in defaults(metal)
    assert metal.sh(f"modinfo -k {arrived} -F version nvidia").strip() == OLD[0]
    metal.vm.reboot()
    assert metal.sh("uname -r").strip() == arrived
    in_service(metal, OLD)
    again = metal.provision("apply", str(metal.inventory), "--json")
    assert again.returncode == 0, again.stderr[-3000:]
    assert json.loads(again.stdout)["changed"] == []
