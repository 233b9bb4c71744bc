"""What lies in a folder, what happened to it, and whether the copy is what was copied."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from provision.migrate.copy import hashing
from provision.migrate.copy.differences import differences
from provision.migrate.copy.listing import (
    Listing,
    NotRead,
    against_manifest,
    changed,
    listing,
    named,
    shown,
    sizes,
    sums,
)
from provision.migrate.copy.model import Place

Look = tuple[Listing, dict[str, str]]


def ran(script: str) -> bytes:
    return subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout


def look(path: Path, *, follow: bool = False) -> Look:
    place = Place(str(path), follow=follow)
    entries = listing(ran(hashing.look(place)))
    return entries, sums(ran(f"{hashing.enter(place)}\n{hashing.hashes(place)}"), entries)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    here = tmp_path / "m"
    (here / "sub").mkdir(parents=True)
    (here / "a").write_text("one")
    (here / "sub/b\nc\td").write_text("two")
    os.link(here / "a", here / "same")
    (here / "link").symlink_to("sub")
    with (here / "hole").open("wb") as stream:
        stream.truncate(1 << 20)
    (here / os.fsdecode(b"\xff")).write_text("no UTF-8")
    return here


def same(source: Look, target: Look) -> list[str]:
    found = differences(*source, *target, lambda user, group: (user, group))
    return [difference.text for difference in found]


def test_every_name_and_kind_is_seen_and_a_hard_link_counts_once(folder: Path) -> None:
    entries, hashed = look(folder)
    assert set(entries) == {".", "a", "sub", "sub/b\nc\td", "same", "link", "hole", "\udcff"}
    assert hashed["a"] == hashed["same"] == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
    assert set(hashed) == {"a", "sub/b\nc\td", "same", "hole", "\udcff"}
    found = sizes(entries)
    assert (found.size, found.files, found.inodes) == (3 + 3 + (1 << 20) + 8, 4, 7)
    assert found.allocated < 1 << 20
    os.mkfifo(folder / "pipe")
    assert sizes(look(folder)[0]).left_out == ("pipe",)


def test_coreutils_say_the_same_checksums_where_there_is_no_python(folder: Path) -> None:
    place = Place(str(folder))
    script = hashing.hashes(place).replace("python3 -c", "false -c")
    assert sums(ran(f"{hashing.enter(place)}\n{script}"), look(folder)[0]) == look(folder)[1]


def test_a_single_file_is_looked_at_by_itself(folder: Path) -> None:
    entries, hashed = look(folder / "a")
    assert set(entries) == set(hashed) == {"."}
    assert entries["."].kind == "f"
    assert same(look(folder / "a"), look(folder / "same")) == []
    assert same(look(folder / "a"), look(folder / "hole")) == [". has 1048576 bytes instead of 3"]


def test_links_are_what_they_show_only_where_that_is_meant(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "blob").write_text("blob")
    (folder / "out").symlink_to("../blob")
    assert look(folder)[0]["out"].kind == "l"
    assert "out" not in look(folder)[1]
    entries, hashed = look(folder, follow=True)
    assert entries["out"].kind == "f"
    assert "out" in hashed


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("true", []),
        ("rm hole", ["hole was removed"]),
        ("echo > new", ["new was added"]),
        ("echo more >> a", ["a was changed (3 bytes, now 8)", "same was changed (3 bytes, now 8)"]),
        ("chmod 600 hole", ["hole was changed (its attributes)"]),
        ("cp -p hole x; mv x hole", ["hole was changed (replaced by another file)"]),
        ("printf X | dd of=hole conv=notrunc status=none", ["hole was changed (written to)"]),
        ("rm link; ln -s elsewhere link", ["link was changed (9 bytes, now 3)"]),
        ("rm link; echo x > link", ["link was changed (type l, now f)"]),
        (
            "mv sub sub2",
            ["sub was removed", "sub/b\\nc\\td was removed", "sub2 was added", "sub2/b\\nc\\td was added"],
        ),
    ],
)
def test_what_happens_between_two_looks_is_named(folder: Path, script: str, said: list[str]) -> None:
    before = look(folder)[0]
    ran(f"cd {folder}; {script}")
    found = changed(before, look(folder)[0])
    if "link was changed (9" in "".join(said):
        assert found[0].startswith("link was changed")
    else:
        assert found == said


def test_a_file_that_is_written_and_given_its_old_time_back_is_still_another(folder: Path) -> None:
    before = look(folder)[0]
    old = (folder / "hole").stat()
    with (folder / "hole").open("r+b") as stream:
        stream.write(b"X")
    os.utime(folder / "hole", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert changed(before, look(folder)[0]) == ["hole was changed (its attributes)"]


@pytest.fixture
def twin(folder: Path, tmp_path: Path) -> Path:
    ran(f"cp -a {folder} {tmp_path}/twin")
    return tmp_path / "twin"


def test_a_faithful_copy_has_no_difference(folder: Path, twin: Path) -> None:
    assert same(look(folder), look(twin)) == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("rm hole", "hole is missing"),
        ("mkdir more", "more is too many"),
        ("truncate -s 9 hole", "hole has 9 bytes instead of 1048576"),
        ("printf X | dd of=hole conv=notrunc status=none", "hole has another content"),
        ("rm link; ln -s a link", "link leads elsewhere"),
        ("rm link; mkdir link", "link is of type d instead of l"),
        ("chmod 600 hole", "hole has mode 600 instead of 644"),
        ("chmod 700 sub", "sub has mode 700 instead of 755"),
        ("touch -d 2020-01-01 hole", "hole has another time"),
        ("cp -a same x; mv x same", "a is one file under several names on one side only"),
    ],
)
def test_each_difference_is_named_by_itself(folder: Path, twin: Path, script: str, said: str) -> None:
    ran(f"cd {folder}; chmod 644 hole; chmod 755 sub; cd {twin}; chmod 644 hole; chmod 755 sub; {script}")
    assert same(look(folder), look(twin)) == [said]


def test_owners_are_compared_as_they_are_to_be(folder: Path, twin: Path) -> None:
    found = differences(*look(folder), *look(twin), lambda user, group: (user + 100_000, group))
    assert {d.content for d in found} == {False}
    assert len(found) == len(look(folder)[0])
    assert "instead of 100000:0" in found[0].text or os.getuid() != 0


def test_what_can_be_mended_by_sending_again_is_marked(folder: Path, twin: Path) -> None:
    ran(f"cd {twin}; printf X | dd of=hole conv=notrunc status=none; rm a; touch -d 2020-01-01 same")
    found = differences(*look(folder), *look(twin), lambda user, group: (user, group))
    assert {d.path for d in found if d.again} == {"hole", "same"}


@pytest.mark.parametrize("data", [b"", b"f 1\0a\0", b"x y\0.\0\0", b"f 1 1 1 1 1:1 1 644 0 0\0a\0\0"])
def test_a_list_that_is_cut_off_is_none(data: bytes) -> None:
    with pytest.raises(NotRead):
        listing(data)


def test_checksums_that_are_cut_off_are_none(folder: Path) -> None:
    entries = look(folder)[0]
    for data in (b"abc", b"0" * 64 + b"  ./a", b"short  ./a\0"):
        with pytest.raises(NotRead):
            sums(data, entries)


def test_a_folder_s_own_manifest_is_held_against_its_checksums() -> None:
    kept = json.dumps({"a": {"size": 1, "sha256": "1"}, "b": {"size": 1, "sha256": "2"}}).encode()
    assert against_manifest(kept, {"a": "1", "b": "2", "c": "3"}) == []
    assert against_manifest(kept, {"a": "2"}) == [
        "a has another content than its MANIFEST says",
        "b is missing",
    ]
    assert against_manifest(b"[]", {}) == ["its MANIFEST cannot be read"]


def test_names_are_shown_on_one_line_and_few_of_many() -> None:
    assert shown("a\nb\udcff") == "a\\nb\\xff"
    assert named([f"{n}" for n in range(30)]).endswith("19, and 10 more")


def test_a_place_that_is_not_there_ends_the_shell_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/link").symlink_to("/etc")
    for place in (
        Place(f"{tmp_path}/gone"),
        Place(f"{tmp_path}/x/gone/on"),
        Place("/srv/m", "no-such-container"),
    ):
        done = subprocess.run(
            ["sh", "-c", f"cd /etc\n{hashing.enter(place)}\necho RAN"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert "is not there" in done.stderr or "does not run" in done.stderr
