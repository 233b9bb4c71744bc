"""A host and a guest as they are when all is well; each test spoils one thing."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.guest import userspace
from provision.host import view
from provision.spec import Driver, Engine, Gpu, Guest, Machine, Model, Service
from provision.stack.decide import FOLDERS, Shipped
from provision.stack.desired import PYZ, UV, DesiredService, desired_service, sha256
from provision.testhost import demo_files
from tests.unit.plan import pile
from tests.unit.plan.seen import Seen

VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder)\n"
ROOM = (
    "glibc glibc 2.36\npython 3.11\nfree 100000000 /\nfree 100000000 /\nmemory 33554432\ncpus 8\ntool git\n"
)
"""A guest with room for any environment."""
PYZ_SHA, UV_SHA = "a" * 64, "b" * 64


@pytest.fixture
def shipped() -> tuple[Shipped, Shipped]:
    return Shipped("/x/provcheck.pyz", PYZ_SHA), Shipped("/x/uv", UV_SHA)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo-files")
    demo_files.prepare(folder)
    return folder


@pytest.fixture
def machine(files: Path) -> Machine:
    service = Service(
        name="tiny",
        engine=Engine(
            kind="standin", version="1.0.0", source="wheel", wheelhouse=str(demo_files.wheel_folder(files))
        ),
        model=Model(
            repo="kpro/tiny", revision=demo_files.DEMO_REVISION, folder=str(demo_files.model_folder(files))
        ),
        port=18999,
    )
    return Machine(
        name="box",
        gpus=[Gpu(bdf="42:00.0", model="RTX A6000")],
        gpu_count=1,
        driver=Driver(version="580.159.04", flavour="open", route="prebuilt"),
        guests=[Guest(name="llm", backend="lxc", id="c1", gpus=["42:00.0"], services=[service])],
    )


@pytest.fixture
def desired(machine: Machine) -> DesiredService:
    guest = machine.guests[0]
    return desired_service(guest, guest.services[0])


@pytest.fixture
def host(machine: Machine, desired: DesiredService) -> Seen:
    """A root shell on a host whose one A6000 is on the nvidia driver, and that has the model; no container yet."""
    seen = Seen().boots().tools(*view.TOOLS, *view.LXC_TOOLS, view.ROOT_TOOL, "apparmor_parser")
    seen.cmd("id-u", "0\n").cmd("lxc-path", "/var/lib/lxc\n").cmd("lxc-ls", "other\n")
    seen.put("pci", "/sys/bus/pci/devices", "").gpu("0000:42:00.0").no_root_yet()
    seen.put("file", "/proc/driver/nvidia/version", VERSION)
    seen.put(
        "file",
        "/proc/driver/nvidia/gpus/0000:42:00.0/information",
        "Model: \t\t NVIDIA RTX A6000\nBus Location: \t 0000:42:00.0\nDevice Minor: \t 3\n",
    )
    seen.put(
        "file", "/proc/devices", "Character devices:\n195 nvidia\n508 nvidia-uvm\n\nBlock devices:\n  8 sd\n"
    )
    for path in (
        "/proc/net/tcp",
        "/proc/net/tcp6",
        "/sys/module/apparmor/parameters/enabled",
        "/run/kpro/guests/c1",
    ):
        seen.put("file", path, None)
    seen.put("file", "/etc/kpro/test-host", None).put("stat", "/etc/kpro/test-host", None)
    seen.put("file", "/sys/bus/pci/devices/0000:42:00.0/numa_node", "-1\n")
    for model in desired.models:
        seen.model(model.directory, model.manifest)
    return seen.driver("580.159.04").served(machine)


@pytest.fixture
def piled() -> Seen:
    """A host whose two A6000 are held for virtual machines by everything at once."""
    seen = (
        Seen()
        .boots()
        .tools(*view.TOOLS, *view.LXC_TOOLS, view.ROOT_TOOL, "apparmor_parser")
        .cmd("id-u", "0\n")
    )
    seen.put("pci", "/sys/bus/pci/devices", "").put(
        "file", "/proc/devices", "Character devices:\n"
    ).no_root_yet()
    return pile.piled(seen)


@pytest.fixture
def inside(desired: DesiredService) -> Seen:
    """The guest with all in place and the service running."""
    seen = Seen().tools("python3", "systemctl")
    seen.cmd("uid-kpro", "8100\n").cmd("uid-8100", "kpro:x:8100:8100::/var/cache/kpro:/usr/sbin/nologin\n")
    for folder in FOLDERS:
        seen.put("stat", folder, "755 0 0 4096 directory\n")
    seen.put("sha", PYZ, PYZ_SHA).put("sha", UV, UV_SHA).cmd("engine-room", ROOM)
    seen.put("dir", "/opt/kpro/envs", f"{desired.engine.name}\n")
    seen.put("file", desired.engine.marker, f'{{"digest": "{desired.engine.digest}"}}\n')
    for path in (desired.unit_path, desired.staged_unit):
        seen.put("sha", path, sha256(desired.unit))
    for path in (desired.environment_path, desired.staged_environment):
        seen.put("sha", path, sha256(desired.environment))
    seen.put("dir", f"{desired.unit_path}.d", None)
    seen.put("sha", desired.record_path, None)
    seen.put("file", desired.good_path, f"{desired.digest}\n")
    seen.cmd("unit-tiny", "ActiveState=active\nSubState=running\nUnitFileState=enabled\nMainPID=77\n")
    seen.cmd("running-tiny", f"{desired.digest}\n").cmd("started-tiny", "")
    seen.put("file", "/proc/net/tcp", None).put("file", "/proc/net/tcp6", None)
    seen.remembers(desired)
    seen.put("file", userspace.LINKER, None).put("link", userspace.PROGRAM, None)
    return seen.cmd("nvidia-libraries", "", 1)
