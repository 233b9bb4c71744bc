"""What Proxmox VE takes though it is wrong is found and said; what is right is not."""

from __future__ import annotations

import pytest

from provision.guest.proxmox.grammar import parse
from provision.guest.proxmox.judge import findings, stops

GOOD = """#GPU container
arch: amd64
cores: 16
dev0: /dev/nvidia0,mode=0666
features: nesting=1
hostname: llm
memory: 65536
mp0: /srv/models,mp=/models,ro=1
rootfs: tank:subvol-100-disk-0,size=200G
swap: 0
lxc.prlimit.memlock: unlimited
lxc.cgroup2.devices.allow: c 195:* rwm
lxc.cgroup2.devices.allow: c 195:0 rwm
"""


def test_a_good_file_has_no_finding_also_with_snapshots() -> None:
    assert findings(parse(GOOD)) == ()
    assert (
        findings(
            parse(
                f"{GOOD}\n[pve:pending]\ncores: 8\n\n[before]\n{GOOD}snaptime: 1\n".replace(
                    "swap: 0\nlxc.prlimit.memlock: unlimited\nlxc.cgroup2.devices.allow: c 195:* rwm\n"
                    "lxc.cgroup2.devices.allow: c 195:0 rwm\nsnaptime: 1\n",
                    "snaptime: 1\nswap: 0\n",
                )
            )
        )
        == ()
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("cores: 0", "cores: value must have a minimum value of 1"),
        ("cores: 9000", "cores: value must have a maximum value of 8192"),
        ("arch: x86_64", "arch: value 'x86_64' does not have a value in the enumeration"),
        ("ostype: windows", "ostype: value 'windows'"),
        ("memory: 8", "memory: value must have a minimum value of 16"),
        ("tty: 7", "tty: value must have a maximum value of 6"),
        ("cmode: vnc", "cmode: value 'vnc'"),
        ("lock: mine", "lock: value 'mine'"),
        ("cpulimit: 9999.5", "cpulimit: value must have a maximum value of 8192"),
        ("timezone: Middle Earth", "timezone: value does not match"),
        (f"hostname: {'a' * 256}", "hostname: value may only be 255 characters long"),
        ("dev1: mode=0666", "dev1 names no path"),
        ("mp1: /srv/a,mp=models", "mp1 mounts at 'models'"),
        ("mp1: /srv/a,mp=/", "mp1 mounts at '/'"),
        ("mp1: models,mp=/a", "mp1 mounts 'models'"),
        ("mp1: /srv/b,mp=/models/", "mp1 mounts at /models/ again, as mp0 does"),
        ("dev1: /dev/nvidia0,mode=0660", "dev1 names /dev/nvidia0 again, as dev0 does"),
        ("swap: 512", "swap stands there twice"),
        ("memory: 99999999999999999999", "memory: value must have a maximum value of 8796093022207"),
        ("dev1: /dev//nvidia0", "dev1 names /dev//nvidia0 again, as dev0 does"),
        ("dev1: /dev/nvidia1/", "dev1 names /dev/nvidia1/, a folder"),
        ("dev1: /dev/", "dev1 names /dev/, a folder"),
        ("dev1: /dev/kvm ,mode=0666", "dev1 names '/dev/kvm '"),
        ("mp1: /srv/b\t,mp=/b", "mp1 names '/srv/b\\t'"),
        ("mp1: /srv/b,mp= /b", "mp1 names ' /b'"),
        ("dev1: /dev/kvm,uid=4294967295", "dev1 gives the node to uid 4294967295"),
        ("dev1: /dev/kvm,gid=99999999999", "dev1 gives the node to gid 99999999999"),
        ("mp1: /srv/b,mp=//models", "mp1 mounts at //models again, as mp0 does"),
        ("dev00: /dev/nvidia0", "unknown setting 'dev00'"),
        ("dev256: /dev/nvidia0", "unknown setting 'dev256'"),
        ("mp1: /srv/a,b,mp=/x", "duplicate key"),
    ],
)
def test_a_line_that_is_wrong_keeps_the_file_from_being_touched(line: str, says: str) -> None:
    key = line.split(":")[0]
    base = "".join(row for row in GOOD.splitlines(True) if not row.startswith(f"{key}:") or key == "swap")
    (finding,) = stops(findings(parse(f"{base}{line}\n")))
    assert says in finding.seen
    (pending,) = stops(findings(parse(f"{base}\n[pve:pending]\n{line}\n"))) or (None,)
    assert pending is not None or "twice" in says or "again" in says


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("unprivileged: 1\ndev0: /dev/kvm,uid=65536\n", True),
        ("unprivileged: yes\ndev0: /dev/kvm,gid=100000\n", True),
        ("unprivileged: 1\ndev0: /dev/kvm,uid=65535,gid=0\n", False),
        ("unprivileged: 0\ndev0: /dev/kvm,uid=100000\n", False),
        ("unprivileged: 1\n\n[pve:pending]\ndev0: /dev/kvm,uid=100000\n", True),
        ("unprivileged: 1\ndev0: /dev/kvm,uid=100000\nlxc.idmap: u 0 100000 200000\n", False),
    ],
)
def test_a_node_belongs_to_an_id_that_the_container_has(text: str, wrong: bool) -> None:
    assert bool(stops(findings(parse(text)))) == wrong


def test_of_two_lists_of_keys_to_delete_the_last_counts_and_they_are_said() -> None:
    text = "cores: 1\nmemory: 512\n\n[pve:pending]\ndelete: cores\ndelete: memory,!swap\n"
    conf = parse(text)
    assert conf.deleted == {"memory", "swap"}
    (finding,) = stops(findings(conf))
    assert "delete stands there twice" in finding.seen


@pytest.mark.parametrize(
    ("line", "goes_on"),
    [
        ("dev0: nvidia0", "with the value as it stands"),
        ("gpu: 1", "with the value as it stands"),
        ("lxc.foo: 1", "without it"),
        (" cores: 1", "without it"),
    ],
)
def test_what_proxmox_does_with_a_line_that_it_does_not_take(line: str, goes_on: str) -> None:
    (finding,) = stops(findings(parse(f"{line}\n")))
    assert finding.why.endswith(goes_on)


def test_what_is_wrong_inside_a_snapshot_is_said_and_stops_nobody() -> None:
    found = findings(parse("cores: 1\n\n[before]\ncores: 0\n"))
    assert [finding.line for finding in found] == [4]
    assert stops(found) == ()


@pytest.mark.parametrize("line", ["dev9: /dev/nvidia0", "arch: amd64"])
def test_an_option_appended_behind_a_snapshot_is_wrong_for_it_does_nothing(line: str) -> None:
    text = f"{GOOD}\n[before]\ncores: 2\nsnaptime: 1\nlxc.prlimit.memlock: unlimited\n{line}\n"
    (finding,) = stops(findings(parse(text)))
    assert "was appended to snapshot [before]" in finding.seen
    assert finding.line == text.count("\n")


def test_a_raw_line_that_only_a_snapshot_has_is_said() -> None:
    text = "cores: 1\n\n[before]\ncores: 1\nlxc.prlimit.memlock: unlimited\n"
    (finding,) = findings(parse(text))
    assert finding.level == "report"
    assert "not in the current configuration" in finding.seen
    assert findings(parse("lxc.prlimit.memlock: unlimited\n" + text)) == ()


def test_a_section_that_begins_twice_loses_the_first_part() -> None:
    (finding,) = [
        found
        for found in findings(parse("[ab]\ncores: 1\n[cd]\ncores: 1\n[ab]\ncores: 2\n"))
        if "begins" in found.seen
    ]
    assert "section [ab] begins in lines 1, 5" in finding.seen


@pytest.mark.parametrize(
    ("major", "stale"),
    [("509", True), ("511", True), ("238", True), ("195", False), ("226", False), ("10", False)],
)
def test_a_number_that_the_kernel_hands_out_anew_goes_stale(major: str, stale: bool) -> None:
    found = findings(parse(f"lxc.cgroup2.devices.allow: c {major}:* rwm\n"), {"nvidia-uvm": 511})
    assert bool(found) == stale
    if stale:
        assert found[0].level == "report"
        assert "migrate to devN" in found[0].next_step
        assert ("(now: nvidia-uvm)" in found[0].seen) == (major == "511")


def test_the_old_cgroup_lines_are_reported_with_the_new_name() -> None:
    (finding,) = findings(parse("lxc.cgroup.devices.allow: c 195:* rwm\n"))
    assert finding.next_step == "migrate to lxc.cgroup2.devices.allow"
    assert stops((finding,)) == ()


def test_the_nvidia_hook_is_reported_in_a_privileged_container_only() -> None:
    hook = "lxc.hook.mount: /usr/share/lxc/hooks/nvidia\n"
    assert len(findings(parse(hook))) == 1
    assert findings(parse(f"unprivileged: 1\n{hook}")) == ()


def test_a_comment_between_lines_is_reported_and_one_at_the_top_is_not() -> None:
    assert findings(parse("#top\ncores: 1\n")) == ()
    (finding,) = findings(parse("cores: 1\n# middle\n"))
    assert "moves to the top" in finding.why
