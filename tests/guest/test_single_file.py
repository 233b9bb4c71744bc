"""The single file under the distribution's own python3, in a root that has nothing else: Debian 12 and 13."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable

import pytest

from checks import pack
from provision.guest import root
from tests.guest import apart
from tests.guest.conftest import CACHE

Run = Callable[..., subprocess.CompletedProcess[str]]
USUAL_START_S = 0.5


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``bare("gpus", ...)`` runs the single file with the suite's /usr/bin/python3, in a chroot, with no network."""
    if os.geteuid() != 0:
        pytest.fail("the guest tier needs root")
    script = root.build_script(request.param, folder=str(CACHE))
    built = subprocess.run(
        [*apart.outside, "sh", "-s"],
        input=script,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-3000:]
    tree = tmp_path_factory.mktemp(request.param)
    unpack = ["tar", "-C", str(tree), "--numeric-owner", "--exclude=./dev/*", "-xf", built.stdout.strip()]
    subprocess.run(unpack, check=True, timeout=120)
    pack.build(tree / "provcheck.pyz")

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        inside = ["chroot", str(tree), "/usr/bin/python3", "-I", "/provcheck.pyz", *args]
        return subprocess.run(
            [
                "unshare",
                "--mount",
                "--net",
                "--",
                "sh",
                "-c",
                f'mount -t proc proc {tree}/proc; mount --rbind /dev {tree}/dev; exec "$@"',
                "sh",
                *inside,
            ],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_every_command_runs_under_the_distributions_python(bare: Run) -> None:
    for args in (
        ("gpus", "--expect", "0"),
        ("explain", "gpu.row_remap"),
        ("explain", "--list"),
        ("integrate", "slurm"),
        ("completion", "bash"),
        ("bundle", "--output", "/tmp/b.tar.gz"),
        ("all", "--expect", "0"),
    ):
        ran = bare(*args)
        assert ran.returncode == 0, (args, ran.stderr)
        assert ran.stdout
        assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("command", ["load", "nccl"])
def test_without_gpus_what_needs_them_is_never_green(bare: Run, command: str) -> None:
    ran = bare(command, "--json")
    assert "Traceback" not in ran.stderr, ran.stderr
    report = json.loads(ran.stdout)
    assert report["verdict"] in ("unknown", "fail")
    assert ran.returncode in (1, 3)
    assert all(finding["message"] for finding in report["findings"])


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "junit", "prometheus", "nagios"])
def test_every_form_is_there(bare: Run, form: str) -> None:
    ran = bare("gpus", "--expect", "0", "--format", form)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


def test_it_starts_fast_enough_for_a_gate(bare: Run) -> None:
    def once() -> float:
        start = time.monotonic()
        bare("gpus", "--expect", "0")
        return time.monotonic() - start

    took = min(once() for _ in range(3))
    print(f"gpus --expect 0: {took:.2f} s")  # noqa: T201
    assert took < 4 * USUAL_START_S
