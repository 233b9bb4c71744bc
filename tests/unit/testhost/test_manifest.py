"""What a folder holds, and what it may not hold to be vouched for."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from provision.stack import manifest as module
from provision.stack.manifest import ManifestError, digest, manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    (root / "sub").mkdir(parents=True)
    (root / "b.bin").write_bytes(b"b" * 3_000_000)
    (root / "sub" / "a").write_bytes(b"")
    (root / ".hidden").write_bytes(b"h")
    return root


def test_every_file_is_listed_with_size_and_hash_in_order(folder: Path) -> None:
    found = manifest(folder)
    assert list(found) == [".hidden", "b.bin", "sub/a"]
    assert found["b.bin"] == {"size": 3_000_000, "sha256": hashlib.sha256(b"b" * 3_000_000).hexdigest()}
    assert found["sub/a"] == {"size": 0, "sha256": hashlib.sha256(b"").hexdigest()}


def test_only_the_named_paths_are_left_out(folder: Path) -> None:
    assert list(manifest(folder, exclude={"sub/a", "a", ".hidden"})) == ["b.bin"]


def test_the_digest_changes_with_a_name_a_byte_or_a_file_and_with_nothing_else(folder: Path) -> None:
    first = digest(manifest(folder))
    assert len(first) == 40
    os.utime(folder / "b.bin", (1, 1))
    assert digest(dict(reversed(manifest(folder).items()))) == first
    seen = {first}
    (folder / "sub" / "a").rename(folder / "sub" / "c")
    seen.add(digest(manifest(folder)))
    (folder / ".hidden").write_bytes(b"i")
    seen.add(digest(manifest(folder)))
    (folder / "new").write_bytes(b"")
    seen.add(digest(manifest(folder)))
    assert len(seen) == 4


def test_a_link_inside_the_folder_counts_as_the_file_that_it_shows(folder: Path) -> None:
    (folder / "link").symlink_to("sub/a")
    found = manifest(folder)
    assert found["link"] == found["sub/a"]


def test_a_folder_given_by_a_link_is_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert manifest(tmp_path / "link") == manifest(folder)


def test_whatever_would_not_travel_along_is_refused_and_all_is_said_at_once(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    (folder / "out").symlink_to("../outside")
    (folder / "out2").symlink_to(tmp_path / "outside")
    (folder / "broken").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    (folder / "dir").symlink_to("sub")
    os.mkfifo(folder / "fifo")
    (folder / os.fsdecode(b"\xff")).write_bytes(b"")
    with pytest.raises(ManifestError) as refused:
        manifest(folder)
    reasons = "\n".join(refused.value.reasons)
    assert len(refused.value.reasons) == 7
    assert reasons.count("leads out of the folder") == 2
    for reason in (
        "broken: cannot be read",
        "loop: cannot be read",
        "dir: a link to a folder",
        "fifo: neither",
    ):
        assert reason in reasons
    assert "not UTF-8" in reasons


def test_a_file_that_changes_while_it_is_read_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Growing:
        def __init__(self) -> None:
            self._hash = hashlib.sha256()

        def update(self, block: bytes) -> None:
            self._hash.update(block)
            with (folder / "b.bin").open("ab") as stream:
                stream.write(b"more")

        def hexdigest(self) -> str:
            return self._hash.hexdigest()

    monkeypatch.setattr(module, "CHUNK", 1_000_000)
    manifest(folder)

    class Hashing:
        sha256 = Growing

    monkeypatch.setattr(module, "hashlib", Hashing)
    with pytest.raises(ManifestError, match=r"b\.bin: changed while it was read"):
        manifest(folder)


@pytest.mark.parametrize("path", ["nowhere", "file"])
def test_what_is_no_folder_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ManifestError, match="no such folder"):
        manifest(tmp_path / path)
