"""The whole chain on a virtual host: locked by everything, released, answering, rebooted, rolled back.

The tests are one story and run in this order, on one machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.vm.place import FIRST, OWN, PORT, SECOND, Metal
from tests.vm.rig import FUNCTIONS

pytestmark = pytest.mark.usefixtures("one_operator")

LOCKED = dict.fromkeys(FUNCTIONS, "vfio-pci")
HOLDER = r"""
import fcntl, os, time
container = os.open('/dev/vfio/vfio', os.O_RDWR)
group = os.path.basename(os.readlink('/sys/bus/pci/devices/BDF/iommu_group'))
handle = os.open('/dev/vfio/' + group, os.O_RDWR)
import struct
fcntl.ioctl(handle, 0x3B68, struct.pack('i', container))
print('held', flush=True)
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def before(metal: Metal) -> dict[str, str]:
    """The configuration of the machine as it was found."""
    return metal.configuration()


@contextmanager
def held(metal: Metal, bdf: str) -> Iterator[str]:
    """Something has the group of a GPU open, as a running virtual machine has. Gives its pid."""
    metal.vm.ssh("cat >/root/holder.py", stdin=HOLDER.replace("BDF", bdf).encode())
    pid = metal.sh(
        "setsid python3 /root/holder.py >/root/held 2>&1 </dev/null & echo $!; "
        "until grep -q held /root/held; do kill -0 $! || exit 1; sleep 0.2; done"
    ).strip()
    yield pid
    metal.sh(
        f"kill {pid}; rm -f /root/holder.py /root/held; while kill -0 {pid} 2>/dev/null; do sleep 0.2; done"
    )


@pytest.fixture
def holder(metal: Metal) -> Iterator[str]:
    with held(metal, FIRST) as pid:
        yield pid


def test_a_live_vfio_user_is_named_and_both_gpus_stay(
    metal: Metal, before: dict[str, str], holder: str
) -> None:
    metal.write()
    done = metal.apply()
    assert done.returncode == 3, done.stderr[-3000:]
    assert holder in done.stderr
    assert "holder.py" in done.stderr
    assert metal.drivers() == LOCKED
    assert metal.configuration() == before


def test_one_command_takes_locked_gpus_to_an_answering_service(metal: Metal, before: dict[str, str]) -> None:
    metal.write()
    assert metal.drivers() == LOCKED
    plan = metal.plan()
    assert plan["exit"] == 10, plan["machines"][0]["refusals"]
    done = metal.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert metal.answer().strip()
    drivers = metal.drivers()
    assert drivers[FIRST] == drivers[SECOND] == "nvidia"
    assert "vfio-pci" not in drivers.values()
    assert metal.overrides() == {"(null)"}
    assert "535.261.03" in metal.sh("cat /proc/driver/nvidia/version")
    planned = {(item["kind"], item["subject"]) for item in plan["machines"][0]["items"]}
    did = {tuple(entry.split(" on ")[0].split(" ", 1)) for entry in metal.changed()}
    assert ("service.cutover", "tiny") in did
    assert did <= planned


def test_each_gpu_is_its_own_node_in_the_container(metal: Metal) -> None:
    minors = metal.sh("sed -n 's/^Device Minor:[[:space:]]*//p' /proc/driver/nvidia/gpus/*/information")
    assert sorted(minors.split()) == ["0", "1"]
    look = "stat -c '%n %t:%T %F' /dev/nvidia0 /dev/nvidia1 /dev/nvidiactl /dev/nvidia-uvm"
    assert metal.inside(look) == metal.sh(look)
    assert metal.inside(look).count("character special file") == 4
    version = metal.sh("cat /sys/module/nvidia/version").strip()
    libraries = metal.inside(
        "ldconfig -p | sed -n 's/^.* => //p' | grep libnvidia-ml.so.1 | xargs readlink -f"
    )
    assert libraries.strip().endswith(f"libnvidia-ml.so.{version}")


def test_a_second_run_changes_nothing(metal: Metal) -> None:
    look = "stat -c %Y /boot/initrd.img-* /boot/grub/grub.cfg"
    pid, made = metal.main_pid(), metal.sh(look)
    done = metal.provision("apply", str(metal.inventory), "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["changed"] == []
    assert (metal.main_pid(), metal.sh(look)) == (pid, made)


def test_it_is_still_so_after_a_reboot(metal: Metal) -> None:
    metal.vm.reboot()
    assert "vfio" not in metal.sh("cat /proc/cmdline")
    drivers = metal.drivers()
    assert drivers[FIRST] == drivers[SECOND] == "nvidia"
    assert metal.answer_soon().strip()
    done = metal.provision("apply", str(metal.inventory), "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["changed"] == []


BY_HAND = """\
env=$(echo /opt/kpro/envs/standin-*) model=$(ls -d /srv/models/kpro--*)
cat >/etc/systemd/system/by-hand.service <<END
[Service]
ExecStart=$env/bin/python -m kpro_standin --model $model --port 18499 --served-model-name hand
[Install]
WantedBy=multi-user.target
END
systemctl enable -q --now by-hand.service
until python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:18499/health")' 2>/dev/null; do
  systemctl -q is-active by-hand.service && sleep 1 || exit 1
done
"""


def test_a_service_set_up_by_hand_is_written_down_and_then_in_sync(metal: Metal) -> None:
    metal.inside(BY_HAND)
    found = metal.folder / "found.py"
    address = metal.vm.address
    way = ("--port", str(address.port), "--key", str(address.key), "--known-hosts", str(address.known_hosts))
    done = metal.provision("init", "root@127.0.0.1", *way, "--name", "found", "--output", str(found))
    assert done.returncode == 0, done.stderr[-3000:]
    text = found.read_text()
    for part in (
        "by-hand.service",
        "kpro-tiny.service",
        '"0000:01:00.0"',
        'route="prebuilt"',
        "decode_tok_s=",
    ):
        assert part in text, text
    same = metal.provision("plan", str(found), "--json")
    assert json.loads(same.stdout)["machines"][0]["refusals"] == []
    assert same.returncode == 0, same.stderr[-3000:]
    metal.inside("systemctl disable -q --now by-hand.service; rm /etc/systemd/system/by-hand.service")
    gone = metal.provision("plan", str(found))
    assert gone.returncode == 3
    assert "by-hand.service" in gone.stderr
    metal.inside("systemctl daemon-reload")


def test_a_gpu_goes_to_a_virtual_machine_and_comes_back_when_that_ended(metal: Metal) -> None:
    done = metal.provision("assign", str(metal.inventory), "02:00.0", "vm", "--yes")
    assert done.returncode == 0, done.stderr[-5000:]
    drivers = metal.drivers()
    assert (drivers[FIRST], drivers[SECOND], drivers[FUNCTIONS[3]]) == ("nvidia", "vfio-pci", "vfio-pci")
    with held(metal, SECOND) as pid:
        done = metal.provision("assign", str(metal.inventory), "02:00.0", "lxc", "--yes")
        assert (done.returncode, pid in done.stderr) == (3, True), done.stderr[-3000:]
        assert metal.drivers() == drivers
    done = metal.provision("assign", str(metal.inventory), "02:00.0", "lxc", "--yes")
    assert done.returncode == 0, done.stderr[-5000:]
    assert metal.drivers()[SECOND] == "nvidia"
    assert metal.overrides() == {"(null)"}
    assert metal.answer().strip()


OPEN = r"""
import errno, os, pwd
os.setgid(8100); os.setuid(8100)
for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
    try:
        os.close(os.open("/dev/" + name, os.O_RDWR))
        print(name, "opened")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"""


def test_an_unprivileged_container_uses_the_gpus_and_its_ids_are_nobodys(metal: Metal) -> None:
    """The emulated card answers an open with EIO; what must not be is that the kernel does not let the container in."""
    metal.write(unprivileged=True)
    done = metal.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert "REPLAYED (pass)" in done.stderr
    assert metal.answer(PORT + 1).strip()
    first = metal.inside("cat /proc/self/uid_map", OWN).split()[1]
    assert int(first) >= 100000
    assert f"root:{first}:65536" in metal.sh("cat /etc/subuid /etc/subgid")
    said = dict(line.split() for line in metal.inside(f"python3 - <<'END'{OPEN}END\n", OWN).splitlines())
    assert said["nvidiactl"] == said["nvidia-uvm"] == "opened"
    assert {said["nvidia0"], said["nvidia1"]} <= {"opened", "EIO"}
    assert metal.sh("stat -c %u /var/lib/lxc/kpro-vm-own/rootfs/etc/passwd").strip() == first
    again = metal.provision("apply", str(metal.inventory), "--json")
    assert json.loads(again.stdout)["changed"] == [], again.stderr[-3000:]


def test_a_node_that_others_may_not_open_is_closed_to_an_unprivileged_container(metal: Metal) -> None:
    metal.sh("chmod 600 /dev/nvidiactl")
    try:
        said = metal.inside(f"python3 - <<'END'{OPEN}END\n", OWN)
    finally:
        metal.sh("chmod 666 /dev/nvidiactl")
    assert "nvidiactl EACCES" in said


def test_an_honest_gate_stops_the_deploy_in_the_kernels_words(metal: Metal) -> None:
    pid = metal.main_pid()
    metal.write(replay=False, flags=("--tok-s", "40"))
    done = metal.apply()
    assert done.returncode == 1, done.stderr[-3000:]
    assert "RmInitAdapter failed!" in done.stderr
    assert metal.main_pid() == pid
    assert metal.answer().strip()


def test_rollback_brings_back_what_was_there_also_after_a_boot(metal: Metal, before: dict[str, str]) -> None:
    metal.write()
    done = metal.provision("rollback", str(metal.inventory), "--yes")
    assert done.returncode == 0, done.stderr[-5000:]
    assert metal.configuration() == before
    again = metal.provision("rollback", str(metal.inventory), "--yes")
    assert again.returncode == 0, again.stderr[-3000:]
    metal.vm.reboot()
    assert metal.drivers() == LOCKED
    assert "vfio-pci.ids=" in metal.sh("cat /proc/cmdline")
    assert metal.configuration() == before
