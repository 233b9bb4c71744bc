"""Wheel, index, model and demo files: the same bytes every time, and installable."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import threading
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

from provision.stack.manifest import digest, manifest
from provision.testhost import demo_files, wheel
from provision.testhost.demo_files import DEMO_REVISION, demo_folder, model_folder, prepare, wheel_folder
from provision.testhost.index import serve_index
from provision.testhost.model import make_model, tensors
from provision.testhost.standin.kpro_standin.model import read_model
from provision.testhost.wheel import SOURCE, build_wheel


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment without any package."""
    folder = tmp_path_factory.mktemp("env") / "env"
    subprocess.run(["uv", "venv", "-q", "--no-config", str(folder)], check=True)
    return folder


def install(env: Path, *args: str) -> subprocess.CompletedProcess[str]:
    # A cache of its own: uv would take a wheel of the same name and version from the user's cache.
    command = ["uv", "pip", "install", "--no-config", "--cache-dir", str(env / "cache"), "--python", str(env)]
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("UV_", "PIP_"))}
    return subprocess.run([*command, *args], env=environ, capture_output=True, text=True, check=False)


def version_in(env: Path) -> str:
    command = [str(env / "bin" / "kpro-standin"), "--version"]
    assert "--fault" in subprocess.check_output([command[0], "--help"], text=True)
    return subprocess.check_output(command, text=True).strip()


def test_the_wheel_installs_offline_from_a_folder_and_runs(tmp_path: Path, env: Path) -> None:
    build_wheel(tmp_path)
    offline = ("--offline", "--no-index", "--find-links", str(tmp_path))
    assert install(env, *offline, "kpro-standin==1.0.1").returncode != 0
    done = install(env, *offline, "kpro-standin==1.0.0")
    assert done.returncode == 0, done.stderr
    assert version_in(env) == "kpro-standin 1.0.0"


def test_the_wheel_installs_from_the_loopback_index_and_a_wrong_hash_is_refused(
    tmp_path: Path, env: Path
) -> None:
    build_wheel(tmp_path, "1.0.0")
    right = hashlib.sha256(build_wheel(tmp_path, "1.1.0").read_bytes()).hexdigest()
    required = tmp_path / "required.txt"
    with serve_index(tmp_path) as index:
        source = ("--index-url", index.url, "--require-hashes", "-r", str(required))
        required.write_text(f"kpro-standin==1.1.0 --hash=sha256:{'0' * 64}\n")
        refused = install(env, *source)
        assert refused.returncode != 0
        assert "hash" in refused.stderr.lower()
        required.write_text(f"kpro-standin==1.1.0 --hash=sha256:{right}\n")
        done = install(env, *source)
        assert done.returncode == 0, done.stderr
    assert version_in(env) == "kpro-standin 1.1.0"
    assert index.requests[0] == "/simple/kpro-standin/"
    assert "/files/kpro_standin-1.1.0-py3-none-any.whl" in index.requests


def test_equal_sources_make_equal_wheels(tmp_path: Path) -> None:
    one, two = build_wheel(tmp_path / "a"), build_wheel(tmp_path / "b")
    assert one.name == two.name == "kpro_standin-1.0.0-py3-none-any.whl"
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_mode & 0o777 == 0o644
    assert build_wheel(tmp_path / "c", "1.0.1").read_bytes() != one.read_bytes()


def test_the_record_of_the_wheel_names_every_file_with_its_hash(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_wheel(tmp_path)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        rows = archive.read("kpro_standin-1.0.0.dist-info/RECORD").decode().splitlines()
        recorded = {name: (value, size) for name, value, size in (row.split(",") for row in rows)}
        assert sorted(recorded) == sorted(names)
        for name in names[:-1]:
            content = archive.read(name)
            value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert recorded[name] == (f"sha256={value}", str(len(content)))
        assert recorded[names[-1]] == ("", "")
        packed = {name.removeprefix("kpro_standin/") for name in names if name.endswith(".py")}
    assert packed == {path.name for path in SOURCE.glob("*.py")}


@pytest.mark.parametrize("version", ["", "x", "../1", "1.0.0-beta", "01.0"])
def test_a_version_that_is_none_or_not_in_normal_form_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(ValueError, match="version"):
        build_wheel(tmp_path, version)
    assert list(tmp_path.iterdir()) == []


def ask(url: str, **headers: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, "", b""


def test_the_index_speaks_html_and_json_and_knows_normalised_names(tmp_path: Path) -> None:
    path = build_wheel(tmp_path)
    (tmp_path / "secret.txt").write_text("not a wheel")
    with serve_index(tmp_path) as index:
        assert ask(index.url)[2].count(b"kpro-standin") == 2
        html = ask(index.url + "kpro-standin/")
        assert html[1].startswith("text/html")
        assert f"#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}".encode() in html[2]
        accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
        status, kind, body = ask(index.url + "Kpro_Standin", **accept)
        (file,) = json.loads(body)["files"]
        assert (status, kind) == (200, accept["Accept"])
        assert file["hashes"] == {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        root = index.url.removesuffix("/simple/")
        assert ask(root + file["url"])[2] == path.read_bytes()
        for missing in ("/simple/other/", "/files/secret.txt", "/files/../secret.txt", "/"):
            assert ask(root + missing)[0] == 404
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(index.url, timeout=1)


def test_equal_seeds_make_equal_models_and_the_revision_is_published(tmp_path: Path) -> None:
    assert make_model(tmp_path / "a") == make_model(tmp_path / "b") == DEMO_REVISION
    assert make_model(tmp_path / "c", seed=1) != DEMO_REVISION
    assert digest(manifest(tmp_path / "a")) == DEMO_REVISION
    with pytest.raises(FileExistsError, match="not empty"):
        make_model(tmp_path / "a")


def test_the_weights_are_small_numbers_and_the_norms_are_one() -> None:
    for name, (shape, data) in tensors(0).items():
        words = struct.unpack(f"<{len(data) // 2}H", data)
        values = [struct.unpack("<f", struct.pack("<I", word << 16))[0] for word in words]
        if len(shape) == 1:
            assert set(values) == {1.0}, name
        else:
            assert min(map(abs, values)) > 0, name
            assert max(map(abs, values)) < 0.04, name
            assert len(set(values)) > 100, name


def snapshot(folder: Path) -> dict[Path, tuple[int, int]]:
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*") if path.is_file()
    }


def test_the_demo_files_are_made_once_and_then_left_alone(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert [path.name for path in wheel_folder(tmp_path).iterdir()] == ["kpro_standin-1.0.0-py3-none-any.whl"]
    assert model_folder(tmp_path) == tmp_path / "models" / "kpro--tiny"
    read_model(model_folder(tmp_path))
    before = snapshot(tmp_path)
    prepare(tmp_path)
    assert snapshot(tmp_path) == before


def test_a_spoiled_or_half_made_demo_folder_is_made_right(tmp_path: Path) -> None:
    prepare(tmp_path)
    right = manifest(tmp_path)
    (model_folder(tmp_path) / "model.safetensors").write_bytes(b"")
    (model_folder(tmp_path) / "extra").write_bytes(b"")
    next(wheel_folder(tmp_path).iterdir()).write_bytes(b"")
    (wheel_folder(tmp_path) / ".tmp-left").write_bytes(b"")
    (tmp_path / "models" / ".tmp-left").mkdir()
    prepare(tmp_path)
    assert manifest(tmp_path) == right


def test_a_link_in_place_of_the_model_is_replaced_and_what_it_shows_is_kept(tmp_path: Path) -> None:
    prepare(tmp_path / "demo")
    elsewhere = tmp_path / "elsewhere"
    shutil.move(model_folder(tmp_path / "demo"), elsewhere)
    model_folder(tmp_path / "demo").symlink_to(elsewhere)
    prepare(tmp_path / "demo")
    assert not model_folder(tmp_path / "demo").is_symlink()
    assert digest(manifest(elsewhere)) == DEMO_REVISION


def test_two_runs_at_once_make_one_right_folder(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def one() -> None:
        try:
            prepare(tmp_path)
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert digest(manifest(model_folder(tmp_path))) == DEMO_REVISION
    assert not list(tmp_path.rglob(".tmp-*"))


def test_an_interrupted_model_leaves_the_old_one_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path)
    (model_folder(tmp_path) / "extra").write_bytes(b"old")

    def interrupted(folder: Path) -> str:
        (folder / "config.json").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_files, "make_model", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path)
    assert (model_folder(tmp_path) / "extra").read_bytes() == b"old"
    monkeypatch.undo()
    prepare(tmp_path)
    assert digest(manifest(model_folder(tmp_path))) == DEMO_REVISION
    assert not list(tmp_path.rglob(".tmp-*"))


def test_an_interrupted_wheel_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("provision.testhost.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        wheel.build_wheel(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"KPRO_DEMO_DIR": "/d", "XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/d"),
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/kpro/demo"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/kpro/demo"),
        ({"KPRO_DEMO_DIR": "", "HOME": "/h"}, "/h/.cache/kpro/demo"),
    ],
)
def test_the_demo_folder_follows_the_environment(environ: dict[str, str], folder: str) -> None:
    assert demo_folder(environ) == Path(folder)
