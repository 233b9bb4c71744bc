"""A kernel arrives on a machine that serves, gets its driver, is booted: in sync. Compiles for a second kernel."""

from __future__ import annotations

import json

import pytest

from tests.vm import packages
from tests.vm.conftest import metal
from tests.vm.place import Metal
from tests.vm.test_driver_day import OLD, arrived, daemon, defaults, in_service

__all__ = ["arrived", "daemon", "metal"]

pytestmark = pytest.mark.usefixtures("one_operator")


def test_a_machine_serves(metal: Metal) -> None:
    metal.write()
    done = metal.apply()
    assert done.returncode == 0, done.stderr[-5000:]


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
