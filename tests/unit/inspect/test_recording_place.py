"""Where a record is written: a new folder in one step, an empty mount point part by part, nothing by halves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from checks.snapshot import Section, Snapshot
from provision.inspect import recording
from provision.run.errors import RunError

SEEN = Snapshot({("file", path): Section("file", path, b"x\n") for path in ("/etc/a", "/proc/b")})


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that nothing can be renamed over, as a mount point is."""
    target = tmp_path / "stick"
    target.mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda self: self == target)

    def busy(self: Path, to: Path) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "rename", busy)
    return target


def test_an_empty_mount_point_is_written_into(mounted: Path) -> None:
    recording.write(mounted, SEEN, {})
    assert (mounted / "etc/a").read_text() == "x\n"
    assert sorted(path.name for path in mounted.iterdir()) == [".kpro", "etc", "proc"]
    assert list(mounted.parent.iterdir()) == [mounted]


def test_of_a_record_that_broke_off_nothing_stays(mounted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, to: Path) -> None:
        if source.name == "proc":
            raise OSError(28, "No space left on device")
        shutil.copytree(source, to)

    monkeypatch.setattr(shutil, "move", full)
    with pytest.raises(RunError, match=r"stick cannot be written: No space left"):
        recording.write(mounted, SEEN, {})
    assert list(mounted.iterdir()) == []
