"""Owners, streams, places, what is told on the way, and why a copy stopped."""

from __future__ import annotations

import itertools
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.migrate.copy import hashing, key, place, reasons, scripts, unit
from provision.migrate.copy import progress as meter
from provision.migrate.copy.listing import Entry
from provision.migrate.copy.model import CopySettings, Folder, Place, Progress, places
from provision.migrate.copy.owners import Range, moved, pairs, range_of
from provision.migrate.copy.relay import PIECE, batches, missing, others
from provision.migrate.copy.split import LEAST, split

RUN = "20261130T120000Z-a1b2c3"
SETTINGS = CopySettings("192.0.2.5", bwlimit_mib=10)
M = Place("/srv/models/m")
INSIDE = Place("/srv/x y/b", "101")


def entry(path: str, size: int = 1, **more: object) -> Entry:
    facts = {
        "kind": "f",
        "blocks": 1,
        "modified": "1.0",
        "changed": "1.0",
        "inode": f"1:{path}",
        "links": 1,
        "mode": "644",
        "uid": 0,
        "gid": 0,
        "link": "",
        **more,
    }
    return Entry(path=path, size=size, **facts)  # type: ignore[arg-type]


def test_ids_of_the_same_user_of_the_guest_on_both_sides() -> None:
    here, there = Range(100_000, 65536), Range(200_000, 65536)
    assert moved(108_100, here, there) == 208_100
    assert moved(108_100, here, Range()) == 8_100
    assert moved(8_100, Range(), there) == 208_100
    assert moved(0, here, there) == 0, "the machine's own root stays the machine's"
    assert moved(8_100, Range(), Range()) == 8_100
    assert moved(70_000, Range(), there) == 70_000, "the target's guest has no such id"
    assert pairs([8_100, 0, 8_100], Range(), there) == ["0:200000", "8100:208100"]
    assert pairs([8_100, 0], here, here) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("         0     100000      65536\n", Range(100_000, 65_536)),
        ("0 0 4294967295\n", Range(0, 4_294_967_295)),
        ("", None),
        ("5 100 10\n", None),
        ("x y z\n", None),
    ],
)
def test_a_map_of_ids_is_read_or_is_none(text: str, found: Range | None) -> None:
    assert range_of(text) == found


@given(st.lists(st.integers(0, 20 * LEAST), max_size=40), st.integers(1, 6))
def test_each_large_file_is_in_one_stream_and_no_stream_has_more_than_the_others_and_a_file(
    found: list[int], streams: int
) -> None:
    entries = {str(n): entry(str(n), size) for n, size in enumerate(found)}
    lists = split(entries, streams)
    large = [path for path, e in entries.items() if e.size >= LEAST]
    if streams == 1 or len(large) < 2:
        assert lists == []
        return
    assert sorted(path for each in lists for path in each) == sorted(large)
    sums = [sum(entries[path].size for path in each) for each in lists]
    assert max(sums) - min(sums) <= max(entries[path].size for path in large)


def test_a_file_with_several_names_is_sent_by_one_stream_under_one() -> None:
    entries = {p: entry(p, LEAST, inode="1:1", links=2) for p in ("a", "b")} | {"c": entry("c", LEAST)}
    assert sorted(itertools.chain(*split(entries, 4))) == ["a", "c"]


def test_places_that_would_be_put_into_each_other_are_refused() -> None:
    folders = (Folder("/a", "/srv/m"),) * 2
    assert places(folders, [Place("/srv/m"), Place("/srv/n")]) == []
    assert places(folders, [Place("/srv/m"), Place("/srv/m/n")])
    assert places(folders, [Place("/srv/m"), Place("/srv/m")])
    assert places(folders, [Place("/srv/m"), Place("/srv/m", "101")]) == []
    assert places(folders[:1], [Place("/srv/.incoming")])


def test_the_line_of_the_key_allows_one_folder_from_one_address_for_a_time() -> None:
    public = "ssh-ed25519 AAAA kpro-migrate-x"
    line = key.line(public, M, RUN, SETTINGS, "/usr/bin/rrsync", "192.0.2.4")
    assert line == (
        'restrict,from="192.0.2.4",expiry-time="@EXPIRY@",command="/usr/bin/rrsync -wo -no-lock '
        f'/srv/models/.incoming/{RUN}" ssh-ed25519 AAAA kpro-migrate-{RUN}'
    )
    inside = key.line(public, INSIDE, RUN, SETTINGS, "/usr/bin/rrsync", None)
    assert "command=\"lxc-attach -n 101 -- /usr/bin/rrsync -wo -no-lock '/srv/x y/.incoming/" in inside
    assert "from=" not in inside
    quoted = key.line(public, Place('/srv/a"b/m'), RUN, SETTINGS, "/usr/bin/rrsync", None)
    assert '\\"' in quoted


def test_known_hosts_are_for_the_address_and_port_that_the_source_uses() -> None:
    keys = "ssh-ed25519 AAAA\necdsa-sha2-nistp256 BBBB\n\n"
    assert key.known_hosts(keys, SETTINGS).splitlines()[0] == "192.0.2.5 ssh-ed25519 AAAA"
    other = CopySettings("fd00::5", port=2222)
    assert key.known_hosts(keys, other).splitlines()[1] == "[fd00::5]:2222 ecdsa-sha2-nistp256 BBBB"


def test_ssh_itself_reads_the_configuration_as_it_is_meant(tmp_path: object) -> None:
    path = f"{tmp_path}/ssh"
    with open(path, "w") as stream:  # noqa: PTH123
        stream.write(key.ssh_config(RUN, 0, CopySettings("fd00::5", port=2222)))
    said = subprocess.run(
        ["ssh", "-G", "-F", path, key.HOST], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for line in (
        "hostname fd00::5",
        "port 2222",
        "user root",
        "stricthostkeychecking true",
        "batchmode yes",
        "compression no",
        "identitiesonly yes",
        f"ciphers {key.CIPHERS}",
        f"userknownhostsfile {key.folder(RUN)}/known_hosts",
        "globalknownhostsfile /dev/null",
        "identityagent none",
    ):
        assert line in said


def test_every_script_is_a_shell_s() -> None:
    jobs = [
        unit.Job(0, M, "m", 0, ("0:100000",), ("0:100000",), 2),
        unit.Job(1, INSIDE, "b", 0, send=False),
        unit.Job(2, Place("/y", follow=True), "y", 1),
    ]
    texts = [
        unit.script(RUN, jobs, SETTINGS),
        unit.start(RUN, SETTINGS),
        unit.clear(RUN),
        unit.FOLLOWING,
        key.make(RUN, 2),
        key.authorized(RUN),
        key.unauthorized(RUN),
        key.HOST_KEYS,
        meter.look(RUN),
        hashing.checksums("/x y", 4),
        scripts.probe(RUN, 0),
        scripts.route("host"),
        *(each(RUN, 0, at) for each in (scripts.before, scripts.known, scripts.sums) for at in (M, INSIDE)),
        *(scripts.pack(at, jobs[0]) for at in (M, INSIDE)),
        *(
            each(at, RUN, 0)
            for each in (place.put, place.take, place.forget, place.state)
            for at in (M, INSIDE)
        ),
        *(each(at, RUN) for each in (place.clear, place.gather) for at in (M, INSIDE)),
    ]
    for text in texts:
        subprocess.run(["dash", "-n"], input=text, text=True, check=True)


def test_a_limit_holds_over_all_streams_and_none_is_none() -> None:
    job = unit.Job(0, M, "m", 0, lists=4)
    text = unit.script(RUN, [job], CopySettings("h", bwlimit_mib=10))
    assert "'--bwlimit=2560' --ignore-missing-args" in text
    assert "$k.rest '--bwlimit=10240'" in text
    assert "--bwlimit" not in unit.script(RUN, [job], CopySettings("h"))
    assert "--bwlimit=1'" in unit.script(RUN, [job], CopySettings("h", bwlimit_mib=0.000001))


@pytest.mark.parametrize(
    ("said", "why", "again"),
    [
        ('rsync: [receiver] write failed on "/x": No space left on device (28)', "full", False),
        ("rsync: mkstemp failed: Read-only file system (30)", "cannot be written to", False),
        ("Host key verification failed.", "not the machine", False),
        ("root@192.0.2.5: Permission denied (publickey).", "does not take", False),
        ("/usr/bin/rrsync error: option -L has been disabled", "does not do what is asked", False),
        ("ssh: connect to host x port 22: Connection refused", "cannot be reached", True),
        ("rsync: connection unexpectedly closed (0 bytes)", "broke", True),
        ("rsync error: timeout in data send/receive (code 30)", "broke", True),
        ('rsync: send_files failed to open "/x": Permission denied (13)', "did not copy everything", True),
        ("", "did not copy everything", True),
    ],
)
def test_why_a_copy_stopped_and_whether_another_try_helps(said: str, why: str, again: bool) -> None:
    row = reasons.reason(said)
    assert why in row.why
    assert row.again is again
    assert "--resume" in row.next
    grep = subprocess.run(["grep", "-Eq", reasons.final()], input=said, text=True, check=False)
    assert (grep.returncode != 0) is again


def seen(text: str) -> meter.Seen:
    return meter.seen(text)


BASE = "phase=copying\nattempt=1\nbegan=100\nwhy=\nactive=active\nnow={now}\ntotal=1000\nup={up}\n"


def test_progress_counts_what_was_there_and_nothing_twice() -> None:
    one = seen(BASE.format(now=110, up=10) + "out=0.0 100 50\nout=0.1 0 200\n")
    assert (one.done, one.sent) == (350, 250)
    rest = seen(BASE.format(now=120, up=20) + "out=0.0 100 200\nout=0.1 0 300\nout=0.rest 600 20\n")
    assert rest.done == 620
    gauge = meter.Meter()
    first, second = gauge.progress(one), gauge.progress(rest)
    assert (first.rate, second.rate) == (25.0, 27.0)
    assert second.eta == (1000 - 620) / 27.0
    assert "left" in second.line


def test_a_unit_that_is_gone_or_has_failed_is_not_copying() -> None:
    gone = seen(BASE.format(now=110, up=10).replace("active=active", "active=inactive"))
    assert meter.Meter().progress(gone).state == "none"
    nothing = seen("phase=none\n")
    assert meter.Meter().progress(nothing) == Progress(0, 0, None, None, "none")
    failed = seen(BASE.format(now=1, up=1).replace("copying", "failed").replace("why=", "why=disk"))
    line = meter.Meter().progress(failed).line
    assert line.endswith("failed: disk")


def test_the_rate_begins_anew_after_a_restart() -> None:
    gauge = meter.Meter()
    gauge.progress(seen(BASE.format(now=110, up=500) + "out=0.rest 0 900\n"))
    after = gauge.progress(seen(BASE.format(now=120, up=5) + "out=0.rest 800 10\n"))
    assert after.rate == 0.5
    assert after.bytes_done == 810


def test_what_goes_through_the_controller_is_what_the_target_lacks() -> None:
    source = {
        ".": entry(".", kind="d"),
        "a": entry("a", links=2, inode="1:1"),
        "b": entry("b", links=2, inode="1:1"),
        "big": entry("big", PIECE + 1),
        "same": entry("same"),
        "old": entry("old", modified="2.0"),
        "l": entry("l", kind="l", link="a"),
    }
    target = {"same": entry("same", modified="1.5"), "old": entry("old"), "big": entry("big", PIECE)}
    folders, small, large = missing(source, target, set())
    assert [e.path for e in folders] == ["."]
    assert [e.path for e in small] == ["a", "l", "old"]
    assert [e.path for e in large] == ["big"]
    assert [e.path for e in missing(source, target, {"same"})[1]] == ["a", "l", "old", "same"]
    assert others(source) == [("a", "b")]
    pieces = list(batches([entry(str(n), PIECE // 3) for n in range(10)]))
    assert [len(piece) for piece in pieces] == [3, 3, 3, 1]
