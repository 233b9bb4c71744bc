"""GPUs with faults that real ones have: each is named with its cause, and nothing else is harmed.

The tests are one story and run in this order; faults come with a boot, as they do.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.full.metal import FALLEN, LOCKED, NO_GSP, WHOLE, booted, install
from tests.vm.place import FIRST, SECOND, Metal

THIRD = "0000:03:00.0"
pytestmark = pytest.mark.usefixtures("one_operator")


@pytest.fixture(scope="module")
def metal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metal]:
    with booted(tmp_path_factory.mktemp("faults"), gpus=(WHOLE, NO_GSP, FALLEN)) as metal:
        metal.write(gpus=("01:00.0", "02:00.0", "03:00.0"), gpu_count=3)
        yield metal


@pytest.fixture(scope="module")
def before(metal: Metal) -> dict[str, str]:
    return metal.configuration()


def as_before(metal: Metal, before: dict[str, str]) -> None:
    """GPUs, files, modules and the driver's files are as if nothing had run; the boot too (see the last test)."""
    assert metal.drivers() == LOCKED
    assert metal.sh(f"readlink /sys/bus/pci/devices/{THIRD}/driver").endswith("/vfio-pci\n")
    assert metal.configuration() == before
    left = "ls -d /sys/module/nvidia* /dev/nvidia* /opt/kpro/driver /lib/modules/*/updates/kpro 2>/dev/null; exit 0"
    assert metal.sh(left) == ""
    assert metal.sh("ls /var/lib/kpro/regenerate /boot/*.new 2>/dev/null; exit 0") == ""
    assert "vfio-pci.ids=" in metal.sh("grep linux /boot/grub/grub.cfg")


def test_gpus_that_the_driver_refuses_are_named_each_with_its_cause_and_all_is_taken_back(
    metal: Metal, before: dict[str, str]
) -> None:
    done = install(metal)
    assert done.returncode == 1, done.stderr[-5000:]
    refused = {
        line.split()[0]: line for line in done.stderr.splitlines() if "was not taken by nvidia" in line
    }
    assert set(refused) == {SECOND, THIRD}
    assert "GPU System Processor (GSP)" in refused[SECOND]
    assert "flavour='proprietary'" in refused[SECOND]
    assert "fallen off the bus" not in refused[SECOND]
    assert "fallen off the bus" in refused[THIRD]
    assert "Next: switch the host off and on" in refused[THIRD]
    assert "System Processor" not in refused[THIRD]
    assert f"{FIRST}: bound and unharmed" in done.stderr
    assert "taking back what this run changed" in done.stderr
    assert "the way back is whole" in done.stderr
    as_before(metal, before)


def test_a_gpu_that_is_gone_from_the_bus_is_refused_before_anything_is_touched(
    metal: Metal, before: dict[str, str]
) -> None:
    metal.vm.end_gpu(1)
    plan = metal.plan("--phases", "install")
    assert plan["exit"] == 3
    done = install(metal)
    assert done.returncode == 3, done.stderr[-5000:]
    assert f"GPU {SECOND}" in done.stderr
    assert "its configuration space reads ff" in done.stderr
    assert "switch the machine off and on" in done.stderr
    assert f"GPU {FIRST}" not in done.stderr
    as_before(metal, before)


def test_after_all_that_the_machine_boots_as_it_always_did(metal: Metal, before: dict[str, str]) -> None:
    metal.vm.power_cut()
    metal.vm.gpus = (WHOLE, WHOLE, WHOLE)
    metal.vm.boot()
    as_before(metal, before)
    assert "vfio-pci.ids=" in metal.sh("cat /proc/cmdline")
