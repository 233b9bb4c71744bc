"""The way back for files that no generator of text makes: bytes of any kind, modes, owners, attributes, links."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provision.acts import release
from provision.host import transport
from provision.host.moves import Edits, FileEdit
from provision.run.errors import ActFailed
from tests.unit.holders.test_any_configuration import Local, _below, _Say, _undo, edits
from tests.unit.holders.test_any_configuration import host as seen_host
from tests.unit.plan.seen import Seen

_OURS = {
    "/etc/modprobe.d/vfio.conf": b"options vfio-pci ids=10de:2230",
    "/etc/modules": b"vfio-pci ids=10de:2230,10de:1aef",
    "/etc/initramfs-tools/modules": b"vfio_pci ids=10de:2230",
    "/etc/udev/rules.d/10-vfio.rules": b'KERNEL=="0000:42:00.0", ATTR{driver_override}="vfio-pci"',
    "/etc/default/grub": b'GRUB_CMDLINE_LINUX="quiet vfio-pci.ids=10de:2230"',
    "/etc/default/grub.d/a.cfg": b"GRUB_CMDLINE_LINUX+=\" vfio-pci.ids='10de:2230'\"",
    "/etc/kernel/cmdline": b"root=x vfio-pci.ids=10de:2230",
    "/etc/driverctl.d/pci-0000:42:00.0": b"vfio-pci",
}
_ODD = st.sampled_from(
    [
        b"# caf\xe9 (latin-1)",
        b"# \xef\xbb\xbf\xff\xfe\x80",
        b"\xef\xbb\xbf# begins with a mark",
        b"# latin-1 \xe4 within",
        b"# bell \x07 form \x0c feed",
        b"# separators \x1c\x1d\x1e\x85\xe2\x80\xa8",
        b"\t ",
        b"",
        b"# long " + b"x" * 70_000,
    ]
)


@st.composite
def _file(draw: st.DrawFn, path: str) -> tuple[bytes, int]:
    """A file's bytes and mode: the line that holds the GPU among odd ones, with mixed line ends, the last with or
    without one. A command line has one line, and driverctl's file one word."""
    mode = draw(st.sampled_from([0o400, 0o444, 0o600, 0o640, 0o644, 0o664, 0o755]))
    if path.startswith(("/etc/kernel/", "/etc/driverctl.d/")):
        return _OURS[path] + draw(st.sampled_from([b"", b"\n", b"\n\n"])), mode
    lines = [*draw(st.lists(_ODD, max_size=3)), _OURS[path], *draw(st.lists(_ODD, max_size=3))]
    ends = [draw(st.sampled_from([b"\n", b"\n", b"\r\n"])) for _ in lines]
    ends[-1] = draw(st.sampled_from([b"", ends[-1]]))
    return b"".join(line + end for line, end in zip(lines, ends, strict=True)), mode


_FILES = st.lists(st.sampled_from(sorted(_OURS)), min_size=1, max_size=4, unique=True).flatmap(
    lambda paths: st.fixed_dictionaries({path: _file(path) for path in paths})
)


def seen_of(files: dict[str, bytes]) -> Seen:
    seen = seen_host({}, False)
    for path, data in files.items():
        seen.put("file", path, data)
    return seen


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(_FILES)
def test_only_the_bytes_that_hold_the_gpu_change(files: dict[str, tuple[bytes, int]]) -> None:
    """Everything around them stays as it is, whatever its encoding and line ends; what was held is found at all."""
    for edit in edits(seen_of({path: data for path, (data, _) in files.items()})):
        if edit.path not in files or edit.gone:
            continue
        before, ours = files[edit.path][0], _OURS[edit.path]
        at = before.index(ours)
        head, tail = before[:at], before[at + len(ours) :]
        assert edit.data.startswith(head)
        assert edit.data.rstrip(b"\r\n").endswith(tail.rstrip(b"\r\n"))


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(_FILES)
def test_no_odd_byte_hides_what_holds_the_gpu(files: dict[str, tuple[bytes, int]]) -> None:
    found = {edit.path for edit in edits(seen_of({path: data for path, (data, _) in files.items()}))}
    assert set(files) <= found


def _state(root: Path) -> dict[str, Any]:
    """What an operator could tell apart: bytes, mode, owner, attributes; of a link, where it leads."""
    found: dict[str, Any] = {}
    for path in sorted((root / "m").rglob("*")):
        if path.is_symlink():
            found[str(path)] = str(path.readlink())
        elif path.is_file():
            stat = path.stat()
            attributes = {
                name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith("user.")
            }
            found[str(path)] = (path.read_bytes(), stat.st_mode, stat.st_uid, stat.st_gid, attributes)
    return found


def _there_and_back(
    folder: str,
    files: dict[str, tuple[bytes, int]],
    owner: tuple[int, int] | None = None,
    attributes: dict[str, bytes] | None = None,
) -> None:
    wanted = edits(seen_of({path: data for path, (data, _) in files.items()}))
    with mock.patch.object(transport, "stream") as stream:
        local = Local(Path(folder))
        stream.side_effect = local.stream
        for path, (data, mode) in files.items():
            place = Path(f"{folder}/m{path}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            if owner is not None:
                os.chown(place, *owner)
            for attribute, value in (attributes or {}).items():
                os.setxattr(place, attribute, value)
            place.chmod(mode)
        before = _state(local.root)
        named: Any = SimpleNamespace(name="box")
        say: Any = _Say("r1")
        release.edit_files(named, Edits(tuple(_below(f"{folder}/m", edit) for edit in wanted)), say)
        changed = _state(local.root)
        for path in files:
            name = f"{folder}/m{path}"
            if name in changed:
                assert changed[name][1:] == before[name][1:]  # mode, owner and attributes stay
        done = _undo(local)
        assert done.returncode == 0, done.stdout + done.stderr
        assert _state(local.root) == before


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(_FILES)
def test_odd_bytes_and_modes_come_back(files: dict[str, tuple[bytes, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _there_and_back(folder, files)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_owner_other_than_root_comes_back(tmp_path: Path) -> None:
    files = {path: (data + b"\n", 0o640) for path, data in _OURS.items()}
    _there_and_back(str(tmp_path), files, (1234, 2345))


def test_extended_attributes_stay_and_come_back(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.x", b"1")
    except OSError as error:
        pytest.skip(f"this file system has no attributes of users: {error}")
    files = {path: (data + b"\n", 0o640) for path, data in _OURS.items()}
    _there_and_back(str(tmp_path), files, attributes={"user.note": b"by hand\x00", "user.empty": b""})


def test_a_link_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    target, link = tmp_path / "m/target", tmp_path / "m/link.conf"
    target.write_bytes(b"options vfio-pci ids=10de:2230\n")
    link.symlink_to(target)
    with mock.patch.object(transport, "stream") as stream:
        local = Local(tmp_path)
        stream.side_effect = local.stream
        before = _state(tmp_path)
        named: Any = SimpleNamespace(name="box")
        say: Any = _Say("r1")
        with pytest.raises(ActFailed, match="it is a symbolic link"):
            release.edit_files(named, Edits((FileEdit(str(link), "0" * 64, b"x", "why"),)), say)
        assert _state(tmp_path) == before
