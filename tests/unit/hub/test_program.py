"""The packed program on a plain python3: what it carries, what it writes, what it says."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.hub import local, machine, pack
from provision.hub.hashing import hashed
from provision.hub.order import Order
from provision.hub.problems import Problem
from provision.hub.progress import Progress
from provision.hub.select import HubFile
from tests.doubles.hub.server import TOKEN, Hub, Repo


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    hub.add("org/m", {"config.json": b"{}", "a/b.txt": b"text", "m.safetensors": os.urandom(3 << 20)})
    yield hub
    hub.close()


def order(hub: Hub, folder: Path, **more: Any) -> Order:
    commit = hub.repos["org/m"].commit
    place = str(folder / "models" / f"org--m@{commit}")
    given = Order(
        "org/m",
        commit,
        place,
        endpoint=hub.endpoint,
        reserve=0,
        tries=1,
        progress=str(folder / "run/progress"),
    )
    return dataclasses.replace(given, **more)


def run(wanted: Order, folder: Path) -> tuple[int, list[dict[str, Any]], str]:
    """On a plain python3 with nothing of ours installed, and no home of its own."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-B", str(pack.packed())],
        input=wanted.to_json(),
        capture_output=True,
        text=True,
        cwd="/",
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home),
            "HF_TOKEN": "hf_stray",
            "HF_ENDPOINT": "http://127.0.0.1:9",
        },
        timeout=120,
        check=False,
    )
    assert list(home.iterdir()) == []
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_it_carries_pure_python_alone_and_the_same_bytes_each_time() -> None:
    path = pack.packed()
    data = path.read_bytes()
    pack.packed.cache_clear()
    assert pack.packed().read_bytes() == data
    names = zipfile.ZipFile(path).namelist()
    assert not [
        name for name in names if name.endswith((".so", ".pyc")) or "hf_xet" in name or "pydantic" in name
    ]
    assert {name for name in names if name.startswith("provision/")} >= {"provision/hub/fetch.py"}
    assert any(name.startswith("licences/huggingface-hub/") for name in names)
    assert len(data) < 4 << 20


def test_it_fetches_on_a_plain_python_and_leaves_nothing_but_the_model(hub: Hub, tmp_path: Path) -> None:
    code, said, errors = run(order(hub, tmp_path), tmp_path)
    assert (code, errors) == (0, "")
    assert said[-1] == {"done": order(hub, tmp_path).directory}
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    name = Path(order(hub, tmp_path).directory).name
    assert found == [
        f"models/{name}/{file}"
        for file in ("a/b.txt", "config.json", "kpro-manifest.json", "kpro-source.json", "m.safetensors")
    ]
    # What the machine's own users set for the hub is not used.
    assert {one.token for one in hub.asked} == {None}


def test_a_token_never_comes_back_in_what_is_said(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.repos["org/m"] = Repo(**{**hub.repos["org/m"].__dict__, "gated": True, "members": (TOKEN,)})
    code, said, _ = run(order(hub, tmp_path, token=TOKEN), tmp_path)
    assert code == 0
    assert TOKEN not in json.dumps(said)
    tell = machine._teller(order(hub, tmp_path, token=TOKEN))
    tell({"say": f"Authorization: Bearer {TOKEN}"})
    assert TOKEN not in capsys.readouterr().out
    assert TOKEN not in (tmp_path / "run/progress").read_text()


def test_what_is_no_order_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("", "{", "[]", '{"files": null}', '{"files": null, "repo": "a/b", "odd": 1}'):
        assert machine.main(text) == 2
    assert "no order" in capsys.readouterr().err


def test_a_second_fetch_of_the_same_place_is_kept_out(hub: Hub, tmp_path: Path) -> None:
    import fcntl

    wanted = order(hub, tmp_path)
    Path(wanted.staging).mkdir(parents=True)
    handle = os.open(wanted.staging, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    code, said, _ = run(wanted, tmp_path)
    os.close(handle)
    assert code == 1
    assert "another fetch works in" in said[-1]["problem"]["seen"]
    assert run(wanted, tmp_path)[0] == 0


def test_what_earlier_patterns_left_is_not_put_in_place(hub: Hub, tmp_path: Path) -> None:
    wanted = order(hub, tmp_path)
    (Path(wanted.staging) / "old").mkdir(parents=True)
    for name in ("old/x.bin", "y.safetensors.kpro-partial"):
        (Path(wanted.staging) / name).write_bytes(b"left")
    assert run(wanted, tmp_path)[0] == 0
    assert not [
        path for path in Path(wanted.directory).rglob("*") if "left" in path.name or path.suffix == ".bin"
    ]
    assert not (Path(wanted.directory) / "old").exists()


def test_other_patterns_add_files_to_a_place_and_its_manifest(hub: Hub, tmp_path: Path) -> None:
    first = order(hub, tmp_path, files=("config.json", "*.safetensors"))
    assert run(first, tmp_path)[0] == 0
    assert not (Path(first.directory) / "a").exists()
    sent = hub.sent()
    assert run(order(hub, tmp_path), tmp_path)[0] == 0
    assert (Path(first.directory) / "a/b.txt").read_text() == "text"
    assert "a/b.txt" in json.loads((Path(first.directory) / "kpro-manifest.json").read_text())
    assert hub.sent() == sent + 4


def test_a_hub_that_is_out_of_order_for_a_moment_is_asked_again(hub: Hub, tmp_path: Path) -> None:
    hub.faults.broken["m.safetensors"] = 1
    assert run(order(hub, tmp_path, tries=2), tmp_path)[0] == 0
    hub.faults.broken["a/b.txt"] = 9
    other = tmp_path / "other"
    other.mkdir()
    code, said, _ = run(order(hub, other), other)
    assert code == 1
    assert "answers 503" in said[-1]["problem"]["seen"]


def test_the_hashes_are_those_of_git_and_of_sha256sum(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"hello\n")
    found = hashed(path)
    assert found.blob == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert found.sha256 == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert found.agrees(HubFile("f", 6, None, found.blob))
    assert found.agrees(HubFile("f", 6, found.sha256, None))
    # A large file is held against its SHA-256 alone, and one without any hash is never right.
    assert not found.agrees(HubFile("f", 6, "0" * 64, found.blob))
    assert not found.agrees(HubFile("f", 6, None, None))


def test_progress_tells_file_share_rate_and_time_left_and_not_too_often() -> None:
    now, lines = [0.0], []
    progress = Progress("org/m", 100 << 20, 0, lambda: now[0], lines.append)
    progress.file("m.safetensors", 3, 14)
    for _ in range(100):
        now[0] += 0.1
        progress.count(1 << 19)
    assert len(lines) == 1 or len(lines) == 2
    assert lines[0].startswith("org/m: m.safetensors (3 of 14), 25 % of 100.0 MiB, 5.")
    assert "MiB/s" in lines[0]
    assert lines[0].endswith("s left")
    assert Progress("org/m", 0, 0, lambda: 0.0, lines.append).line() == "org/m: , 100 % of 0 B"


def test_a_mirror_that_lists_no_hashes_is_not_fetched_from(hub: Hub, tmp_path: Path) -> None:
    hub.faults.plain = True
    code, said, _ = run(order(hub, tmp_path), tmp_path)
    assert code == 1
    assert "without its size or hash" in said[-1]["problem"]["seen"]
    assert hub.sent() == 0


def test_a_folder_that_changes_while_it_is_copied_is_not_put_in_place(tmp_path: Path) -> None:
    source = tmp_path / "m.safetensors"
    source.write_bytes(b"first")
    wanted = Order("org/m", "1" * 40, "/nowhere/x", path=str(tmp_path))
    (file,) = local.listing(wanted).files
    partial, counted = tmp_path / "partial", []
    local.copy(wanted, file, partial, counted.append, print)
    assert (partial.read_bytes(), counted) == (b"first", [5])
    source.write_bytes(b"other")
    with pytest.raises(Problem, match="changed while it was copied"):
        local.copy(wanted, file, partial, counted.append, print)
    assert not partial.exists()


def test_a_local_folder_is_read_with_its_links_and_without_what_is_not_the_model(tmp_path: Path) -> None:
    (tmp_path / "m/.git").mkdir(parents=True)
    (tmp_path / "m/.git/config").write_text("")
    (tmp_path / "m/sub").mkdir()
    (tmp_path / "m/sub/a.json").write_text("{}")
    (tmp_path / "blob").write_bytes(b"weights")
    (tmp_path / "m/m.safetensors").symlink_to("../blob")
    (tmp_path / "m/kpro-manifest.json").write_text("{}")
    listed = local.listing(Order("org/m", "1" * 40, "/nowhere/x", path=str(tmp_path / "m")))
    assert [(file.path, file.size) for file in listed.files] == [("m.safetensors", 7), ("sub/a.json", 2)]


def test_what_others_set_for_the_hub_on_the_machine_does_not_count_and_its_proxy_does() -> None:
    given = {
        "HF_TOKEN": "x",
        "HF_HUB_OFFLINE": "1",
        "HUGGING_FACE_HUB_TOKEN": "x",
        "https_proxy": "http://p:1",
    }
    found = machine.settings(given, "/tmp/home")
    assert found == {"https_proxy": "http://p:1", **machine.SETTINGS, "HF_HOME": "/tmp/home"}
