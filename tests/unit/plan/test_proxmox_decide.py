"""Step 6 on Proxmox VE: a container is made, completed, started or left alone; its owner's lines stay."""

from __future__ import annotations

import pytest

from provision.guest.decide import container_plan
from provision.guest.proxmox.plan import DUE, STARTED, ProxmoxContainer, requests
from provision.plan import Item, Plan, Step
from provision.spec import Gpu, Guest, Machine, Mount, Proxmox
from tests.unit.plan.seen import Seen

CONF = """arch: amd64
dev0: /dev/nvidia3,mode=0666
dev1: /dev/nvidiactl,mode=0666
dev2: path=/dev/nvidia-uvm,mode=0666
dev3: /dev/nvidia-uvm-tools,mode=0666
features: nesting=1
memory: 65536
mp0: /tank/models,mp=/srv/models,ro=1
onboot: 1
ostype: debian
rootfs: local-zfs:subvol-105-disk-0,size=64G
swap: 0
lxc.prlimit.memlock: unlimited
"""
NODES = "".join(
    f"/dev/{name} c3 0 character special file\n"
    for name in ("nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
)
ABSENT = "Configuration file 'nodes/box/lxc/105.conf' does not exist\n"
CREATION = Proxmox(
    template="local:vztmpl/debian-12-standard_12.7-1_amd64.tar.zst",
    storage="tank",
    size_gib=64,
    memory_mib=65536,
)


@pytest.fixture
def guest(machine: Machine) -> Guest:
    return Guest(
        name="llm",
        backend="pct",
        id=105,
        gpus=["42:00.0"],
        mounts=[Mount(source="/tank/models", target="/srv/models")],
        services=machine.guests[0].services,
    )


@pytest.fixture
def proxmox(machine: Machine, guest: Guest) -> Machine:
    return machine.model_copy(update={"guests": (guest,)})


def with_guest(machine: Machine, **change: object) -> Machine:
    guest = machine.guests[0].model_copy(update=change)
    return machine.model_copy(update={"guests": (guest,)})


def seen(host: Seen, conf: str | None, state: str = "running") -> Seen:
    host.put("file", "/etc/pve/storage.cfg", None).cmd("device-nodes", NODES).cmd("pve-container", "6.0.4\n")
    host.put("file", "/var/lib/kpro/guests/105", None).put("file", "/run/kpro/guests/105", None)
    return host.cmd("pct-status-105", f"status: {state}\n").put("file", "/etc/pve/lxc/105.conf", conf)


def kinds(plan: Plan) -> list[str]:
    return [item.kind for item in plan.items]


def plan(machine: Machine, host: Seen, *metal: Item) -> Plan:
    return container_plan(machine, machine.guests[0], host.snapshot, metal)


def payload(plan: Plan, at: int = 0) -> ProxmoxContainer:
    found = plan.items[at].payload
    assert isinstance(found, ProxmoxContainer)
    return found


def edited(plan: Plan) -> str:
    found = payload(plan).edited
    assert found is not None
    return found.text


def test_a_container_that_has_all_is_left_alone_and_a_stopped_one_started(
    proxmox: Machine, host: Seen
) -> None:
    assert plan(proxmox, seen(host, CONF)) == Plan("box")
    assert kinds(plan(proxmox, seen(host, CONF, "stopped"))) == ["container.start"]


def test_a_missing_node_is_added_at_the_lowest_free_number_and_said(proxmox: Machine, host: Seen) -> None:
    found = plan(proxmox, seen(host, CONF.replace("dev1: /dev/nvidiactl,mode=0666\n", ""), "stopped"))
    assert kinds(found) == ["container.configure", "container.start"]
    assert "dev1 /dev/nvidiactl,mode=0666" in found.items[0].text
    assert sorted(edited(found).splitlines()) == sorted(CONF.splitlines())


def test_a_running_one_gets_a_new_node_without_a_restart_where_proxmox_can(
    proxmox: Machine, host: Seen
) -> None:
    seen(host, CONF.replace("dev3: /dev/nvidia-uvm-tools,mode=0666\n", ""))
    assert kinds(plan(proxmox, host)) == ["container.configure"]
    for old in ("6.0.3\n", "5.2.0\n", ""):
        found = plan(proxmox, host.cmd("pve-container", old))
        assert kinds(found) == ["container.configure", "container.restart"]
        assert found.items[1].step is Step.SERVICE


def test_a_raw_line_needs_a_restart_and_a_stopped_container_none(proxmox: Machine, host: Seen) -> None:
    lacking = CONF.replace("lxc.prlimit.memlock: unlimited\n", "")
    assert kinds(plan(proxmox, seen(host, lacking))) == ["container.configure", "container.restart"]
    assert kinds(plan(proxmox, seen(host, lacking, "stopped"))) == ["container.configure", "container.start"]


def test_what_waits_for_the_next_start_is_a_restart_and_no_second_configuration(
    proxmox: Machine, host: Seen
) -> None:
    line = "dev3: /dev/nvidia-uvm-tools,mode=0666\n"
    pending = CONF.replace(line, "") + f"\n[pve:pending]\n{line}"
    assert kinds(plan(proxmox, seen(host, pending))) == ["container.restart"]
    somebodys = f"{CONF}\n[pve:pending]\nmemory: 32768\n"
    assert kinds(plan(proxmox, seen(host, somebodys))) == []


def test_a_run_that_was_cut_before_the_restart_leaves_it_due(proxmox: Machine, host: Seen) -> None:
    seen(host, CONF).put("file", "/run/kpro/guests/105", f"{DUE}\n")
    assert kinds(plan(proxmox, host)) == ["container.restart"]
    host.put("file", "/run/kpro/guests/105", f"{STARTED}\n")
    assert kinds(plan(proxmox, host)) == []


def test_a_line_of_ours_follows_a_minor_that_moved(proxmox: Machine, host: Seen) -> None:
    moved = CONF.replace("/dev/nvidia3", "/dev/nvidia0")
    seen(host, moved).put("file", "/var/lib/kpro/guests/105", "dev0: /dev/nvidia0,mode=0666\n")
    found = plan(proxmox, host)
    assert kinds(found) == ["container.configure", "container.restart"]
    assert edited(found) == CONF


def test_a_file_that_was_cut_short_is_not_completed(proxmox: Machine, host: Seen) -> None:
    (refusal,) = plan(proxmox, seen(host, "", "stopped")).refusals
    assert (refusal.where, refusal.seen) == ("/etc/pve/lxc/105.conf", "it does not say arch, ostype, rootfs")
    waiting = CONF.replace("ostype: debian\n", "") + "\n[pve:pending]\nostype: debian\n"
    assert plan(proxmox, seen(host, waiting)).refusals == ()
    gone = f"{CONF}\n[pve:pending]\ndelete: arch\n"
    assert plan(proxmox, seen(host, gone)).refusals[0].seen == "it does not say arch"


def test_a_line_of_somebody_else_never_follows(proxmox: Machine, host: Seen) -> None:
    moved = CONF.replace("/dev/nvidia3", "/dev/nvidia0")
    found = plan(proxmox, seen(host, moved))
    assert set(edited(found).splitlines()) == {*moved.splitlines(), "dev4: /dev/nvidia3,mode=0666"}


def test_a_gpu_of_another_guest_in_the_container_is_refused_and_a_free_one_is_said(
    proxmox: Machine, host: Seen
) -> None:
    host.put("file", "/proc/driver/nvidia/gpus/0000:61:00.0/information", "Device Minor: \t 1\n")
    both = CONF.replace("features:", "dev4: /dev/nvidia1,mode=0666\nfeatures:")
    found = plan(proxmox, seen(host, both))
    assert found.items == found.refusals == ()
    assert "dev4 passes in /dev/nvidia1 (0000:61:00.0)" in found.notes[0]
    other = Guest(name="two", backend="pct", id=106, gpus=["61:00.0"])
    gpus = (*proxmox.gpus, Gpu(bdf="61:00.0", model="RTX A6000"))
    shared = proxmox.model_copy(update={"gpus": gpus, "gpu_count": 2, "guests": (*proxmox.guests, other)})
    (refusal,) = plan(shared, host).refusals
    assert "gives that GPU to two" in refusal.why


def test_a_node_that_the_service_s_user_could_not_open_is_refused_with_the_command(
    proxmox: Machine, host: Seen
) -> None:
    for mode in ("", ",mode=0660", ",gid=44,mode=0660", ",mode=0666,deny-write=1", ",mode=0444"):
        (refusal,) = plan(
            proxmox, seen(host, CONF.replace("/dev/nvidia3,mode=0666", f"/dev/nvidia3{mode}"))
        ).refusals
        gid = ",gid=44" if "gid=44" in mode else ""
        assert refusal.next_step == f"pct set 105 -dev0 /dev/nvidia3{gid},mode=0666"
    for mode in (",uid=8100", ",gid=8100,mode=0660", ",mode=0666,uid=0"):
        assert (
            plan(proxmox, seen(host, CONF.replace("/dev/nvidia3,mode=0666", f"/dev/nvidia3{mode}"))).refusals
            == ()
        )


def test_lines_of_a_snapshot_do_not_count(proxmox: Machine, host: Seen) -> None:
    base = "arch: amd64\nostype: debian\nrootfs: local-zfs:subvol-105-disk-0,size=64G\nswap: 0\n"
    found = plan(proxmox, seen(host, f"{base}\n[before]\n{CONF}", "stopped"))
    text = edited(found)
    assert text.endswith(f"\n[before]\n{CONF}")
    assert "dev0: /dev/nvidia3,mode=0666\n" in text.split("\n[before]")[0]


def test_a_file_that_proxmox_would_re_order_is_written_itself(proxmox: Machine, host: Seen) -> None:
    lacking = CONF.replace("dev1: /dev/nvidiactl,mode=0666\n", "")
    assert payload(plan(proxmox, seen(host, lacking))).way == "set"
    found = plan(proxmox, seen(host, lacking.replace("memory:", "# who made this\nmemory:")))
    assert payload(found).way == "write"
    assert "pct set would re-order" in found.items[0].text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("cores: 0", "minimum value of 1"),
        ("arch: x86_64", "arch stands there twice"),
        ("dev00: /dev/null", "unknown setting 'dev00'"),
        ("dev256: /dev/null", "unknown setting 'dev256'"),
        ("mp1: /srv/a,b,mp=/x", "duplicate key"),
        ("swap: 512", "swap stands there twice"),
        ("lxc.foo: 1", "unable to parse config"),
        ("lock: backup", "is locked (backup)"),
        ("template: 1", "is a template"),
        ("unprivileged: 1", "unprivileged, and privileged in the inventory"),
    ],
)
def test_a_file_that_is_wrong_is_not_touched_and_every_reason_is_said(
    proxmox: Machine, host: Seen, line: str, says: str
) -> None:
    refusals = plan(proxmox, seen(host, f"{line}\n{CONF}")).refusals
    assert any(says in refusal.seen for refusal in refusals), refusals


def test_a_protected_container_takes_no_mount(proxmox: Machine, host: Seen) -> None:
    protected = CONF.replace("mp0: /tank/models,mp=/srv/models,ro=1\n", "").replace(
        "ostype", "protection: 1\nostype"
    )
    (refusal,) = plan(proxmox, seen(host, protected)).refusals
    assert refusal.next_step == "pct set 105 -protection 0"


def test_a_mount_on_shared_storage_says_so_and_none_is_in_a_backup(proxmox: Machine, host: Seen) -> None:
    lacking = CONF.replace("mp0: /tank/models,mp=/srv/models,ro=1\n", "")
    line = "mp0: /tank/models,mp=/srv/models,backup=0,replicate=0,ro=1"
    assert f"{line}\n" in edited(plan(proxmox, seen(host, lacking)))
    cfg = "dir: local\n\tpath /var/lib/vz\n\ndir: tank\n\tpath /tank\n\tshared 1\n\tcontent rootdir\n"
    host.put("file", "/etc/pve/storage.cfg", cfg)
    assert f"{line},shared=1\n" in edited(plan(proxmox, host))


def test_weights_never_go_into_the_container_s_root(proxmox: Machine, host: Seen) -> None:
    bare = with_guest(proxmox, mounts=())
    lacking = CONF.replace("mp0: /tank/models,mp=/srv/models,ro=1\n", "")
    (refusal,) = plan(bare, seen(host, lacking)).refusals
    assert "nothing is mounted at /srv/models" in refusal.seen
    for line in ("mp0: tank:subvol-105-disk-1,mp=/srv/models,backup=0,size=900G", "mp3: /tank,mp=/srv"):
        assert plan(bare, seen(host, lacking.replace("onboot", f"{line}\nonboot"))).refusals == ()
    assert plan(with_guest(bare, services=()), seen(host, lacking)).refusals == ()


def test_a_mount_of_something_else_at_the_place_is_refused(proxmox: Machine, host: Seen) -> None:
    for other in ("/tank/other,mp=/srv/models,ro=1", "local:subvol-105-disk-1,mp=/srv/models,size=8G"):
        (refusal,) = plan(
            proxmox, seen(host, CONF.replace("/tank/models,mp=/srv/models,ro=1", other))
        ).refusals
        assert "not rewritten" in refusal.why


def test_steps_that_come_before_leave_the_nodes_to_be_decided_then(proxmox: Machine, host: Seen) -> None:
    load = Item(Step.DRIVER, "driver.load", "@local", "580.159.04", "load")
    found = plan(proxmox, seen(host, CONF), load)
    assert kinds(found) == ["container.configure", "container.restart"]
    assert payload(found).early
    unit = Item(Step.DEVICE_NODES, "nodes.unit", "@local", "kpro-devices.service", "unit")
    assert kinds(plan(proxmox, host, unit)) == []


def test_a_node_that_is_not_there_would_keep_the_container_from_starting(
    proxmox: Machine, host: Seen
) -> None:
    watched = proxmox.model_copy(update={"managed": False})
    bare = CONF.replace("dev2: path=/dev/nvidia-uvm,mode=0666\n", "")
    seen(host, bare).cmd("device-nodes", NODES.replace("/dev/nvidia-uvm c3", "/dev/nothing c3"))
    (refusal,) = plan(watched, host).refusals
    assert refusal.seen == "/dev/nvidia-uvm is not there"
    host.cmd("device-nodes", NODES.replace("/dev/nvidia-uvm-tools c3", "/dev/nothing c3"))
    lacking = CONF.replace("dev3: /dev/nvidia-uvm-tools,mode=0666\n", "")
    host.put("file", "/etc/pve/lxc/105.conf", lacking)
    found = plan(watched, host)
    assert found.items == found.refusals == ()
    assert "no /dev/nvidia-uvm-tools" in found.notes[0]


def test_an_absent_container_is_positively_known(proxmox: Machine, host: Seen) -> None:
    (refusal,) = plan(proxmox, seen(host, None).cmd("pct-status-105", ABSENT, 2)).refusals
    assert "pct create 105" in refusal.next_step
    (refusal,) = plan(proxmox, host.cmd("pct-status-105", "unable to open database\n", 255)).refusals
    assert "unknown state" in refusal.why
    (refusal,) = plan(proxmox, host.cmd("pct-status-105", "status: stopped\n")).refusals
    assert "105.conf is not there" in refusal.seen


def test_an_absent_one_that_is_described_is_created_configured_and_started(
    proxmox: Machine, host: Seen
) -> None:
    described = with_guest(proxmox, proxmox=CREATION, network="bridge:vmbr0", unprivileged=True)
    found = plan(described, seen(host, None).cmd("pct-status-105", ABSENT, 2))
    assert kinds(found) == ["container.create", "container.configure", "container.start"]
    assert found.refusals == ()
    made = payload(found).creation
    assert made is not None
    words = " ".join(made.words)
    assert words.startswith(
        "pct create 105 local:vztmpl/debian-12-standard_12.7-1_amd64.tar.zst -rootfs tank:64 -hostname llm"
    )
    for option in (
        "-unprivileged 1",
        "-features nesting=1",
        "-memory 65536",
        "-swap 0",
        "-onboot 1",
        "-tags kpro",
        "-net0 name=eth0,bridge=vmbr0,ip=dhcp,type=veth",
    ):
        assert option in words


def test_what_is_asked_of_a_machine_is_asked_for_its_managed_proxmox_guests_only(proxmox: Machine) -> None:
    assert "file:/var/lib/kpro/guests/105" in requests(proxmox)
    plain = with_guest(proxmox, backend="lxc", id="c1")
    assert requests(plain) == []
