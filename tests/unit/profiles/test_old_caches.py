"""Old compile caches: only what nothing refers to is removed, and nothing where that cannot be told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from provision.templates import render

LIVE, STAGED, GOOD, TRIED, RUNS, OLD = ("a" * 12, "b" * 12, "c" * 12, "d" * 12, "e" * 12, "0123456789ab")
REFERS = {
    "etc/systemd/system/kpro-qwen.service": f"CacheDirectory=kpro/{LIVE}\n",
    "etc/kpro/staged/kpro-qwen.service": f"CacheDirectory=kpro/{STAGED}\n",
    "var/lib/kpro/last-good/qwen/env": f'VLLM_CACHE_ROOT="/var/cache/kpro/{GOOD}/vllm"\n',
    "run/kpro-cutover/qwen/trial.env": f'HOME="/var/cache/kpro/{TRIED}"\n',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in REFERS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in (LIVE, STAGED, GOOD, TRIED, RUNS, OLD, "uv", "wheels", "A" * 12, "abc"):
        folder = tmp_path / "var/cache/kpro" / name
        folder.mkdir(parents=True)
        (folder / "graph").write_text("compiled")
    (tmp_path / "proc/17").mkdir(parents=True)
    (tmp_path / "proc/17/environ").write_bytes(b"A=b\0HOME=/var/cache/kpro/%s\0" % RUNS.encode())
    return tmp_path


def clean(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-s"],
        input=render("caches.sh.j2"),
        env={**os.environ, "ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )


def there(root: Path) -> set[str]:
    return {path.name for path in (root / "var/cache/kpro").iterdir()}


def test_a_cache_that_a_unit_a_trial_the_last_good_one_or_a_process_names_is_kept(root: Path) -> None:
    done = clean(root)
    assert done.returncode == 0, done.stderr
    assert there(root) == {LIVE, STAGED, GOOD, TRIED, RUNS, "uv", "wheels", "A" * 12, "abc"}
    assert f"removed {OLD}" in done.stdout
    assert f"kept {GOOD}" in done.stdout


@pytest.mark.parametrize("name", sorted(REFERS))
def test_each_of_them_alone_is_the_reason(root: Path, name: str) -> None:
    (root / name).write_text("nothing\n")
    clean(root)
    assert len(there(root) & {LIVE, STAGED, GOOD, TRIED}) == 3


def test_what_a_link_shows_is_never_followed_out(root: Path) -> None:
    elsewhere = root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "model.safetensors").write_text("weights")
    (root / "var/cache/kpro" / ("f" * 12)).symlink_to(elsewhere)
    clean(root)
    assert (elsewhere / "model.safetensors").exists()
    assert "f" * 12 in there(root)


def test_where_a_reference_cannot_be_read_nothing_is_removed(root: Path) -> None:
    if os.geteuid() == 0:
        # Root reads every file: a folder in the place of the tool that reads is what root can be stopped by.
        path = root / "bin"
        path.mkdir()
        (path / "find").write_text("#!/bin/sh\nexit 1\n")
        (path / "find").chmod(0o755)
        done = subprocess.run(
            ["sh", "-s"],
            input=render("caches.sh.j2"),
            env={"PATH": f"{path}:/usr/bin:/bin", "ROOT": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
    else:
        (root / "etc/systemd/system/kpro-qwen.service").chmod(0)
        done = clean(root)
    assert done.returncode == 1
    assert "left as they are" in done.stderr
    assert OLD in there(root)


def test_a_second_time_there_is_nothing_to_do(root: Path) -> None:
    clean(root)
    before = there(root)
    assert "removed" not in clean(root).stdout
    assert there(root) == before


def test_without_a_cache_folder_nothing_is_said(tmp_path: Path) -> None:
    done = clean(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
