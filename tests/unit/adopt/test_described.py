"""A hand-made host, as a description; and a description, compared with what there is later."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest

from checks.snapshot import Snapshot
from provision.adopt import models, process
from provision.adopt.plan import adopted_plan
from provision.adopt.plan import requests as adopted_requests
from provision.data import profiles
from provision.host import driver_seen
from provision.init import describe, host
from provision.init.describe import Description
from provision.spec import Service
from tests.unit.plan.seen import Seen

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = f"/srv/models/Qwen--Qwen3@{COMMIT}"
CONF = """\
arch: amd64
hostname: LLM.box
unprivileged: 0
net0: name=eth0,bridge=vmbr0,ip=dhcp,type=veth
dev0: /dev/nvidia0,mode=0666
dev1: path=/dev/nvidia1,mode=0666
dev2: /dev/nvidiactl,mode=0666
mp0: /tank/models,mp=/srv/models,ro=1
mp1: local-lvm:vm-106-disk-1,mp=/data,size=8G

[before-upgrade]
dev0: /dev/nvidia7,mode=0666
"""
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"


def information(minor: int) -> str:
    return f"Model: \t\t NVIDIA RTX A6000\nDevice Minor: \t {minor}\n"


def metal(conf: str = CONF, engines: str = "", *more: str) -> Snapshot:
    """A machine with container 106, and after it one container per configuration of ``more``: 107, …"""
    seen = Seen().gpu("0000:42:00.0").gpu("0000:61:00.0")
    seen.put("pci", "/sys/bus/pci/devices", "")
    seen.put("file", "/proc/driver/nvidia/version", VERSION)
    seen.put("file", "/proc/driver/nvidia/gpus/0000:42:00.0/information", information(1))
    seen.put("file", "/proc/driver/nvidia/gpus/0000:61:00.0/information", information(0))
    seen.tools("pct").tools("lxc-ls", there=False)
    confs = dict(enumerate((conf, *more), 106))
    rows = "".join(f"{vmid}        running                 llm\n" for vmid in confs)
    seen.cmd("pct-list", "VMID       Status     Lock         Name\n" + rows)
    for vmid, text in confs.items():
        seen.cmd(f"pct-status-{vmid}", "status: running\n").put("file", f"/etc/pve/lxc/{vmid}.conf", text)
    seen.cmd("driver-packages", "ii |nvidia-driver-cuda|580.159.04-1\n").cmd("driver-receipts", "")
    for path in driver_seen.RUN_MARKS:
        seen.put("stat", path, None)
    return seen.cmd(process.NAME, engines).snapshot


def engine_block(words: Sequence[str], *rows: str, unit: str = "llm.service") -> str:
    raw = base64.b64encode(("\0".join(words) + "\0").encode()).decode()
    return "\n".join(
        [
            "pid=77",
            f"words={raw}",
            f"cgroup=0::/system.slice/{unit}",
            "user=llm",
            "home=/home/llm",
            "cwd=/",
            "name=HF_TOKEN",
            "value=VLLM_USE_V1=1",
            "dist=/opt/v/bin/../lib/python3.11/site-packages/vllm-0.20.1.dist-info",
            *rows,
            "\n",
        ]
    )


WORDS = [
    "/opt/v/bin/python3",
    "/opt/v/bin/vllm",
    "serve",
    MODEL,
    "--port",
    "8001",
    "--tensor-parallel-size",
    "2",
]


def inside(
    words: Sequence[str] = WORDS, state: str = "active", unit: str = "llm.service", port: int = 8001
) -> Seen:
    seen = Seen().cmd(process.NAME, engine_block(words, unit=unit))
    seen.cmd("units", f"Id={unit}\nActiveState={state}\nUnitFileState=enabled\nFragmentPath=/etc/x\n")
    seen.cmd("named-units", "Id=llm.service\nLoadState=not-found\nActiveState=inactive\n")
    seen.put("file", "/etc/os-release", "VERSION_CODENAME=bookworm\n")
    seen.put("file", "/proc/net/tcp", f"  sl\n   0: 00000000:{port:04X} 00000000:0000 0A 0 0 0 0 0 0\n")
    return seen.put("file", "/proc/net/tcp6", None)


def model_look() -> Seen:
    return Seen().cmd(models.look_name(MODEL), f"{MODEL}\n3 config.json\n")


def described(conf: str = CONF, seen: Seen | None = None, engines: str = "") -> Description:
    look = (seen or inside()).snapshot
    return describe.describe("kpro6", None, metal(conf, engines), {"106": (look, model_look().snapshot)}, {})


def only(found: Description) -> Service:
    return found.machine.guests[0].services[0]


def test_a_proxmox_container_is_described_with_its_gpus_and_folders() -> None:
    found = described()
    (guest,) = found.machine.guests
    assert (guest.name, guest.backend, guest.id, guest.managed) == ("llm", "pct", "106", False)
    assert guest.gpus == ("0000:61:00.0", "0000:42:00.0")
    assert (guest.network, guest.unprivileged) == ("bridge:vmbr0", False)
    assert [(mount.source, mount.target, mount.read_only) for mount in guest.mounts] == [
        ("/tank/models", "/srv/models", True)
    ]
    assert found.machine.managed is False


def test_containers_of_one_host_name_get_names_of_their_own() -> None:
    twins = [
        CONF.replace("/dev/nvidia0", "/dev/null").replace("/dev/nvidia1", f"/dev/nvidia{n}") for n in (8, 9)
    ]
    found = describe.describe("kpro6", None, metal(CONF, "", *twins), {}, {})
    assert [(guest.name, guest.id) for guest in found.machine.guests] == [
        ("llm", "106"),
        ("llm-2", "107"),
        ("llm-3", "108"),
    ]


def test_the_driver_is_described_with_the_route_it_came_by() -> None:
    driver = described().machine.driver
    assert driver is not None
    assert (driver.version, driver.flavour, driver.route) == ("580.159.04", "open", "nvidia")


def test_the_service_is_described() -> None:
    service = only(described())
    assert (service.name, service.unit, service.engine.kind, service.engine.version) == (
        "llm",
        "llm.service",
        "vllm",
        "0.20.1",
    )
    assert (service.port, service.model.repo, service.model.revision) == (8001, "Qwen/Qwen3", COMMIT)
    assert service.flags == ("--tensor-parallel-size", "2")
    assert service.found is not None
    assert (service.found.command, service.found.environment) == (tuple(WORDS), ("HF_TOKEN",))


def test_what_was_described_is_in_sync() -> None:
    found = described()
    look = Seen()
    look.sections = {**inside().sections, **model_look().sections}
    plan = adopted_plan(found.machine, found.machine.guests[0], metal(), look.snapshot)
    assert (plan.items, plan.refusals) == ((), ())


@pytest.mark.parametrize(
    ("seen", "field"),
    [
        (inside([*WORDS, "--enforce-eager"]), "found.command"),
        (inside(state="failed"), "found.unit"),
        (inside(unit="other.service"), "found.unit"),
        (inside(["/bin/sleep", "1"]), "found.unit"),
        (inside(port=9), "port"),
    ],
)
def test_what_is_other_than_described_is_refused(seen: Seen, field: str) -> None:
    found = described()
    seen.sections = {**seen.sections, **model_look().sections}
    plan = adopted_plan(found.machine, found.machine.guests[0], metal(), seen.snapshot)
    assert [refusal.where.rsplit("services[0].", 1)[1] for refusal in plan.refusals] == [field]


def test_a_unit_that_was_stopped_is_told_from_one_that_is_not_there() -> None:
    found = described()
    guest = found.machine.guests[0]
    assert any(request.endswith(" -- 'llm.service'") for request in adopted_requests(guest))
    said = []
    for named in ("LoadState=loaded", "LoadState=not-found"):
        seen = inside().cmd("units", "Id=other.service\nActiveState=active\n")
        seen.cmd("named-units", f"Id=llm.service\n{named}\nActiveState=inactive\nUnitFileState=enabled\n")
        (refusal,) = adopted_plan(found.machine, guest, metal(), seen.snapshot).refusals
        said.append(refusal.seen)
    assert said == ["llm.service is inactive", "llm.service is not there"]


def test_an_engine_that_is_no_longer_installed_is_refused() -> None:
    found = described()
    look = inside().cmd(process.NAME, engine_block(WORDS).replace("dist=", "nothing="))
    look.sections = {**look.sections, **model_look().sections}
    (refusal,) = adopted_plan(found.machine, found.machine.guests[0], metal(), look.snapshot).refusals
    assert refusal.where.endswith(".engine")


def test_other_model_files_and_another_engine_are_refused() -> None:
    found = described()
    look = inside()
    text = engine_block(WORDS).replace("vllm-0.20.1", "vllm-0.33.0")
    look.cmd(process.NAME, text)
    look.cmd(models.look_name(MODEL), f"/x/models--Qwen--Qwen3/snapshots/{'f' * 40}\n3 config.json\n")
    plan = adopted_plan(found.machine, found.machine.guests[0], metal(), look.snapshot)
    assert [refusal.where.rsplit("services[0].", 1)[1] for refusal in plan.refusals] == [
        "engine.version",
        "model.revision",
    ]


def test_a_guest_that_does_not_run_is_never_in_sync() -> None:
    found = described()
    (refusal,) = adopted_plan(found.machine, found.machine.guests[0], metal(), None).refusals
    assert refusal.where.endswith(".id")


def test_a_look_that_failed_is_never_in_sync() -> None:
    found = described()
    broken = inside().cmd(process.NAME, "", 1)
    assert adopted_plan(found.machine, found.machine.guests[0], metal(), broken.snapshot).refusals


def test_a_snapshot_of_the_container_is_not_its_configuration() -> None:
    assert host.containers(metal())[0].minors == (0, 1)


def test_a_node_that_no_gpu_has_is_said() -> None:
    found = described(CONF.replace("/dev/nvidia1", "/dev/nvidia5"))
    (guest,) = found.machine.guests
    assert guest.gpus == ("0000:61:00.0",)
    assert any("/dev/nvidia5" in remark for remark in found.at[id(guest)])


def test_a_service_that_cannot_be_described_is_said_and_not_left_out_in_silence() -> None:
    look = inside()
    look.cmd(process.NAME, engine_block(WORDS).replace("dist=", "nothing="))
    found = described(seen=look)
    (guest,) = found.machine.guests
    assert guest.services == ()
    assert any("llm.service" in remark for remark in found.at[id(guest)])


def test_a_service_outside_of_a_container_is_said() -> None:
    found = described(engines=engine_block(WORDS, unit="bare.service"))
    assert any("bare.service" in remark for remark in found.general)
    in_docker = engine_block(WORDS).replace("system.slice/llm.service", "system.slice/docker-12ab.scope")
    assert any("Docker" in remark for remark in described(engines=in_docker).general)


def test_a_process_of_a_container_is_not_taken_for_one_of_the_machine() -> None:
    inner = engine_block(WORDS).replace("/system.slice", "/lxc.payload.106/system.slice")
    assert described(engines=inner).general == []
    unknown = engine_block(WORDS).replace("/system.slice", "/lxc.payload.box/system.slice")
    (said,) = described(engines=unknown).general
    assert "in box, a container that neither" in said


PROFILES = {
    name: profile.words("0.5.11", None)
    for name in profiles.names("sglang")
    if (profile := profiles.find(name, "sglang")) and not profile.drafter and profile.fits("0.5.11")
}


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_recognised_by_its_words(name: str) -> None:
    command = [
        "/opt/v/bin/python",
        "-m",
        "sglang.launch_server",
        "--model-path",
        MODEL,
        "--tp",
        "2",
        *PROFILES[name],
    ]
    look = inside()
    look.cmd(process.NAME, engine_block(command).replace("vllm-0.20.1", "sglang-0.5.11"))
    service = only(described(seen=look))
    assert (service.profile, service.flags) == (name, ("--tp", "2"))
