"""What else holds a GPU, or does not: a leftover override, sound on its own driver, nouveau that came first, a kernel
that was booted so that it refuses the driver. One story on one machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provision.testhost.vm.pile import PILES
from provision.testhost.vm.recipe import Recipe
from tests.full.metal import again, booted, install, released
from tests.vm.place import FIRST, SECOND, Metal

pytestmark = pytest.mark.usefixtures("one_operator")

AUDIO = ("0000:01:00.1", "0000:02:00.1")


@pytest.fixture(scope="module")
def metal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metal]:
    with booted(tmp_path_factory.mktemp("leftovers"), Recipe(pile=PILES["none"])) as metal:
        metal.write()
        yield metal


def test_sound_stays_where_it_is_and_overrides_and_nouveau_go(metal: Metal) -> None:
    """The emulated GPU is one that nouveau recognises and then fails on: the module is there, bound to none."""
    assert [metal.drivers()[bdf] for bdf in AUDIO] == ["snd_hda_intel", "snd_hda_intel"]
    assert "nouveau" in metal.sh("ls /sys/module")
    metal.sh(f"echo vfio-pci >/sys/bus/pci/devices/{FIRST}/driver_override")
    metal.sh("setsid udevadm monitor --kernel --subsystem-match=pci >/root/events 2>&1 </dev/null & sleep 1")
    done = install(metal)
    assert done.returncode == 0, done.stderr[-5000:]
    released(metal)
    assert [metal.drivers()[bdf] for bdf in AUDIO] == ["snd_hda_intel", "snd_hda_intel"]
    events = metal.sh("cat /root/events").splitlines()
    assert [line for line in events if "00.1 " in line and "bind" in line] == []
    assert "nouveau" not in metal.sh("ls /sys/module").split()
    assert again(metal) == []


def test_it_is_so_after_a_boot_and_nouveau_does_not_come_back(metal: Metal) -> None:
    metal.vm.reboot()
    released(metal)
    assert [metal.drivers()[bdf] for bdf in AUDIO] == ["snd_hda_intel", "snd_hda_intel"]
    assert "nouveau" not in metal.sh("dmesg")
    assert again(metal) == []


def test_one_that_a_virtual_machine_left_on_vfio_pci_without_any_file_is_released(metal: Metal) -> None:
    """As libvirt does for a moment: bound by an override alone, which stays behind."""
    metal.sh(
        f"modprobe vfio-pci; cd /sys/bus/pci/devices/{SECOND}; echo {SECOND} >driver/unbind; "
        f"echo vfio-pci >driver_override; echo {SECOND} >/sys/bus/pci/drivers_probe"
    )
    assert metal.drivers()[SECOND] == "vfio-pci"
    done = install(metal)
    assert done.returncode == 0, done.stderr[-5000:]
    released(metal)
    assert again(metal) == []


def test_a_reboot_that_is_needed_waits_for_permission_and_then_finishes_the_job(metal: Metal) -> None:
    blacklist = """sed -i 's/^GRUB_CMDLINE_LINUX="/&module_blacklist=nvidia /' /etc/default/grub"""
    metal.sh(f"{blacklist} && update-grub && sync", timeout=300)
    metal.vm.reboot()
    boot = metal.vm.boot_id()
    assert (metal.drivers()[FIRST], metal.drivers()[SECOND]) == ("", "")
    metal.write(reboot="refused")
    done = install(metal)
    assert done.returncode == 10, done.stderr[-5000:]
    assert "the kernel was booted with module_blacklist=nvidia" in done.stderr
    assert "run again with --reboot" in done.stderr
    assert metal.vm.boot_id() == boot
    assert (metal.drivers()[FIRST], metal.drivers()[SECOND]) == ("", "")
    done = install(metal, "--reboot")
    assert done.returncode == 0, done.stderr[-5000:]
    assert metal.vm.boot_id() != boot
    assert "module_blacklist" not in metal.sh("cat /proc/cmdline")
    released(metal)
    assert [metal.drivers()[bdf] for bdf in AUDIO] == ["snd_hda_intel", "snd_hda_intel"]
    assert metal.sh("ls /etc/systemd/system | grep -c -e kpro-confirm -e kpro-undo; exit 0") == "0\n"
    assert again(metal) == []
