"""The archive of a prebuilt driver: what is read out of one, and what is refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.driver import cache, pack
from provision.driver.archive import Manifest, Prebuilt, flavour_of, is_signed, modinfo
from provision.driver.places import places
from provision.driver.process import Failed
from tests.unit.driver.conftest import KERNEL, VERSION
from tests.unit.driver.rooted import module

Make = Callable[..., Path]


@pytest.mark.parametrize(
    ("version", "kernel"),
    [(VERSION, KERNEL), ("550.78", "6.17.4-2-pve"), ("580.159.04", "6.12.117+deb13-amd64")],
)
def test_a_name_says_what_is_inside(version: str, kernel: str) -> None:
    prebuilt = Prebuilt(version, "open", kernel)
    assert Prebuilt.parse(prebuilt.name) == prebuilt


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-535.261.03-open-.tar.zst",
        "nvidia-535-open-6.1.tar.zst",
        "x.tar.zst",
        "nvidia-535.261.03-open-../x.tar.zst",
    ],
)
def test_another_name_is_no_archive(name: str) -> None:
    assert Prebuilt.parse(name) is None


def test_a_manifest_is_read_back_as_it_was_written(make_archive: Make) -> None:
    manifest = pack.manifest_of(make_archive())
    assert Manifest.parse(manifest.dump()) == manifest
    assert manifest.vermagic.startswith(KERNEL)
    assert {entry.path: entry.mode for entry in manifest.files}["bin/nvidia-modprobe"] == "4755"
    assert cache.held() == (manifest.prebuilt,)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("files", [{"path": "../etc/shadow", "size": 1, "sha256": "0" * 64, "mode": "644"}], "no place"),
        ("files", [{"path": "modules/x y", "size": 1, "sha256": "0" * 64, "mode": "644"}], "no place"),
        (
            "files",
            [{"path": "modules/nvidia.ko", "size": 1, "sha256": "$(x)", "mode": "644"}],
            "not a sha256",
        ),
        (
            "files",
            [{"path": "modules/nvidia.ko", "size": 1, "sha256": "0" * 64, "mode": "u+s"}],
            "not a sha256",
        ),
        ("files", [], "holds no modules/nvidia.ko"),
        ("links", {"lib/libcuda.so": "../../etc/passwd"}, "leaves its folder"),
        ("links", {"/etc/x": "y"}, "no place"),
        ("schema", "kpro-driver/2", "schema"),
        ("version", "535", "no name"),
        ("kernel", "6.1; rm -rf", "no name"),
        ("flavour", None, "no text"),
        ("vermagic", None, None),
    ],
)
def test_a_manifest_that_reaches_outside_its_folders_is_refused(
    make_archive: Make, field: str, value: Any, why: str | None
) -> None:
    document = json.loads(pack.manifest_of(make_archive()).dump())
    document[field] = value
    if why is None:
        del document[field]
    with pytest.raises(ValueError, match=why or "fields are missing"):
        Manifest.parse(json.dumps(document))


def test_a_file_that_is_no_archive_is_said_and_never_raises_something_else(
    make_archive: Make, tmp_path: Path
) -> None:
    path = make_archive()
    cut, other = tmp_path / "cut", tmp_path / "other"
    cut.write_bytes(path.read_bytes()[:60])
    other.write_bytes(b"not zstd at all")
    for wrong in (cut, other, Path("/dev/null")):
        with pytest.raises(Failed, match="no prebuilt driver"):
            pack.manifest_of(wrong)


def test_a_full_disk_leaves_the_old_archive_and_no_piece(
    make_archive: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_archive()
    before = path.read_bytes()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "zstd").write_text("#!/bin/sh\nhead -c 10 >/dev/null\nprintf half\nexit 1\n")
    (tools / "zstd").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    with pytest.raises((Failed, BrokenPipeError)):
        make_archive()
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_fields_and_signature_are_read_from_the_modules_bytes() -> None:
    data = module("nvidia", VERSION, KERNEL)
    assert modinfo(data, "version") == VERSION
    assert (modinfo(data, "vermagic") or "").split()[0] == KERNEL
    assert modinfo(data, "magic") is None
    assert flavour_of(modinfo(data, "license")) == "open"
    assert flavour_of("NVIDIA") == "proprietary"
    assert flavour_of("GPL") is None
    assert not is_signed(data)
    assert is_signed(module("nvidia", VERSION, KERNEL, signed=True))


def test_the_receipt_lists_everything_and_comes_last(make_archive: Make) -> None:
    found = places(pack.manifest_of(make_archive()))
    receipt = (found[-1].content or b"").decode()
    assert found[-1].path == f"/var/lib/kpro/driver/{KERNEL}.files"
    assert receipt.splitlines()[0] == f"# prebuilt {VERSION} open"
    assert receipt.splitlines()[1:] == [f"{placed.size} {placed.path}" for placed in found[:-1]]


def test_a_certificate_has_the_fingerprint_that_openssl_shows(tmp_path: Path) -> None:
    made = subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=x",
            "-keyout",
            tmp_path / "k",
            "-out",
            tmp_path / "c",
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("no openssl here")
    shown = subprocess.run(
        ["openssl", "x509", "-in", tmp_path / "c", "-noout", "-fingerprint", "-sha256"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert (
        pack.certificate_id((tmp_path / "c").read_bytes())
        == shown.split("=")[1].strip().replace(":", "").lower()
    )
