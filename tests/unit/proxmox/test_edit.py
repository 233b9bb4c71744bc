"""An edit adds what a guest lacks and leaves every other byte where it was."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.guest.proxmox.edit import Edited, Place, Wanted, edit
from provision.guest.proxmox.grammar import PENDING, parse
from provision.guest.proxmox.judge import findings, stops
from provision.guest.proxmox.text import is_normal, with_raw

NODES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
WANTED = Wanted(
    NODES,
    (Place("/tank/models", "/srv/models"),),
    True,
    (("onboot", "1"), ("swap", "0")),
    (("lxc.prlimit.memlock", "unlimited"), ("lxc.cgroup2.cpuset.cpus", "0-15")),
)

PATHS = st.sampled_from([*NODES, "/dev/nvidia7", "/dev/kvm", "/dev/nvidia-caps/nvidia-cap1"])
DEVICE = st.builds(
    lambda path, head, tail: f"{head}{path}{tail}",
    PATHS,
    st.sampled_from(["", "path="]),
    st.sampled_from(["", ",mode=0666", ",gid=44,mode=0660", ",mode=0666,uid=8100,deny-write=0"]),
)
MOUNT = st.builds(
    lambda source, target, tail: f"{source},mp={target}{tail}",
    st.sampled_from(["/tank/models", "/srv/x", "tank:subvol-1-disk-1"]),
    st.sampled_from(["/models", "/srv/models", "/data"]),
    st.sampled_from(["", ",ro=1", ",backup=0,shared=1"]),
)
VALUES: dict[str, st.SearchStrategy[str]] = {
    "arch": st.just("amd64"),
    "cores": st.integers(1, 64).map(str),
    "memory": st.integers(16, 99999).map(str),
    "swap": st.integers(0, 9999).map(str),
    "hostname": st.from_regex(r"[a-z][a-z0-9]{0,9}", fullmatch=True),
    "onboot": st.sampled_from(["0", "1", "yes", "off"]),
    "features": st.sampled_from(["nesting=1", "nesting=0", "keyctl=1", "fuse=1,mount=nfs;cifs"]),
    "startup": st.sampled_from(["order=1", "3", "order=2,up=5"]),
    "net0": st.sampled_from(["name=eth0,bridge=vmbr0,ip=dhcp", "name=eth0,ip=192.0.2.7/24,gw=192.0.2.1"]),
    "rootfs": st.just("tank:subvol-1-disk-0,size=8G"),
    "tags": st.sampled_from(["a;b", "kpro"]),
    "unprivileged": st.sampled_from(["0", "1"]),
}
RAW = st.sampled_from(
    [
        "lxc.prlimit.memlock: unlimited",
        "lxc.prlimit.memlock = 1024",
        "lxc.cgroup2.devices.allow: c 195:* rwm",
        "lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,optional,create=file",
        "lxc.cgroup2.cpuset.cpus: 0-3",
        "lxc.environment: A=b # no comment",
    ]
)
ODD = st.one_of(st.from_regex(r"#[ -~é]{0,20}", fullmatch=True), st.sampled_from(["", "   ", "\t"]), RAW)


@st.composite
def sections(draw: st.DrawFn) -> list[str]:
    """Lines of one section, in any order, each key once."""
    keys = draw(st.sets(st.sampled_from(sorted(VALUES))))
    lines = [f"{key}: {draw(VALUES[key])}" for key in sorted(keys)]
    numbers = draw(st.sets(st.integers(0, 255), max_size=4))
    paths = draw(st.lists(DEVICE, min_size=len(numbers), max_size=len(numbers), unique_by=_path))
    lines += [f"dev{number}: {value}" for number, value in zip(sorted(numbers), paths, strict=True)]
    numbers = draw(st.sets(st.integers(0, 255), max_size=2))
    mounts = draw(
        st.lists(
            MOUNT,
            min_size=len(numbers),
            max_size=len(numbers),
            unique_by=lambda text: text.split(",mp=")[1].split(",")[0],
        )
    )
    lines += [f"mp{number}: {value}" for number, value in zip(sorted(numbers), mounts, strict=True)]
    lines += draw(st.lists(ODD, max_size=4))
    return draw(st.permutations(lines))


def _path(value: str) -> str:
    return value.removeprefix("path=").split(",")[0]


@st.composite
def files(draw: st.DrawFn) -> str:
    lines = draw(sections())
    for name in draw(st.lists(st.sampled_from(["before", "pve:pending", "a2"]), unique=True, max_size=2)):
        lines += ["", f"[{name}]", *draw(sections())]
        if name == PENDING:
            lines += draw(
                st.sampled_from([[], ["delete: onboot"], ["delete: dev0,features"], ["delete: !mp0 swap"]])
            )
    end = draw(st.sampled_from(["\n", "", "\n\n"]))
    return "\n".join(lines) + end


WANTS = st.builds(
    Wanted,
    st.lists(st.sampled_from(NODES), unique=True).map(tuple),
    st.sampled_from([(), WANTED.places, (Place("/srv/y", "/y", False, True), *WANTED.places)]),
    st.booleans(),
    st.sampled_from([(), WANTED.keys]),
    st.sampled_from([(), WANTED.raw]),
)


def foreign(text: str, done: Edited) -> list[str]:
    """The lines that the edit does not claim to have put there, blank ones left out."""
    mine = {*done.options, *done.delete}
    return [
        line.text
        for line in parse(text).lines
        if line.kind != "blank"
        and not (line.section == "" and line.kind == "option" and line.key in mine)
        and not (line.section == "" and line.kind == "raw" and (line.key, line.value) in done.lines)
    ]


@settings(max_examples=80, deadline=None)
@given(files(), WANTS)
def test_any_file_stays_valid_and_all_foreign_lines_stay_in_their_order(text: str, wanted: Wanted) -> None:
    done = edit(text, wanted)
    before, after = parse(text), parse(done.text)
    assert not [line.problem for line in after.lines if line.problem]
    assert {finding.seen for finding in stops(findings(after))} <= {
        finding.seen for finding in stops(findings(before))
    }
    assert foreign(done.text, done) == foreign(text, done)
    # Everything new stands before the first section, and what comes from there on is the same to the last byte.
    tail = (
        text[text.index(before.lines[before.boundary].text) :] if before.boundary < len(before.lines) else ""
    )
    assert done.text.endswith(tail)
    assert after.sections == before.sections


@settings(max_examples=80, deadline=None)
@given(files(), WANTS)
def test_edited_twice_is_edited_once(text: str, wanted: Wanted) -> None:
    once = edit(text, wanted)
    again = edit(once.text, wanted, once.ours)
    assert again.text == once.text
    assert not again.options
    assert not again.delete
    assert not again.lines
    assert edit(once.text, wanted).text == once.text


@settings(max_examples=60, deadline=None)
@given(files(), WANTS)
def test_what_is_needed_is_there_or_said_to_be_wrong(text: str, wanted: Wanted) -> None:
    done = edit(text, wanted)
    effective = parse(done.text).effective()
    passed = {_path(line.value) for key, line in effective.items() if key.startswith("dev")}
    told = " ".join(why for _, why, _ in done.wrong)
    assert passed >= {node for node in wanted.nodes if f"{node} is needed" not in told}
    targets = {
        line.value.split(",mp=")[1].split(",")[0] for key, line in effective.items() if key[:2] == "mp"
    }
    assert targets >= {place.target for place in wanted.places if f"{place.target} is needed" not in told}
    raw = {line.key for line in parse(done.text).of("raw")}
    assert raw >= {key for key, _ in wanted.raw}


@settings(max_examples=60, deadline=None)
@given(files(), WANTS, WANTS)
def test_only_lines_of_ours_are_ever_replaced_or_removed(text: str, first: Wanted, second: Wanted) -> None:
    once = edit(text, first)
    done = edit(once.text, second, once.ours)
    mine = once.ours
    lost = [line for line in parse(once.text).lines if line.kind in ("option", "raw") and line.section == ""]
    left = done.text.split("\n")
    for line in lost:
        if line.text not in left and line.key != "features":
            assert f"{line.key}: {line.value}" in mine


def test_a_device_takes_the_lowest_number_that_is_free_here_and_in_what_is_pending() -> None:
    text = "dev0: /dev/kvm\ndev2: /dev/fuse\n\n[pve:pending]\ndev1: /dev/net/tun\n\n[old]\ndev3: /dev/x\n"
    assert list(edit(text, Wanted(NODES[:2], nesting=False)).options) == ["dev3", "dev4"]


def test_the_line_of_a_gpu_whose_minor_moved_is_the_one_that_follows() -> None:
    text = "dev0: /dev/nvidia5,mode=0666\ndev1: /dev/nvidiactl,mode=0666\n"
    wanted = Wanted(("/dev/nvidia2", "/dev/nvidiactl"), nesting=False)
    done = edit(text, wanted, text.splitlines())
    assert done.text == text.replace("nvidia5", "nvidia2")
    assert done.changed == ("dev0",)
    assert edit(text, wanted).options == {"dev2": "/dev/nvidia2,mode=0666"}


def test_a_gpu_that_is_taken_from_the_guest_leaves_with_our_line_only() -> None:
    text = "dev0: /dev/nvidia5,mode=0666\ndev1: /dev/nvidia6,mode=0666\n"
    done = edit(text, Wanted((), nesting=False), ["dev0: /dev/nvidia5,mode=0666"])
    assert (done.text, done.delete) == ("dev1: /dev/nvidia6,mode=0666\n", ("dev0",))


def test_raw_lines_come_last_in_the_current_configuration() -> None:
    text = "cores: 1\nlxc.net.0.type: none\n\n[before]\ncores: 1\n"
    assert with_raw(text, [("lxc.prlimit.memlock", "unlimited")]) == (
        "cores: 1\nlxc.net.0.type: none\nlxc.prlimit.memlock: unlimited\n\n[before]\ncores: 1\n"
    )


def test_options_of_an_empty_configuration_come_before_its_snapshots() -> None:
    done = edit("#words\n\n[before]\ncores: 1\n", Wanted(nesting=False, keys=WANTED.keys))
    assert done.text == "#words\nonboot: 1\nswap: 0\n\n[before]\ncores: 1\n"


def test_a_last_line_without_an_end_gets_one_before_another_follows() -> None:
    assert with_raw("cores: 1", [("lxc.a", "b")]) == "cores: 1\nlxc.a: b\n"
    assert with_raw("cores: 1", []) == "cores: 1"


@pytest.mark.parametrize(
    ("there", "after"),
    [
        (None, "features: nesting=1\n"),
        ("keyctl=1", "features: keyctl=1,nesting=1\n"),
        ("nesting=yes", "features: nesting=yes\n"),
        ("nesting=0", "features: nesting=0\n"),
    ],
)
def test_nesting_is_added_and_never_turned_on_against_its_owner(there: str | None, after: str) -> None:
    done = edit("" if there is None else f"features: {there}\n", Wanted())
    assert done.text == after
    assert bool(done.notes) == (there == "nesting=0")


def test_what_the_owner_says_otherwise_is_noted_and_left() -> None:
    done = edit(
        "onboot: no\nswap: 512\nlxc.prlimit.memlock: 1024\n",
        Wanted(nesting=False, keys=WANTED.keys, raw=WANTED.raw[:1]),
    )
    assert done.text == "onboot: no\nswap: 512\nlxc.prlimit.memlock: 1024\n"
    assert len(done.notes) == 3
    assert edit("onboot: yes\nswap: 0\n", Wanted(nesting=False, keys=WANTED.keys)).notes == ()


def test_what_waits_for_the_next_start_is_not_added_again() -> None:
    text = f"cores: 1\n\n[{PENDING}]\ndev0: /dev/nvidia0,mode=0666\n"
    done = edit(text, Wanted(NODES[:1], nesting=False))
    assert done.text == text
    assert done.pending


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ("dev0: /dev/nvidia0", "delete: dev0"),
        ("dev0: path=/dev//nvidia0", "dev0: /dev/kvm"),
        ("mp0: tank:x,mp=/srv/models/", "mp0: tank:x,mp=/data"),
        ("mp0: /tank/models,mp=/srv/models", "delete: mp0"),
    ],
)
def test_what_goes_at_the_next_start_is_not_added_a_second_time_before_it(line: str, waits: str) -> None:
    wanted = Wanted(NODES[:1], WANTED.places) if line.startswith("dev") else Wanted((), WANTED.places)
    done = edit(f"{line}\n\n[{PENDING}]\n{waits}\n", wanted)
    ((seen, _, step),) = done.wrong
    assert seen == f"{line} goes at the container's next start"
    assert step.startswith("pct reboot")
    assert not stops(findings(parse(done.text)))


def test_256_devices_are_all_there_are() -> None:
    text = "".join(f"dev{number}: /dev/x{number}\n" for number in range(256))
    assert "all 256 devN lines are taken" in edit(text, Wanted(NODES)).wrong[0][0]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("", True),
        ("#words\narch: amd64\ncores: 2\nlxc.a: b\n", False),
        ("#a%0Ab\n", False),
        ("#a%C3%A9\n", True),
        ("#a%FF\n", False),
        ("memory: 99999999999999999999\n", False),
        ("memory: 18446744073709551615\n", True),
        ("cores: 2\n\n[pve:pending]\n", False),
        ("cores: 2\nsnapstate: delete\n", False),
        ("cores: 2\n\n[a2]\ncores: 2\nsnapstate: delete\n", True),
        ("rootfs: tank:x\nunused0: tank:x\n", False),
        ("rootfs: tank:x\nunused0: tank:y\n", True),
        (
            "#words\narch: amd64\ncores: 2\nlxc.prlimit.a: b\n\n[pve:pending]\ncores: 1\n\n[a2]\ncores: 2\n",
            True,
        ),
        ("cores: 2\narch: amd64\n", False),
        ("arch: amd64\n#words\n", False),
        ("#a: b\narch: amd64\n", False),
        ("#a%3A b\narch: amd64\n", True),
        ("#é\n", False),
        ("lxc.prlimit.a = b\n", False),
        ("onboot: yes\n", False),
        ("cores: 02\n", False),
        ("cores: 2", False),
        ("cores: 2\n\n", False),
        ("cores: 2\n[a2]\ncores: 1\n", False),
        ("cores: 2\n\n[b2]\ncores: 1\n\n[a2]\ncores: 1\n", False),
        ("cores: 2\ncores: 3\n", False),
        ("cores:  2\n", False),
        ("description: x\n", False),
    ],
)
def test_a_file_as_proxmox_writes_it_is_known(text: str, normal: bool) -> None:
    assert is_normal(text) == normal
