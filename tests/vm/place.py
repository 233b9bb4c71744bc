"""A virtual host to run the whole chain against: its inventory, the real programs, looks without our own code."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from provision.data import demo
from provision.testhost import demo_files
from provision.testhost.vm.errors import TestHostError
from provision.testhost.vm.host import VirtualHost
from tests.controller import Operator
from tests.vm import rig
from tests.vm.rig import FUNCTIONS

FIRST, SECOND = FUNCTIONS[0], FUNCTIONS[2]
CONTAINER = "kpro-vm-test"
OWN = "kpro-vm-own"
"""The unprivileged one, which comes beside the other."""
PORT = 18470
DEADLINE = 1800
"""Seconds for one command: four times what the longest takes on an emulated host with two busy processors."""

_INVENTORY = """\
from provision.spec import Driver, Engine, Gpu, Guest, Machine, Model, Service, Ssh

machine = Machine(
    name="box",
    ssh=Ssh(host="127.0.0.1", port={ssh_port}, user="root", key={key!r}, known_hosts={known_hosts!r}),
    reboot={reboot!r},
    gpus=[Gpu(bdf=bdf, model="RTX A6000") for bdf in {gpus!r}],
    gpu_count={gpu_count},
    driver=Driver(version={driver!r}, flavour={flavour!r}, route={route!r}),
    guests=[
        Guest(
            name="llm",
            backend="lxc",
            id={container!r},
            unprivileged={unprivileged},
            gpus={gpus!r},
            services=[
                Service(
                    name="tiny",
                    engine=Engine(kind="standin", version="1.0.0", source="wheel", wheelhouse={wheels!r}),
                    model=Model(repo="kpro/tiny", revision={revision!r}, folder={model!r}),
                    port={port},
                    flags={flags!r},
                    ready_seconds=300,
                    replay={replay!r},
                )
            ],
        )
    ],
)
metal, guests = machine.pyinfra_groups()
"""


@dataclass
class Metal(Operator):
    """The operator of one virtual host."""

    vm: VirtualHost

    def write(
        self,
        *,
        gpus: tuple[str, ...] = ("01:00.0", "02:00.0"),
        gpu_count: int = 2,
        driver: str = demo.DRIVER,
        flavour: str = "open",
        route: str = "prebuilt",
        reboot: str = "allowed",
        flags: tuple[str, ...] = (),
        replay: bool = True,
        unprivileged: bool = False,
    ) -> None:
        files = self.folder / "files"
        demo_files.prepare(files)
        address = self.vm.address
        self.inventory.write_text(
            _INVENTORY.format(
                ssh_port=address.port,
                key=str(address.key),
                known_hosts=str(address.known_hosts),
                reboot=reboot,
                gpus=list(gpus),
                gpu_count=gpu_count,
                driver=driver,
                flavour=flavour,
                route=route,
                container=OWN if unprivileged else CONTAINER,
                unprivileged=unprivileged,
                wheels=str(demo_files.wheel_folder(files)),
                revision=demo_files.DEMO_REVISION,
                model=str(demo_files.model_folder(files)),
                port=PORT + unprivileged,
                flags=list(flags),
                replay=str(demo.record()) if replay else None,
            )
        )

    def run(self, *words: str, timeout: float = DEADLINE) -> subprocess.CompletedProcess[str]:
        return super().run(*words, timeout=max(timeout, DEADLINE))

    def sh(self, script: str, *, timeout: float = 120) -> str:
        """What a script on the host says. Raises when it fails."""
        return self.vm.ssh(script, timeout=timeout).stdout

    def inside(self, script: str, container: str = CONTAINER) -> str:
        """The same in the container."""
        return self.vm.ssh(f"lxc-attach -n {container} -- sh -s", stdin=script.encode()).stdout

    def drivers(self) -> dict[str, str]:
        """The driver of every GPU and audio function; empty for none."""
        return rig.drivers(self.vm)

    def overrides(self) -> set[str]:
        return set(self.sh("cat /sys/bus/pci/devices/0000:0[12]:00.*/driver_override").split())

    def configuration(self) -> dict[str, str]:
        """Every file below /etc, by content, mode and owner; what changes by itself is left out."""
        script = (
            "find /etc -xdev -type f ! -name resolv.conf ! -name ld.so.cache ! -name '*.cache' -print0 | sort -z | "
            'xargs -0 sh -c \'for f; do echo "$(sha256sum <"$f") $(stat -c "%a %u:%g" "$f") $f"; done\' sh'
        )
        return {line.split(" ", 4)[-1]: line for line in self.sh(script, timeout=300).splitlines()}

    def answer(self, port: int = PORT) -> str:
        """What the service generates, asked from the host without any code of the product."""
        body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 4, "ignore_eos": True})
        script = (
            "import sys,json,urllib.request as u;"
            f"r=u.Request('http://127.0.0.1:{port}/v1/completions',sys.stdin.buffer.read(),"
            "{'Content-Type':'application/json'});"
            "print(json.load(u.urlopen(r,timeout=60))['choices'][0]['text'])"
        )
        return self.vm.ssh(f'python3 -c "{script}"', stdin=body.encode()).stdout

    def answer_soon(self, seconds: float = 600, port: int = PORT) -> str:
        """The same, while the machine and its container come up by themselves."""
        until = time.monotonic() + seconds
        while True:
            try:
                return self.answer(port)
            except TestHostError:
                if time.monotonic() > until:
                    raise
            time.sleep(3)

    def main_pid(self) -> str:
        return self.inside("systemctl show -p MainPID --value kpro-tiny.service").strip()

    def changed(self) -> list[Any]:
        """What the last run says that it changed."""
        return [event for event in self.events() if event["event"] == "end"][-1]["changed"]
