"""A virtual host whose two GPUs serve in a container each, and what a virtual machine does to one of them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from provision.data import demo
from provision.testhost import demo_files
from tests.conftest import ROOT
from tests.vm.place import PORT, Metal

DOUBLE = "/var/lib/proxmox-double"
VM = "/etc/pve/nodes/pve/qemu-server/130.conf"
ONE, TWO = "kpro-vm-one", "kpro-vm-two"
CONTAINERS = {"one": ONE, "two": TWO}

_INVENTORY = """\
from provision.spec import Driver, Engine, Gpu, Guest, Machine, Model, Service, Ssh

machine = Machine(
    name="box",
    ssh=Ssh(host="127.0.0.1", port={ssh_port}, user="root", key={key!r}, known_hosts={known_hosts!r}),
    reboot="allowed",
    gpus=[Gpu(bdf="01:00.0", model="RTX A6000"), Gpu(bdf="02:00.0", model="RTX A6000")],
    gpu_count=2,
    driver=Driver(version={driver!r}, flavour="open", route="prebuilt"),
    guests=[
        Guest(
            name=name,
            backend="lxc",
            id=id,
            gpus=[bdf],
            services=[
                Service(
                    name="tiny",
                    engine=Engine(kind="standin", version="1.0.0", source="wheel", wheelhouse={wheels!r}),
                    model=Model(repo="kpro/tiny", revision={revision!r}, folder={model!r}),
                    port=port,
                    ready_seconds=300,
                    replay=replay,
                )
            ],
        )
        for name, id, bdf, port, replay in {guests!r}
    ],
)
metal, guests = machine.pyinfra_groups()
"""

# What qemu does with a device: its group opened, put into a container with an IOMMU, and the device taken from it.
_VM = r"""#!/usr/bin/python3
import fcntl, os, struct, sys, time
id, bdf = sys.argv[1:3]
container = os.open('/dev/vfio/vfio', os.O_RDWR)
group = os.path.basename(os.readlink(f'/sys/bus/pci/devices/{bdf}/iommu_group'))
handle = os.open('/dev/vfio/' + group, os.O_RDWR)
viable = bytearray(struct.pack('II', 8, 0))
fcntl.ioctl(handle, 0x3B67, viable)
assert struct.unpack('II', viable)[1] & 1, 'the group is not viable'
fcntl.ioctl(handle, 0x3B68, struct.pack('i', container))
fcntl.ioctl(container, 0x3B66, 3)
device = fcntl.ioctl(handle, 0x3B6A, bdf.encode() + b'\0')
print('held', device, flush=True)
time.sleep(36000)
"""


def record(bdf: str) -> dict[str, Any]:
    """The demonstration's record of two well GPUs, as a container that is given one of them sees it."""
    whole: dict[str, Any] = json.loads(demo.record().read_text())
    other = {"01": "02", "02": "01"}[bdf[:2]]
    whole["sections"] = [one for one in whole["sections"] if f"0000:{other}:00." not in one["path"]]
    for one in whole["sections"]:
        if one["kind"] == "dir":
            lines = base64.b64decode(one["b64"]).decode().splitlines()
            kept = "".join(f"{line}\n" for line in lines if not line.startswith(f"0000:{other}:"))
            one["b64"] = base64.b64encode(kept.encode()).decode()
    devices = [one for one in whole["nvml"]["devices"] if f"{bdf}" in json.dumps(one).lower()]
    assert len(devices) == 1
    whole["nvml"] |= {"nvmlDeviceGetCount": 1, "devices": devices}
    return whole


@dataclass
class Pair(Metal):
    """The operator of such a host."""

    def write_pair(self) -> None:
        files = self.folder / "files"
        demo_files.prepare(files)
        guests = []
        for at, (name, id) in enumerate(CONTAINERS.items()):
            bdf = f"{at + 1:02}:00.0"
            replay = self.folder / f"{name}.json"
            replay.write_text(json.dumps(record(bdf)))
            guests.append((name, id, bdf, PORT + at, str(replay)))
        address = self.vm.address
        self.inventory.write_text(
            _INVENTORY.format(
                ssh_port=address.port,
                key=str(address.key),
                known_hosts=str(address.known_hosts),
                driver=demo.DRIVER,
                wheels=str(demo_files.wheel_folder(files)),
                revision=demo_files.DEMO_REVISION,
                model=str(demo_files.model_folder(files)),
                guests=guests,
            )
        )

    def assign(self, to: str, *words: str) -> Any:
        return self.provision("assign", str(self.inventory), "02:00.0", to, "--yes", *words)

    def main_pid(self, name: str = "one") -> str:
        return self.sh(
            f"lxc-attach -n {CONTAINERS[name]} -- systemctl show -p MainPID --value kpro-tiny.service"
        ).strip()

    def state(self, name: str) -> str:
        return self.sh(f"lxc-info -n {CONTAINERS[name]} -sH").strip()

    def install_proxmox(self) -> None:
        """The double of ``qm`` on a node called pve, with VM 130, whose process takes its devices as qemu does."""
        self.sh(
            f"mkdir -p {DOUBLE} /etc/pve/nodes/pve/qemu-server && ln -sfn nodes/pve /etc/pve/local && "
            f"ln -sfn /etc/pve {DOUBLE}/pve && echo {DOUBLE} >/usr/local/bin/state"
        )
        for name in ("frame.py", "conf.py", "qm"):
            data = (ROOT / "tests" / "doubles" / "proxmox" / name).read_bytes()
            self.vm.ssh(f"cat >/usr/local/bin/{name} && chmod 755 /usr/local/bin/{name}", stdin=data)
        self.vm.ssh(f"cat >{DOUBLE}/vm-program && chmod 755 {DOUBLE}/vm-program", stdin=_VM.encode())
        self.vm.ssh(f"cat >{VM}", stdin=b"boot: order=scsi0\nmachine: q35\nname: workstation\n")

    def hostpci(self) -> list[str]:
        return [line for line in self.sh(f"cat {VM}").splitlines() if line.startswith("hostpci")]
