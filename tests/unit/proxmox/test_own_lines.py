"""kpro's lines are known again after Proxmox wrote them in its own way; a broken file is told, never a traceback."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.guest.proxmox.edit import Place, Wanted, edit
from provision.guest.proxmox.grammar import parse
from provision.guest.proxmox.judge import findings, stops
from provision.guest.proxmox.lines import printed
from provision.guest.proxmox.schema import MOUNT
from provision.guest.proxmox.text import is_normal

PLACES = st.builds(
    Place,
    st.sampled_from(["/tank/models", "/tank/models/", "/srv/x", "/a%20b", "/\u00e9"]),
    st.sampled_from(["/srv/models", "/data", "/a=b"]),
    st.booleans(),
    st.booleans(),
)
SHM = ("lxc.mount.entry", "tmpfs dev/shm tmpfs rw,size=64m,create=dir 0 0")
SOMEBODYS = "lxc.mount.entry: /dev/fuse dev/fuse none bind,create=file 0 0"


@given(PLACES)
def test_a_mount_is_written_as_proxmox_would_write_it(place: Place) -> None:
    assert printed(place.value, MOUNT) == place.value
    text = edit("", Wanted(places=(place,), nesting=False)).text
    assert is_normal(text)
    assert parse(text).lines[0].problem is None


def test_a_mount_that_proxmox_wrote_in_another_order_is_still_ours() -> None:
    record = ["mp0: /tank/models,mp=/srv/models,ro=1,backup=0", "dev0: /dev/nvidia0,mode=0666"]
    text = "dev0: /dev/nvidia0,mode=0666\nmp0: /tank/models,mp=/srv/models,backup=0,ro=1\n"
    place = Place("/tank/other", "/srv/models")
    done = edit(text, Wanted(("/dev/nvidia0",), (place,), nesting=False), record)
    assert done.options == {"mp0": place.value}
    assert done.wrong == ()
    assert done.kept | done.ours == set(done.text.splitlines())


def test_what_is_still_there_stays_on_record_also_while_it_waits() -> None:
    text = "swap: 0\n\n[pve:pending]\nmp0: /a,mp=/b,backup=0,ro=1\n\n[before]\nonboot: 1\n"
    record = ["swap: 0", "mp0: /a,mp=/b,ro=1,backup=0", "onboot: 1", "dev9: /dev/gone"]
    assert edit(text, Wanted(nesting=False), record).kept == {"swap: 0", "mp0: /a,mp=/b,backup=0,ro=1"}


@pytest.mark.parametrize(
    "line",
    ["dev3: /dev//nvidia0,mode=0666", "dev3: mode=0666,path=/dev/nvidia0", "dev3: /dev/nvidia0,mode=0666,"],
)
def test_a_device_is_found_in_any_spelling_of_its_path(line: str) -> None:
    assert edit(f"{line}\n", Wanted(("/dev/nvidia0",), nesting=False)).text == f"{line}\n"


@pytest.mark.parametrize("target", ["/srv//models", "/srv/models/", "srv/models", "//srv/models"])
def test_a_mount_point_is_found_in_any_spelling_of_its_path(target: str) -> None:
    text = f"mp3: /tank//models,mp={target}\n"
    done = edit(text, Wanted(places=(Place("/tank/models", "/srv/models"),), nesting=False))
    assert (done.text, done.wrong) == (text, ())


def test_a_mount_of_somebody_else_does_not_stand_for_dev_shm() -> None:
    wanted = Wanted(nesting=False, raw=(SHM,))
    done = edit(f"{SOMEBODYS}\n", wanted)
    assert (done.lines, done.notes) == ((SHM,), ())
    again = edit(f"{done.text}{SOMEBODYS.replace('fuse', 'kvm')}\n", wanted, done.ours)
    assert (again.lines, again.dropped, again.notes) == ((), (), ())
    other = f"{SHM[0]}: tmpfs dev/shm tmpfs size=1g 0 0"
    assert "would be" in edit(f"{other}\n", wanted).notes[0]
    bigger = (SHM[0], SHM[1].replace("64m", "128m"))
    changed = edit(done.text, Wanted(nesting=False, raw=(bigger,)), done.ours)
    assert changed.text == f"{SOMEBODYS}\n{bigger[0]}: {bigger[1]}\n"


PARTS = (
    *(
        "/dev/nvidia0",
        "path=/dev/nvidia0",
        "mode=abc",
        "mode=0666",
        "uid=x",
        "uid=-1",
        "uid=+5",
        "gid=1e3",
        "ro=x",
    ),
    *("mp=/srv/models", "/tank/models", "volume=/tank/models", "nesting=2", "nesting", "deny-write=maybe"),
    *("=", "a=", "mp=", "é=1", "\r", "\t", ""),
)
BROKEN = st.builds(
    lambda key, value: f"{key}: {value}",
    st.sampled_from(["dev0", "dev1", "dev00", "mp0", "mp1", "features", "rootfs", "net0", "swap"]),
    st.lists(st.sampled_from(PARTS), max_size=4).map(",".join),
)
WANTED = Wanted(
    ("/dev/nvidia0", "/dev/nvidiactl"),
    (Place("/tank/models", "/srv/models"),),
    True,
    (("swap", "0"),),
    (SHM,),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(BROKEN, st.text(max_size=12)), max_size=6).map("\n".join))
def test_of_a_broken_file_everything_is_told_and_nothing_raises(text: str) -> None:
    conf = parse(text)
    found = findings(conf)
    done = edit(text, WANTED)
    if any(line.problem and line.section == "" for line in conf.lines):
        assert stops(found)
    elif not stops(found) and not done.wrong:
        assert edit(done.text, WANTED, done.ours).text == done.text
