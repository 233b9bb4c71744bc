"""Every inventory of the repository is planned against a recorded machine, so none of them rots.

A row says which machine stands for the inventory, how the plan ends, and for which fields it is refused. An
inventory without a row fails the test, and so does a recorded machine that no row uses.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from provision.data import demo
from provision.inventory import load
from provision.plan import PHASES, Plan
from provision.run.recorded import plan_recorded

REFUSED, PENDING = 3, 10


@dataclass(frozen=True)
class Row:
    """``steps`` are the steps of the runbook that have something to do, also beside a refusal."""

    inventory: str
    machine: str
    exit_code: int
    refused: tuple[str, ...]
    steps: frozenset[int]
    note: str


_STACK = frozenset({8, 10})

TABLE = (
    Row("kpro5", "kpro5", PENDING, (), _STACK | {5, 6, 7}, "GPUs ready, the container is made"),
    Row(
        "kpro5",
        "kpro5-locked",
        REFUSED,
        ("GPU 0000:42:00.0", "GPU 0000:61:00.0"),
        _STACK | {2, 3, 5, 6, 7},
        "both GPUs on vfio-pci and listed by a stopped virtual machine, the container is made",
    ),
    Row("kpro6", "kpro6", PENDING, (), _STACK | {5}, "container runs, nothing of kpro in it"),
    Row("fleet", "fleet", PENDING, (), _STACK | {5}, "one recorded host stands for all six"),
    Row("demo_quick", "plain", PENDING, (), _STACK | {6}, "Debian with LXC and without a GPU"),
    Row(
        "demo",
        "plain",
        REFUSED,
        (
            "machine.gpus[0].bdf",
            "machine.gpus[1].bdf",
            "machine.gpu_count",
            "machine.driver.route",
        ),
        _STACK | {5, 6, 7},
        "the same machine: its virtual host's GPUs are not there",
    ),
)


@pytest.fixture
def demo_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the demonstration would have made: only their being there matters to a plan."""
    monkeypatch.setenv("KPRO_DEMO_DIR", str(tmp_path))
    (tmp_path / "id").touch()
    state = {
        "host": "127.0.0.1",
        "port": 40022,
        "key": str(tmp_path / "id"),
        "known_hosts": str(tmp_path / "id"),
    }
    (tmp_path / demo.HOST_FILE).write_text(json.dumps(state))
    (machine,) = load("demo", files="none", names=False).machines
    service = machine.guests[0].services[0]
    for folder, file in (
        (service.engine.wheelhouse, "kpro_standin-1.0.0-py3-none-any.whl"),
        (service.model.folder, "config.json"),
    ):
        assert folder is not None
        assert folder.is_relative_to(tmp_path)
        folder.mkdir(parents=True)
        (folder / file).write_text("{}")


def plan(inventory: str, tree: Path) -> tuple[int, list[Plan]]:
    """The plans of an inventory against a recorded machine, and how ``provision plan`` ends with them."""
    plans = plan_recorded(load(inventory, names=False), (), PHASES, tree)
    if any(found.refusals for found in plans):
        return REFUSED, plans
    return (PENDING if any(found.items for found in plans) else 0), plans


def refused(plans: list[Plan]) -> list[str]:
    return [refusal.where for found in plans for refusal in found.refusals]


@pytest.fixture
def machines(repo_root: Path) -> Path:
    return repo_root / "tests" / "replay" / "machines"


def test_every_inventory_has_a_recorded_machine_and_every_recorded_machine_an_inventory(
    repo_root: Path, machines: Path
) -> None:
    assert {row.inventory for row in TABLE} == {
        path.stem for path in (repo_root / "inventories").glob("*.py")
    }
    assert {row.machine for row in TABLE} == {path.name for path in machines.iterdir()}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.inventory}-{row.machine}")
def test_the_inventory_is_planned_against_its_machine(row: Row, machines: Path, demo_files: None) -> None:
    code, plans = plan(row.inventory, machines / row.machine)
    assert code == row.exit_code, plans
    assert sorted(refused(plans)) == sorted(row.refused)
    for found in plans:
        assert {int(item.step) for item in found.items} == row.steps, row.note


@pytest.mark.parametrize("row", [TABLE[1], TABLE[2]], ids=lambda row: f"{row.inventory}-{row.machine}")
def test_the_program_itself_ends_so_and_tells_it_in_json(row: Row, machines: Path) -> None:
    program = "from provision.cli import main; main()"
    done = subprocess.run(
        [
            *(sys.executable, "-c", program),
            *("plan", row.inventory, "--sysroot", str(machines / row.machine), "--json"),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == row.exit_code, done.stderr
    (machine,) = json.loads(done.stdout)["machines"]
    assert sorted(refusal["where"] for refusal in machine["refusals"]) == sorted(row.refused)


@pytest.mark.parametrize(
    ("old", "new", "field", "seen"),
    [
        ('Gpu(bdf="42:00.0"', 'Gpu(bdf="43:00.0"', "machine.gpus[0].bdf", "no NVIDIA GPU at 0000:43:00.0"),
        (
            'Gpu(bdf="61:00.0"',
            'Gpu(bdf="c3:00.0"',
            "machine.gpus[1].bdf",
            "GPUs are at 0000:42:00.0, 0000:61:00.0",
        ),
        ("gpu_count=2", "gpu_count=3", "machine.gpu_count", "says 3 NVIDIA GPUs, the machine has 2"),
        (
            'source="/tank/models"',
            'source="/tank/modles"',
            "machine.guests[0].mounts[0].source",
            "/tank/modles",
        ),
    ],
)
def test_an_inventory_that_is_not_like_the_machine_is_refused_with_the_field(
    repo_root: Path, machines: Path, tmp_path: Path, old: str, new: str, field: str, seen: str
) -> None:
    text = (repo_root / "inventories" / "kpro6.py").read_text()
    assert old in text
    changed = tmp_path / "kpro6.py"
    text = text.replace(old, new)
    if "bdf" in old:
        text = text.replace(old.split("=")[1], new.split("=")[1])
    changed.write_text(text)
    code, plans = plan(str(changed), machines / "kpro6")
    assert code == REFUSED
    # A path that is wrong may also be missing from a container that has the right one.
    assert refused(plans)[0] == field
    assert set(refused(plans)) <= {field, "machine.guests[0]"}
    assert seen in plans[0].refusals[0].seen


@pytest.mark.parametrize("model", ["RTX A6000", "V100", "RTX A6O00", "A", "A600", "RTX A6000 Ti"])
def test_a_locked_gpu_is_compared_by_the_name_that_the_bus_gives_it(
    repo_root: Path, machines: Path, tmp_path: Path, model: str
) -> None:
    changed = tmp_path / "kpro5.py"
    text = (repo_root / "inventories" / "kpro5.py").read_text()
    changed.write_text(
        text.replace('Gpu(bdf="42:00.0", model="RTX A6000")', f'Gpu(bdf="42:00.0", model="{model}")')
    )
    _, plans = plan(str(changed), machines / "kpro5-locked")
    assert ("machine.gpus[0].model" in refused(plans)) == (model != "RTX A6000")


@pytest.mark.parametrize(
    "model", ["RTX A6000", "NVIDIA RTX A6000", "A6000", "10de:2230", "RTX A600", "A", "10de:2231"]
)
def test_a_gpu_is_compared_by_the_name_that_its_driver_gives_it(
    repo_root: Path, machines: Path, tmp_path: Path, model: str
) -> None:
    changed = tmp_path / "kpro6.py"
    text = (repo_root / "inventories" / "kpro6.py").read_text()
    changed.write_text(
        text.replace('Gpu(bdf="42:00.0", model="RTX A6000")', f'Gpu(bdf="42:00.0", model="{model}")')
    )
    _, plans = plan(str(changed), machines / "kpro6")
    assert ("machine.gpus[0].model" in refused(plans)) == (model in ("RTX A600", "A", "10de:2231"))


@pytest.mark.parametrize(
    ("old", "new"),
    [('version="580.159.04"', 'version="580.178.04"'), ('flavour="open"', 'flavour="proprietary"')],
)
def test_another_driver_than_the_loaded_one_waits_for_a_reboot_while_that_one_is_in_use(
    repo_root: Path, machines: Path, tmp_path: Path, old: str, new: str
) -> None:
    changed = tmp_path / "kpro6.py"
    changed.write_text((repo_root / "inventories" / "kpro6.py").read_text().replace(old, new))
    tree = tmp_path / "machine"
    subprocess.run(["cp", "-a", str(machines / "kpro6"), str(tree)], check=True)
    for name, said in (("apt-driver", "Inst x (580.178.04-1 NVIDIA CUDA:x [amd64])\n"), ("dpkg-audit", "")):
        (tree / f".kpro/cmd/{name}.out").write_text(said)
        (tree / f".kpro/cmd/{name}.rc").write_text("0\n")
    _, (found,) = plan(str(changed), tree)
    assert refused([found]) == []
    assert found.of("driver.install", "kpro6")
    (reboot,) = found.of("reboot", "kpro6")
    assert "580.159.04 (open) is in use by process 1733 (/usr/bin/nvidia-persistenced" in reboot.text
    assert not found.of("driver.load", "kpro6")
    (tree / ".kpro/cmd/openers.out").write_text("")
    modules = tree / "proc/modules"
    modules.write_text(modules.read_text().replace("14393344 6 ", "14393344 2 "))
    _, (found,) = plan(str(changed), tree)
    assert not found.of("reboot", "kpro6")
    assert found.of("driver.load", "kpro6")


@pytest.mark.parametrize(
    "missing", [".kpro/cmd/id-u.out", ".kpro/cmd/pct-status-106.out", "proc/driver/nvidia/version"]
)
def test_what_a_recorded_machine_does_not_tell_is_never_taken_for_well(
    repo_root: Path, machines: Path, tmp_path: Path, missing: str
) -> None:
    tree = tmp_path / "machine"
    subprocess.run(["cp", "-a", str(machines / "kpro6"), str(tree)], check=True)
    assert plan("kpro6", tree)[0] == PENDING
    (tree / missing).unlink()
    code, plans = plan("kpro6", tree)
    assert code == REFUSED, plans


def test_the_demonstration_s_container_is_the_one_that_was_recorded_as_absent(machines: Path) -> None:
    assert (machines / "plain" / ".kpro" / "cmd" / f"lxc-info-{demo.CONTAINER}.out").is_file()
