"""What proves a keyring to be NVIDIA's, and an installer to be the one that was meant."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.driver import cache
from provision.host import openpgp
from provision.host.driver_repository import wrong_keyring
from tests.doubles.apt.archive import Key

ADDRESS = "https://host.example/debian12/x86_64"
PATHS = ["/usr/share/keyrings/cuda-archive-keyring.gpg", "/etc/apt/sources.list.d/cuda-debian12-x86_64.list"]
SOURCE = f"# NVIDIA\ndeb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] {ADDRESS}/ /\n"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    if not shutil.which("gpg"):
        pytest.skip("the program gpg is not here")
    key = Key.make(tmp_path_factory.mktemp("gnupg") / "home")
    yield key
    key.stop()


def test_the_fingerprint_is_the_one_that_gpg_says(key: Key) -> None:
    assert openpgp.fingerprints(key.public) == (key.fingerprint,)
    assert openpgp.fingerprints(key.public * 2) == (key.fingerprint,) * 2
    assert openpgp.fingerprints(b"") == ()


@pytest.mark.parametrize(
    "cut", [b"-----BEGIN PGP", b"\x99", b"\x99\x01\x0d\x04abc", b"\x9b\x04", b"\xc6\xe1x", b"\xc6"]
)
def test_what_is_no_keyring_has_no_fingerprint(cut: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        openpgp.fingerprints(cut)


def test_a_keyring_as_published_has_nothing_wrong(key: Key) -> None:
    assert wrong_keyring(PATHS, key.public, SOURCE, ADDRESS, key.fingerprint) == []


@pytest.mark.parametrize(
    ("paths", "source", "seen"),
    [
        ([*PATHS, "/etc/cron.d/x"], SOURCE, "would write /etc/cron.d/x"),
        (PATHS, "", "brings no source"),
        (PATHS, SOURCE.replace("signed-by=", "trusted=yes signed-by="), "its source is"),
        (PATHS, f"deb {ADDRESS}/ /\n", "its source is"),
        (PATHS, SOURCE.replace("host.example", "other.example"), "its source is"),
        (PATHS, f"{SOURCE}deb http://other.example/ /\n", "other.example"),
        (PATHS, SOURCE.replace("/usr/share/keyrings/", "/tmp/"), "its source is"),
    ],
)
def test_each_thing_that_is_wrong_with_a_keyring_is_said(
    key: Key, paths: list[str], source: str, seen: str
) -> None:
    (wrong,) = wrong_keyring(paths, key.public, source, ADDRESS, key.fingerprint)
    assert seen in wrong


def test_a_second_key_or_another_one_is_refused(key: Key, tmp_path: Path) -> None:
    other = Key.make(tmp_path / "home", "other")
    other.stop()
    for keys in (other.public, key.public + other.public):
        (wrong,) = wrong_keyring(PATHS, keys, SOURCE, ADDRESS, key.fingerprint)
        assert other.fingerprint in wrong


def test_an_installer_is_judged_by_what_its_publisher_says(tmp_path: Path) -> None:
    file = tmp_path / "NVIDIA-Linux-x86_64-580.159.04.run"
    file.write_bytes(b"#!/bin/sh\n")
    digest = hashlib.sha256(b"#!/bin/sh\n").hexdigest()
    sums = tmp_path / f"{file.name}.sha256sum"
    assert "nobody says" in cache.installer("580.159.04", str(file)).wrong()[0][0]
    sums.write_text(f"{digest}  {file.name}\n")
    assert cache.installer("580.159.04", str(file)).wrong() == []
    sums.write_text(f"{digest}  another.run\n")
    assert "nobody says" in cache.installer("580.159.04", str(file)).wrong()[0][0]
    sums.write_text(f"{'0' * 64}  {file.name}\n")
    assert "has sha256" in cache.installer("580.159.04", str(file)).wrong()[0][0]
    assert cache.installer("580.159.04", str(file), digest).wrong() == [], "the inventory's word comes first"
    assert "there is no" in cache.installer("580.159.04", str(tmp_path / "none"), digest).wrong()[0][0]
