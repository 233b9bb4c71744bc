"""The commands themselves: usage, exit codes, one JSON document, and that a tree needs no pyinfra."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from provision.cli import main

MACHINES = Path(__file__).resolve().parents[2] / "replay" / "machines"


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def test_an_inspection_needs_an_inventory_or_a_tree() -> None:
    assert run("inspect").exit_code == 2
    assert run("inspect", "--sysroot", "/nowhere").exit_code == 2
    assert run("inspect", "--limit", "x", "--sysroot", str(MACHINES / "kpro5")).exit_code == 2


def test_a_wrong_inventory_is_one_document_and_two() -> None:
    ended = run("inspect", "nothing-is-called-so", "--sysroot", str(MACHINES / "kpro5"), "--json")
    assert ended.exit_code == 2
    assert json.loads(ended.stdout)["exit"] == 2


def test_with_an_inventory_its_gpus_are_told_from_others() -> None:
    ended = run("inspect", "kpro5", "--sysroot", str(MACHINES / "kpro5-locked"), "--json")
    assert ended.exit_code == 0
    (machine,) = json.loads(ended.stdout)["machines"]
    assert machine["machine"] == "kpro5"
    assert [gpu["in_inventory"] for gpu in machine["gpus"]] == [True, True]


def test_a_tree_is_shown_without_pyinfra_being_imported() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom provision.cli import main\n"
        f"done = CliRunner().invoke(main, ['inspect', '--sysroot', {str(MACHINES / 'kpro5')!r}])\n"
        "assert done.exit_code == 0 and '0000:42:00.0' in done.stdout, done\n"
        "assert not {'pyinfra', 'gevent', 'paramiko'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("args", [("record",), ("record", "@local"), ("status",)])
def test_what_is_missing_is_usage(args: tuple[str, ...]) -> None:
    assert run(*args).exit_code == 2


def test_a_record_of_this_machine_is_planned_and_inspected_as_it_is(tmp_path: Path) -> None:
    """In a process of its own: pyinfra patches the one that it is imported in."""

    def provision(*args: str) -> subprocess.CompletedProcess[str]:
        code = "from provision.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, *args], capture_output=True, text=True, check=False
        )

    target, box = tmp_path / "tree", tmp_path / "box.py"
    box.write_text(
        "from provision.spec import Driver, Gpu, Guest, Machine\n"
        "metal, guests = Machine(name='box', gpus=[Gpu(bdf='42:00.0', model='A6000')], "
        "driver=Driver(version='580.159.04', route='run'), "
        "guests=[Guest(name='g', backend='lxc', id='kpro-nowhere')]).pyinfra_groups()\n"
    )
    done = provision("record", str(box), str(target), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] > 20
    again = provision("record", str(box), str(target))
    assert (again.returncode, "not empty" in again.stderr) == (2, True)
    for command in ("plan", "inspect"):
        live = json.loads(provision(command, str(box), "--json").stdout)["machines"][0]
        told = json.loads(provision(command, str(box), "--json", "--sysroot", str(target)).stdout)[
            "machines"
        ][0]
        for part in ("items", "refusals", "notes") if command == "plan" else ("gpus", "holders"):
            assert told[part] == live[part], (command, part)
