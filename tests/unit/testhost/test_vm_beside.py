"""Two virtual hosts at once: the second one runs under the lock of the first, and takes nothing of it away."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.testhost.vm import cache
from provision.testhost.vm.errors import TestHostBusy
from provision.testhost.vm.host import VirtualHost
from provision.testhost.vm.image import Image


def silent(_: str) -> None:
    pass


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    """An image that is never booted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(VirtualHost, "boot", lambda self: None)
    monkeypatch.setattr("provision.testhost.vm.qemu.find", lambda say: None)
    monkeypatch.setattr("provision.testhost.vm.qemu.make_overlay", lambda *words: None)
    monkeypatch.setattr("provision.testhost.vm.kvm.works", lambda *words: True)
    return Image(tmp_path / "d", tmp_path / "k", "6.1", "m", tmp_path / "key", "ssh-ed25519 AAAA host")


def test_a_host_beside_another_runs_under_its_lock_and_leaves_its_files(made: Image) -> None:
    with VirtualHost(made, (), say=silent) as first:
        with VirtualHost(made, (), say=silent, beside=first) as second:
            assert first.folder.is_dir()
            assert second.folder.is_dir()
            assert first.folder != second.folder
            assert first.address.port != second.address.port
        assert first.folder.is_dir()
        # The lock is the first one's: the end of the second one freed nothing.
        with pytest.raises(TestHostBusy), VirtualHost(made, (), say=silent):
            pass
    with VirtualHost(made, (), say=silent):
        assert len(list((cache.folder() / "run").iterdir())) == 1


def test_a_host_alone_clears_away_what_an_ended_one_left(made: Image) -> None:
    left = cache.make_folder(cache.folder() / "run") / "vm-old"
    left.mkdir()
    with VirtualHost(made, (), say=silent):
        assert not left.exists()
