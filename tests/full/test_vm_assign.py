"""A GPU is handed over to a virtual machine and taken back on a live host, while the other one serves.

The tests are one story and run in this order, on one machine.
"""

from __future__ import annotations

import json

import pytest

from provision.testhost.vm.host import VirtualHost
from tests.full.pair import DOUBLE, Pair
from tests.vm.place import FIRST, PORT, SECOND
from tests.vm.rig import FUNCTIONS

pytestmark = pytest.mark.usefixtures("one_operator")

LOCKED = dict.fromkeys(FUNCTIONS, "vfio-pci")
AUDIO = FUNCTIONS[3]
MADE = "stat -c %Y /boot/initrd.img-* /boot/grub/grub.cfg"


@pytest.fixture(scope="module")
def pair(vm: VirtualHost, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp("pair"), vm)


@pytest.fixture(scope="module")
def before(pair: Pair) -> dict[str, str]:
    """The configuration of the machine as it was found."""
    pair.install_proxmox()
    return pair.configuration()


def test_two_gpus_serve_in_two_containers(pair: Pair, before: dict[str, str]) -> None:
    pair.write_pair()
    done = pair.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert pair.answer().strip()
    assert pair.answer(PORT + 1).strip()


def test_without_leave_nothing_is_handed_over(pair: Pair) -> None:
    done = pair.provision("assign", str(pair.inventory), "02:00.0", "vm")
    assert done.returncode == 2, done.stderr[-3000:]
    assert "run it again with --yes" in done.stderr
    assert pair.drivers()[SECOND] == "nvidia"
    assert pair.answer(PORT + 1).strip()


def test_a_gpu_goes_to_vfio_pci_and_the_other_container_answers_all_the_time(pair: Pair) -> None:
    pid = pair.main_pid("one")
    done = pair.assign("vm", "--vmid", "130")
    assert done.returncode == 0, done.stderr[-5000:]
    assert pair.hostpci() == ["hostpci0: 0000:02:00,pcie=1"]
    drivers = pair.drivers()
    assert (drivers[FIRST], drivers[SECOND], drivers[AUDIO]) == ("nvidia", "vfio-pci", "vfio-pci")
    assert pair.state("two") == "STOPPED"
    assert (pair.main_pid("one"), bool(pair.answer().strip())) == (pid, True)
    assert "gpus=[], and its services" in done.stderr


def test_it_is_handed_over_once(pair: Pair) -> None:
    made = pair.sh(MADE)
    done = pair.assign("vm", "--vmid", "130", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["changed"] == []
    applied = pair.provision("apply", str(pair.inventory), "--json")
    assert applied.returncode == 0, applied.stderr[-3000:]
    assert json.loads(applied.stdout)["changed"] == []
    assert "02:00.0 is assigned to virtual machines" in json.dumps(json.loads(applied.stdout)["machines"])
    assert pair.sh(MADE) == made


def test_a_boot_leaves_it_with_virtual_machines(pair: Pair) -> None:
    pair.vm.reboot()
    assert pair.answer_soon().strip()
    drivers = pair.drivers()
    assert (drivers[FIRST], drivers[SECOND], drivers[AUDIO]) == ("nvidia", "vfio-pci", "vfio-pci")
    assert pair.state("two") == "STOPPED"
    assert "vfio-pci" not in pair.sh(f"cat /sys/bus/pci/devices/{FIRST}/driver_override")


def test_a_virtual_machine_takes_it_and_while_it_runs_nothing_is_taken_back(pair: Pair) -> None:
    pair.sh("qm start 130")
    pid = pair.sh(f"cat {DOUBLE}/vm/130").strip()
    state = pair.sh("sha256sum /var/lib/kpro/assigned.json /etc/udev/rules.d/10-kpro-vfio.rules")
    done = pair.assign("lxc")
    assert done.returncode == 3, done.stderr[-3000:]
    assert pid in done.stderr
    assert "vm-program" in done.stderr
    assert "virtual machine 130 (workstation) is running and has it" in done.stderr
    assert pair.hostpci() == ["hostpci0: 0000:02:00,pcie=1"]
    assert pair.drivers()[SECOND] == "vfio-pci"
    assert pair.sh("sha256sum /var/lib/kpro/assigned.json /etc/udev/rules.d/10-kpro-vfio.rules") == state
    assert pair.answer().strip()
    pair.sh("qm stop 130")


def test_it_comes_back_and_its_container_answers_again(pair: Pair) -> None:
    pid = pair.main_pid("one")
    done = pair.assign("lxc")
    assert done.returncode == 0, done.stderr[-5000:]
    drivers = pair.drivers()
    assert drivers[FIRST] == drivers[SECOND] == "nvidia"
    assert pair.hostpci() == []
    assert pair.overrides() == {"(null)"}, "left behind it would keep the next virtual machine from starting"
    assert pair.answer(PORT + 1).strip()
    assert (pair.main_pid("one"), bool(pair.answer().strip())) == (pid, True)
    again = pair.assign("lxc", "--json")
    assert json.loads(again.stdout)["changed"] == []


def test_a_hand_over_that_fails_takes_back_its_own_run(pair: Pair) -> None:
    """vfio-pci cannot be loaded: the container that was stopped for it serves again, and no file is left."""
    files = pair.configuration()
    pair.sh(
        "rmmod vfio_pci; mkdir -p /run/modprobe.d; echo 'install vfio-pci /bin/false' >/run/modprobe.d/no.conf"
    )
    done = pair.assign("vm")
    assert done.returncode == 1, done.stderr[-3000:]
    assert "vfio-pci cannot be loaded" in done.stderr
    pair.sh("rm /run/modprobe.d/no.conf")
    assert pair.drivers()[SECOND] == "nvidia"
    assert pair.configuration() == files
    assert pair.sh("cat /var/lib/kpro/assigned.json 2>/dev/null; exit 0").count("0000:02") == 0
    assert pair.answer_soon(port=PORT + 1).strip()


def test_rollback_after_a_hand_over_brings_back_what_was_there(pair: Pair, before: dict[str, str]) -> None:
    done = pair.assign("vm", "--vmid", "130")
    assert done.returncode == 0, done.stderr[-5000:]
    done = pair.provision("rollback", str(pair.inventory), "--yes")
    assert done.returncode == 0, done.stderr[-5000:]
    assert pair.configuration() == before
    assert pair.drivers() == LOCKED
    assert pair.sh("ls /var/lib/kpro/assigned.json 2>/dev/null; exit 0") == ""
