"""Driver day and kernel day on a machine that serves: another driver, one that does not load, a stranger.

The tests are one story and run in this order, on one machine.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.testhost.vm.image import Image
from tests.vm import packages
from tests.vm.place import CONTAINER, FIRST, SECOND, Metal

pytestmark = pytest.mark.usefixtures("one_operator")

OLD, NEW = ("535.261.03", "open"), ("535.309.01", "proprietary")

# As NVIDIA's daemon does: it has the driver open and serves nobody.
_DAEMON = """[Unit]
After=kpro-devices.service
[Service]
ExecStart=/bin/sh -c 'exec 3</dev/nvidiactl; exec sleep infinity'
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture(scope="module")
def other(vm_image: Image) -> Path:
    """The archive of the second driver, for the kernel that runs."""
    return packages.driver(*NEW, vm_image.kernel)


@pytest.fixture
def offered(home: Path, prebuilt: Path) -> Iterator[Path]:
    """The archives that the operator has: only those that a test puts there."""
    folder = home / "cache" / "kpro" / "prebuilt"
    folder.unlink()
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)
    folder.symlink_to(prebuilt)


@pytest.fixture(scope="module")
def daemon(metal: Metal) -> None:
    metal.vm.ssh("cat >/etc/systemd/system/nvidia-persistenced.service", stdin=_DAEMON.encode())
    metal.sh("systemctl daemon-reload && systemctl enable -q --now nvidia-persistenced.service")


def loaded(metal: Metal) -> tuple[str, str]:
    line = metal.sh("head -n 1 /proc/driver/nvidia/version")
    version = next(word for word in line.split() if word[:3].isdecimal())
    return version, "open" if "Open Kernel Module" in line else "proprietary"


def led_to(metal: Metal) -> str:
    """The version of the library that a program in the container gets."""
    script = "ldconfig -p | sed -n 's/^.* => //p' | grep libnvidia-ml.so.1 | xargs readlink -f"
    return metal.inside(script).strip().rpartition(".so.")[2]


def in_service(metal: Metal, driver: tuple[str, str]) -> None:
    assert metal.answer_soon(180).strip()
    assert loaded(metal) == driver
    assert led_to(metal) == driver[0]
    bound = metal.drivers()
    assert bound[FIRST] == bound[SECOND] == "nvidia"
    look = "stat -c '%n %t:%T %F' /dev/nvidia0 /dev/nvidia1 /dev/nvidiactl /dev/nvidia-uvm"
    assert metal.inside(look) == metal.sh(look)
    assert metal.sh("systemctl is-active nvidia-persistenced.service").strip() == "active"


def test_a_machine_serves_with_the_first_driver(metal: Metal) -> None:
    metal.write()
    done = metal.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert metal.answer().strip()
    assert loaded(metal) == OLD


def test_a_stranger_is_named_and_nobody_is_stopped(metal: Metal, daemon: None, other: Path) -> None:
    pid = metal.sh("setsid sh -c 'exec 3</dev/nvidiactl; exec sleep 5000' >/dev/null 2>&1 & echo $!").strip()
    metal.write(driver=NEW[0], flavour=NEW[1])
    plan = metal.plan()["machines"][0]
    metal.sh(f"kill {pid}")
    assert plan["refusals"] == []
    (reboot,) = [item for item in plan["items"] if item["kind"] == "reboot"]
    assert f"process {pid} (sleep 5000)" in reboot["text"]
    assert not {"guests.stop", "driver.load"} & {item["kind"] for item in plan["items"]}


def test_a_driver_that_does_not_load_gives_way_to_the_old_one_and_the_service_answers(
    metal: Metal, offered: Path, other: Path, vm_image: Image, tmp_path: Path
) -> None:
    packages.of_another_build(other, offered / other.name, tmp_path)
    metal.write(driver=NEW[0], flavour=NEW[1])
    done = metal.apply()
    assert done.returncode == 1, done.stderr[-5000:]
    assert "disagrees about version of symbol" in done.stderr
    assert "the way back is whole" in done.stderr
    in_service(metal, OLD)
    metal.write()
    again = metal.provision("apply", str(metal.inventory), "--json")
    assert again.returncode == 0, again.stderr[-3000:]
    assert json.loads(again.stdout)["changed"] == []


def test_another_driver_takes_over_and_the_service_answers(metal: Metal, other: Path) -> None:
    holder = "setsid sh -c 'exec 3</dev/nvidiactl; exec sleep 5000' >/dev/null 2>&1 &"
    metal.inside(holder)
    metal.write(driver=NEW[0], flavour=NEW[1])
    plan = metal.plan()["machines"][0]
    (stop,) = [item for item in plan["items"] if item["kind"] == "guests.stop"]
    assert (
        f"stop container {CONTAINER}: kpro-tiny.service is down while driver {OLD[0]} (open)" in stop["text"]
    )
    done = metal.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    in_service(metal, NEW)
    planned = {(item["kind"], item["subject"]) for item in plan["items"]}
    assert {tuple(entry.split(" on ")[0].split(" ", 1)) for entry in metal.changed()} <= planned
    again = metal.provision("apply", str(metal.inventory), "--json")
    assert again.returncode == 0, again.stderr[-3000:]
    assert json.loads(again.stdout)["changed"] == []


def defaults(metal: Metal) -> str:
    return metal.sh("sed -n 's/^ *set default=//p' /boot/grub/grub.cfg")


@pytest.fixture(scope="module")
def arrived(metal: Metal, vm_image: Image) -> str:
    """A kernel that was installed beside the running one, as unattended upgrades do; GRUB takes it for the newest."""
    release = packages.arriving(vm_image.kernel)
    metal.vm.ssh("cat >/root/kernel.deb", stdin=packages.kernel(release).read_bytes(), timeout=600)
    metal.sh("dpkg -i --force-unsafe-io /root/kernel.deb >&2 && rm /root/kernel.deb", timeout=1200)
    return release
