"""The built wheel, installed where no checkout is near, does what the checkout does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

OUTSIDE = {"deploy.py": "provision/_deploy.py", "config.py": "provision/_config.py"}
FOLDERS = {"templates": "provision/_templates", "inventories": "provision/_inventories"}


@pytest.fixture(scope="session")
def wheel(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [
            "uv",
            "build",
            "--quiet",
            "--wheel",
            "--no-build-isolation",
            "--python",
            sys.executable,
            "-o",
            out,
            ".",
        ],
        cwd=repo_root,
        check=True,
    )
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(repo_root: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment that has the wheel and nothing of the checkout."""
    env = tmp_path_factory.mktemp("tool") / "env"
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, env], check=True)
    lock = repo_root / "requirements.lock"
    subprocess.run(
        ["uv", "pip", "install", "--quiet", "--python", env / "bin/python", "-c", lock, wheel], check=True
    )
    return env / "bin"


def run(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [program, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def test_the_wheel_carries_every_file_that_the_checkout_runs_with(repo_root: Path, wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {target for source, target in OUTSIDE.items() if (repo_root / source).exists()}
    for source, target in (FOLDERS | {"provision": "provision", "checks": "checks"}).items():
        wanted |= {
            f"{target}/{path.relative_to(repo_root / source)}"
            for path in (repo_root / source).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
    assert wanted - inside == set()


def test_the_wheel_carries_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"provision", "checks"}


@pytest.mark.parametrize("script", ["provision", "provcheck"])
def test_both_commands_answer_help_anywhere(installed: Path, tmp_path: Path, script: str) -> None:
    done = run(installed / script, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage:" in done.stdout


def test_no_gpus_wanted_and_none_there_passes(installed: Path, tmp_path: Path) -> None:
    done = run(installed / "provcheck", "gpus", "--expect", "0", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_more_gpus_wanted_than_there_are_does_not_pass(installed: Path, tmp_path: Path) -> None:
    done = run(installed / "provcheck", "gpus", "--expect", "99", cwd=tmp_path)
    assert done.returncode in (1, 3), done.stdout + done.stderr


@pytest.mark.parametrize("name", ["systemd", "slurm", "node-exporter", "kubernetes", "npd"])
def test_the_wheel_hands_out_the_files_of_the_checkout(
    repo_root: Path, installed: Path, tmp_path: Path, name: str
) -> None:
    done = run(installed / "provcheck", "integrate", name, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in {path.read_text() for path in (repo_root / "templates/integrations").iterdir()}


@pytest.mark.parametrize("command", ["load", "nccl"])
def test_without_gpus_what_needs_them_is_never_green(installed: Path, tmp_path: Path, command: str) -> None:
    done = run(installed / "provcheck", command, "--json", cwd=tmp_path)
    assert done.returncode in (1, 3), done.stdout + done.stderr
    assert json.loads(done.stdout)["verdict"] in ("fail", "unknown")


def test_pyinfra_finds_the_guest_connector(installed: Path, tmp_path: Path) -> None:
    load = (
        "from gevent.monkey import patch_all; patch_all()\n"
        "from importlib.metadata import entry_points\n"
        "print(entry_points(group='pyinfra.connectors')['guest'].load().__name__)"
    )
    done = run(installed / "python", "-c", load, cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("GuestConnector", "")


@pytest.mark.parametrize(
    ("inventory", "machine", "code"), [("kpro6", "kpro6", 10), ("kpro5", "kpro5-locked", 3)]
)
def test_a_recorded_machine_is_planned_from_anywhere(
    repo_root: Path, installed: Path, tmp_path: Path, inventory: str, machine: str, code: int
) -> None:
    """The wheel's own inventories: changes are pending for the one, the other's GPUs are locked: refused."""
    tree = repo_root / "tests/replay/machines" / machine
    done = run(installed / "provision", "plan", inventory, "--sysroot", str(tree), "--json", cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert json.loads(done.stdout)["schema"] == "provision/1"
