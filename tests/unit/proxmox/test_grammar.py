"""A container's file is read as Proxmox VE reads it: what it takes, what it refuses, and in which words."""

from __future__ import annotations

import pytest

from provision.guest.proxmox.grammar import PENDING, Line, parse
from provision.guest.proxmox.lines import printed
from provision.guest.proxmox.schema import MOUNT


def only(text: str) -> Line:
    (line,) = parse(text).lines
    return line


@pytest.mark.parametrize(
    "line",
    [
        "arch: amd64",
        "arch: x86_64",
        "cores: 0",
        "cpulimit: 1.5",
        "unprivileged: yes",
        "onboot:1",
        "onboot: TRUE",
        "memory: 00512",
        "startup: order=3,up=10,down=5",
        "startup: 3",
        "tags: a;b",
        "nameserver: 192.0.2.1 fe80::1%eth0",
        "searchdomain: example.org,lan",
        "hostname: llm.example.org",
        "features: nesting=1,keyctl=1,mount=nfs;cifs",
        "features: nesting=yes",
        "rootfs: local-zfs:subvol-1-disk-0,size=200G,mountoptions=noatime;discard",
        "rootfs: volume=tank:x,acl=1,quota=0,replicate=no,ro=1,shared=1",
        "mp255: /srv/models,mp=/models,ro=1,backup=0",
        "mp0: mp=/models,volume=/srv/a=b",
        "net31: name=eth0,bridge=vmbr0,ip=192.0.2.7/24,gw=192.0.2.1,tag=4094,type=veth,rate=1.5",
        "net0: name=eth0,ip6=2001:db8::2/64,ip=manual,hwaddr=BC:24:11:00:00:01,trunks=1;2",
        "dev0: /dev/nvidia0",
        "dev255: /dev/nvidia0,mode=0666,uid=8100,gid=8100",
        "dev0: path=/dev/nvidia0,mode=0660,deny-write=1",
        "unused0: local-zfs:subvol-1-disk-3",
        "hookscript: local:snippets/x.pl",
        "timezone: Europe/Berlin",
        "cmode: shell",
        "lxc.prlimit.memlock: unlimited",
        "lxc.prlimit.memlock = unlimited",
        "lxc.prlimit.memlock=unlimited",
        "lxc.cgroup2.cpuset.cpus: 0-31",
        "lxc.cgroup.devices.allow: c 195:* rwm",
        "lxc.net.0.type: none",
        "lxc.environment.runtime: A=b",
        "lxc.mount.entry:",
        "lxc.init.uid: 0",
        "#anything %3A",
        "description: words",
        "snapstate: prepare",
        "   ",
    ],
)
def test_proxmox_takes_it(line: str) -> None:
    assert only(f"{line}\n").problem is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("cores: two", "unable to parse value of 'cores' - type check ('integer') failed - got 'two'"),
        ("cores: -1", "type check ('integer') failed"),
        ("memory: 64G", "unable to parse value of 'memory' - type check ('integer') failed - got '64G'"),
        ("onboot: 2", "type check ('boolean') failed - got '2'"),
        ("startup: first", "unable to parse startup options"),
        ("startup: 0", "unable to parse startup options"),
        ("startup: \xa0", "unable to parse startup options"),
        ("tags: a\xa0b", "invalid characters in tag"),
        ("hostname: my_host", "value does not look like a valid DNS name"),
        ("tags: a,-b", "invalid characters in tag"),
        ("nameserver: resolver", "value does not look like a valid IP address"),
        ("dev0: nvidia0", "format error path: invalid format - nvidia0 is not a valid device path"),
        ("dev0: /dev/../etc/passwd", "is not a valid device path"),
        ("dev0: /dev/nvidia0,mode=666", "format error mode: value does not match the regex pattern"),
        ("dev0: /dev/nvidia0,mode=0888", "mode: value does not match"),
        ("dev0: /dev/nvidia0,uid=-1", "uid: value must have a minimum value of 0"),
        ("dev0: /dev/nvidia0,foo=1", "foo: property is not defined in schema"),
        ("dev0: /dev/nvidia0,deny-write=2", "deny-write: type check ('boolean') failed - got '2'"),
        ("dev0: /dev/a,/dev/b", "duplicate key in comma-separated list property: path"),
        ("dev0: /dev/a,path=/dev/b", "duplicate key in comma-separated list property: path"),
        ("dev0: /dev/a,mode=0666,mode=0660", "duplicate key in comma-separated list property: mode"),
        ("dev0: /dev/a,mode=", "missing key in comma-separated list property"),
        ("dev00: /dev/nvidia0", "unknown setting 'dev00'"),
        ("dev256: /dev/nvidia0", "unknown setting 'dev256'"),
        ("dev: /dev/nvidia0", "unknown setting 'dev'"),
        ("mp256: /a,mp=/b", "unknown setting 'mp256'"),
        ("net32: name=eth0", "unknown setting 'net32'"),
        ("gpu: 1", "unknown setting 'gpu'"),
        ("mp0: /srv/models", "format error mp: property is missing and it is not optional"),
        ("mp0: mp=/x", "format error volume: property is missing and it is not optional"),
        ("mp0: /srv/a,b,mp=/x", "duplicate key in comma-separated list property: volume"),
        ("mp0: /srv/a=b,mp=/x", "property is not defined in schema"),
        ("mp0: /srv/models,mp=/a/../b", "contains illegal character sequences"),
        ("mp0: /srv/./a,mp=/a", "contains illegal character sequences"),
        ("mp0: /a,mp=/b,size=10X", "size: invalid format - value does not look like a valid disk size: 10X"),
        ("mp0: /a,mp=/b,mountoptions=rw", "mountoptions: value does not match the regex pattern"),
        ("rootfs: tank:x,mp=/x", "mp: property is not defined in schema"),
        ("features: nesting=1;keyctl=1", "nesting: type check ('boolean') failed - got '1;keyctl=1'"),
        ("features: docker=1", "docker: property is not defined in schema"),
        ("features: 1", "value without key, but schema does not define a default key"),
        ("net0: bridge=vmbr0", "name: property is missing and it is not optional"),
        ("net0: name=eth0,ip=10.0.0.5", "ip: invalid format - value does not look like a valid ipv4 network"),
        ("net0: name=eth0,ip=10.0.0.5/7", "ip: invalid format"),
        ("net0: name=eth0,ip=10.0.0.5/33", "ip: invalid format"),
        ("net0: name=eth0,tag=4095", "tag: value must have a maximum value of 4094"),
        ("net0: name=eth0,type=phys", "type: value 'phys' does not have a value in the enumeration 'veth'"),
        ("net0: name=eth0,hwaddr=01:00:00:00:00:01", "valid unicast MAC address"),
        ("hookscript: /root/x.sh", "unable to parse volume ID '/root/x.sh'"),
        ("lxc.foo.bar: 1", "unable to parse config: lxc.foo.bar: 1"),
        ("lxc.sysctl.vm.swappiness: 1", "unable to parse config"),
        ("lxc.proc.oom_score_adj: 1", "unable to parse config"),
        ("lxc.rootfs.path: /x", "lxc.rootfs.path is auto generated from rootfs"),
        ("lxc.rootfs.options: ro", "lxc.rootfs.options is not supported"),
        ("lxc.aa_profile: unconfined", "unable to parse config"),
        ("lxc.prlimit.memlock : unlimited", "unable to parse config"),
        (" cores: 2", "unable to parse config:  cores: 2"),
        ("cores = 2", "unable to parse config: cores = 2"),
        ("cores : 2", "unable to parse config"),
        ("cores:", "unable to parse config: cores:"),
        ("Cores: 2", "unable to parse config"),
        ("delete: dev0", "property 'delete' is only allowed in [pve:pending]"),
        ("[x]", "unable to parse config: [x]"),
        ("[my snapshot]", "unable to parse config: [my snapshot]"),
    ],
)
def test_proxmox_refuses_it_in_these_words(line: str, says: str) -> None:
    assert says in (only(f"{line}\n").problem or "taken")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("/tank,mp=/m,ro=yes,backup=0", "/tank,mp=/m,backup=0,ro=1"),
        ("ro=0,mp=/m,volume=/tank,shared=on", "/tank,mp=/m,ro=0,shared=1"),
        ("/tank, ,mp=/m,", "/tank,mp=/m"),
        ("/tank", "/tank"),
    ],
)
def test_a_property_string_as_proxmox_writes_it_out_again(text: str, written: str) -> None:
    assert printed(text, MOUNT) == written


def test_lines_belong_to_the_section_that_began_last() -> None:
    conf = parse("cores: 1\n\n[PVE:Pending]\ndelete: cores\nmemory: 2\n\n[before]\ncores: 3\n[x]\nswap: 4\n")
    assert [line.section for line in conf.lines] == ["", "", PENDING, PENDING, PENDING, PENDING] + [
        "before"
    ] * 4
    assert conf.boundary == 2
    assert conf.value("cores") == "1"
    assert set(conf.effective()) == {"memory"}


def test_the_last_of_two_lines_counts() -> None:
    assert parse("swap: 0\nswap: 512\n").value("swap") == "512"


def test_bytes_of_any_kind_come_out_as_they_went_in() -> None:
    text = b"#\xff\xfe caf\xc3\xa9\r\nhostname: x\r\n\x0c\n".decode("utf-8", "surrogateescape")
    assert "".join(f"{line.text}\n" for line in parse(text).lines) == text
    assert parse(text).value("hostname") == "x"
