"""This machine as a Proxmox VE node: its programs are doubles, its containers real ones, in a mount namespace where
/etc is a copy with /etc/pve in it."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from provision.testhost import demo_files
from tests.conftest import ROOT
from tests.guest.place import free_port
from tests.guest.rig import LXC, Container

DOUBLES = ROOT / "tests" / "doubles" / "proxmox"
TEMPLATE = "local:vztmpl/debian-12-standard_12.7-1_amd64.tar"

# What the runs write stays off this machine, and what other runs wrote is not theirs; /dev gets nodes of its own where
# a test asks for them.
_ENTER = """
mkdir -p /var/lib/kpro && mount --bind "$1/etc" /etc && mount --bind "$1/kpro" /var/lib/kpro || exit 99
if [ -n "$2" ]; then
  d=$(mktemp -d) && mount -t tmpfs tmpfs "$d" && mkdir "$d/pts" "$d/shm" || exit 99
  cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty "$2"/* "$d" || exit 99
  mount --bind /dev/pts "$d/pts" && mount --bind /dev/shm "$d/shm" && ln -s /proc/self/fd "$d/fd" || exit 99
  ln -s pts/ptmx "$d/ptmx" && mount --move "$d" /dev || exit 99
fi
shift 2
exec "$@"
"""

_INVENTORY = """\
from provision.spec import Engine, Guest, Machine, Model, Mount, Proxmox, Service

machine = Machine(
    name="box",
    managed=False,
    guests=[
        Guest(
            name="llm",
            backend="pct",
            id={id!r},
            network="bridge:vmbr0",
            unprivileged={unprivileged},
            shm_mib=96,
            mounts={mounts},
            proxmox={proxmox},
            services={services},
        )
    ],
)
metal, guests = machine.pyinfra_groups()
"""

_SERVICE = """[
    Service(
        name="tiny",
        engine=Engine(kind="standin", version="1.0.0", source="wheel", wheelhouse={wheels!r}),
        model=Model(repo="kpro/tiny", revision={revision!r}, folder={folder!r}),
        port={port},
        ready_seconds=60,
    )
]"""


def frame() -> ModuleType:
    """The doubles' own module, as their programs import it."""
    spec = importlib.util.spec_from_file_location("proxmox_double_frame", DOUBLES / "frame.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Node:
    """One node with one guest, which the inventory ``box.py`` describes."""

    folder: Path
    root: Path
    number: int = 0
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.state = self.folder / "state"
        self.etc = self.folder / "etc"
        self.models = self.folder / "models"
        self.models.mkdir()
        subprocess.run(["cp", "-a", "/etc", str(self.etc)], check=True)
        (self.etc / "pve/lxc").mkdir(parents=True)
        for name in ("subuid", "subgid"):
            (self.etc / name).write_text("root:100000:65536\n")
        (self.folder / "kpro").mkdir(mode=0o700)
        (self.state / "template").mkdir(parents=True)
        (self.state / "pve").symlink_to("/etc/pve")
        (self.state / "template" / TEMPLATE.rpartition("/")[2]).symlink_to(self.root)
        (self.state / "lxc").write_text("lxc.net.0.type = none\n")
        (self.state / "storage").write_text("tank\n")
        frame_module = frame()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for source in [*DOUBLES.glob("*.py"), DOUBLES / "pct"]:
            shutil.copy(source, self.bin / source.name)
        (self.bin / "state").write_text(f"{self.state}\n")
        self.double = frame_module.State(self.state)

    @property
    def id(self) -> str:
        return str(990_000_000 + 2 * (os.getpid() % 4_000_000) + self.number)

    @property
    def container(self) -> Container:
        return Container(self.id)

    @property
    def conf(self) -> Path:
        return self.etc / "pve/lxc" / f"{self.id}.conf"

    @property
    def inventory(self) -> Path:
        return self.folder / "box.py"

    def write(self, *, unprivileged: bool = False, made: bool = True, serves: bool = True) -> None:
        """The inventory; ``made``: it says how the container is made."""
        files = self.folder / "files"
        demo_files.prepare(files)
        service = _SERVICE.format(
            wheels=str(demo_files.wheel_folder(files)),
            revision=demo_files.DEMO_REVISION,
            folder=str(demo_files.model_folder(files)),
            port=self.port,
        )
        proxmox = f"Proxmox(template={TEMPLATE!r}, storage='tank', size_gib=8, memory_mib=1024)"
        self.inventory.write_text(
            _INVENTORY.format(
                id=self.id,
                unprivileged=unprivileged,
                mounts=f'[Mount(source="{self.models}", target="/srv/models", read_only=False)]'
                if serves
                else "[]",
                proxmox=proxmox if made else None,
                services=service if serves else "[]",
            )
        )

    def run(self, *words: str, nodes: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A program on the node."""
        enter = ["unshare", "-m", "--propagation", "private", "sh", "-c", _ENTER, "sh", str(self.folder)]
        return subprocess.run(
            [*enter, str(nodes or ""), *words],
            cwd=ROOT,
            env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def path(self) -> str:
        """A PATH on which ``pct`` is the node's, for a program that runs outside of it."""
        words = ["unshare", "-m", "--propagation", "private", "sh", "-c", _ENTER, "sh", str(self.folder), ""]
        way = self.folder / "way"
        way.mkdir(exist_ok=True)
        (way / "pct").write_text(f'#!/bin/sh\nexec {shlex.join([*words, str(self.bin / "pct")])} "$@"\n')
        (way / "pct").chmod(0o755)
        return f"{way}:{os.environ['PATH']}"

    def provision(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        program = str(Path(sys.executable).parent / "provision")
        return self.run(program, command, str(self.inventory), *words)

    def undo(self) -> subprocess.CompletedProcess[str]:
        """The way back that lies on the machine and needs no controller."""
        return self.run("sh", "/var/lib/kpro/undo.sh")

    def plan(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.provision("plan", "--json").stdout)
        return document

    def kinds(self) -> list[str]:
        return [item["kind"] for item in self.plan()["machines"][0]["items"]]

    def asked(self) -> list[str]:
        """The forms in which pct was asked so far; one that it was not given has none."""
        return [str(entry["pattern"]).split()[0] for entry in self.double.asked()]

    def remove(self) -> None:
        subprocess.run(["lxc-stop", "-k", "-n", self.id], capture_output=True, check=False)
        shutil.rmtree(LXC / self.id, ignore_errors=True)
