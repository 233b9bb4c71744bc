"""A power cut in the middle of the release: the next run ends where an undisturbed one ends. ``undo.sh`` alone too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.full.metal import LOCKED, again, booted, cut, install, released
from tests.vm.place import FIRST, Metal

pytestmark = pytest.mark.usefixtures("one_operator")

LET_GO = f"[ ! -e /sys/bus/pci/devices/{FIRST}/driver ]"
HALF_AN_INITRAMFS = '[ -n "$(ls /boot/initrd.img-*.new 2>/dev/null)" ]'


@pytest.fixture(scope="module")
def metal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metal]:
    with booted(tmp_path_factory.mktemp("cuts")) as metal:
        yield metal


@pytest.fixture(scope="module")
def before(metal: Metal) -> dict[str, str]:
    return metal.configuration()


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, str]:
    """What the first test finds in /etc after a run that nothing disturbed."""
    return {}


def test_undisturbed_it_releases_both(
    metal: Metal, before: dict[str, str], undisturbed: dict[str, str]
) -> None:
    metal.write()
    assert metal.drivers() == LOCKED
    done = install(metal)
    assert done.returncode == 0, done.stderr[-5000:]
    released(metal)
    undisturbed.update(metal.configuration())
    assert undisturbed != before


def test_undo_without_a_controller_puts_all_back_for_good_and_twice_is_harmless(
    metal: Metal, before: dict[str, str]
) -> None:
    said = metal.sh("sh /var/lib/kpro/undo.sh", timeout=600)
    assert metal.drivers() == LOCKED, said
    assert metal.configuration() == before
    look = "stat -c '%n %Y' /boot/*; ls /lib/modules/*/updates /opt/kpro /dev/nvidia* 2>/dev/null; exit 0"
    there = metal.sh(look)
    assert "nvidia" not in there
    again = metal.sh("sh /var/lib/kpro/undo.sh", timeout=600)
    assert "making the initramfs" not in again
    assert metal.sh(look) == there
    metal.vm.reboot()
    assert metal.drivers() == LOCKED
    assert "vfio-pci.ids=" in metal.sh("cat /proc/cmdline")
    assert metal.configuration() == before


def test_a_power_cut_while_the_initramfs_is_made_leaves_the_old_one_to_boot(metal: Metal) -> None:
    metal.write()
    cut(metal, HALF_AN_INITRAMFS, "release.regenerate")
    assert metal.drivers() == LOCKED
    assert "vfio-pci.ids=" in metal.sh("cat /proc/cmdline")
    assert metal.sh("ls /var/lib/kpro/regenerate")


def test_cut_again_between_two_switches_the_next_run_ends_where_an_undisturbed_one_does(
    metal: Metal, undisturbed: dict[str, str]
) -> None:
    cut(metal, LET_GO, "release.online")
    assert "vfio" not in metal.sh("cat /proc/cmdline")
    done = install(metal)
    assert done.returncode == 0, done.stderr[-5000:]
    released(metal)
    assert metal.configuration() == undisturbed
    assert again(metal) == []
