"""One GPU is released, the other stays with virtual machines: all the time, and after a boot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.full.metal import LOCKED, again, booted, install
from tests.vm.place import FIRST, SECOND, Metal

pytestmark = pytest.mark.usefixtures("one_operator")

KEPT = (SECOND, "0000:02:00.1")


@pytest.fixture(scope="module")
def metal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metal]:
    with booted(tmp_path_factory.mktemp("kept")) as metal:
        yield metal


def kept_and_released(metal: Metal) -> None:
    drivers = metal.drivers()
    assert drivers[FIRST] == "nvidia", drivers
    assert [drivers[bdf] for bdf in KEPT] == ["vfio-pci", "vfio-pci"], drivers
    assert drivers["0000:01:00.1"] != "vfio-pci"
    nodes = set(metal.sh("ls /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm").split())
    assert nodes == {"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}


def test_a_gpu_that_is_kept_never_leaves_vfio_pci_while_the_other_is_released(metal: Metal) -> None:
    metal.write(gpus=("01:00.0",), gpu_count=2)
    metal.sh(
        "setsid udevadm monitor --kernel --subsystem-match=pci >/root/events 2>&1 </dev/null & "
        "until grep -q KERNEL /root/events; do sleep 0.1; done"
    )
    done = install(metal)
    assert done.returncode == 0, done.stderr[-5000:]
    kept_and_released(metal)
    events = metal.sh("cat /root/events")
    assert " unbind " in events
    assert [line for line in events.splitlines() if "/0000:02:00." in line] == []
    assert again(metal) == []


def test_it_is_kept_by_place_and_the_other_released_after_a_boot_too(metal: Metal) -> None:
    metal.vm.reboot()
    kept_and_released(metal)
    assert again(metal) == []


def test_undo_alone_gives_the_released_one_back_and_leaves_the_kept_one(metal: Metal) -> None:
    said = metal.sh("sh /var/lib/kpro/undo.sh", timeout=600)
    assert metal.drivers() == LOCKED, said
    metal.vm.reboot()
    assert metal.drivers() == LOCKED
