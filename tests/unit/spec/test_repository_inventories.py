"""The inventories of the repository: they load, tell the real story, and differ in data only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from provision.data import demo
from provision.inventory import Inventory, load
from provision.spec import Machine

NAMES = ("demo", "fleet", "kpro5", "kpro6")


@pytest.fixture(scope="module")
def loaded(repo_root: Path) -> dict[str, Inventory]:
    return {
        name: load(str(repo_root / "inventories" / f"{name}.py"), files=False, names=False) for name in NAMES
    }


def test_every_inventory_file_is_under_test(repo_root: Path) -> None:
    assert sorted(path.stem for path in (repo_root / "inventories").glob("*.py")) == sorted(NAMES)


@pytest.mark.parametrize("name", ["kpro5", "kpro6"])
def test_the_story_s_machines_are_as_they_were(loaded: dict[str, Inventory], name: str) -> None:
    (machine,) = loaded[name].machines
    assert machine.name == name
    assert [gpu.bdf for gpu in machine.gpus] == ["0000:42:00.0", "0000:61:00.0"]
    assert {gpu.model for gpu in machine.gpus} == {"RTX A6000"}
    (guest,) = machine.guests
    assert guest.backend == "pct"
    assert guest.gpus == tuple(gpu.bdf for gpu in machine.gpus)
    assert [(mount.target, mount.read_only) for mount in guest.mounts] == [("/srv/models", True)]
    (service,) = guest.services
    assert (service.engine.kind, service.profile) == ("sglang", "sglang-mtp")
    assert service.model.repo == "Qwen/Qwen3.6-27B"
    assert service.baseline is not None
    assert service.baseline.decode_tok_s == 73.5
    assert service.baseline.concurrency == 1
    assert service.baseline.source


def test_kpro5_tries_dflash_on_vllm_and_kpro6_tries_nothing(loaded: dict[str, Inventory]) -> None:
    candidate = loaded["kpro5"].machines[0].guests[0].services[0].candidate
    assert candidate is not None
    assert (candidate.engine.kind, candidate.engine.version) == ("vllm", "0.20.1")
    assert candidate.profile == "vllm-dflash"
    assert candidate.drafter is not None
    assert loaded["kpro6"].machines[0].guests[0].services[0].candidate is None


@pytest.mark.parametrize("name", ["kpro5", "kpro6", "fleet"])
def test_what_is_invented_is_marked_so(repo_root: Path, name: str) -> None:
    text = (repo_root / "inventories" / f"{name}.py").read_text()
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if "revision=" in line:
            assert "invented commit" in " ".join(lines[max(0, index - 5) : index]), f"line {index + 1}"
    assert "nvented addresses" in text or "host names are invented" in text


def test_a_fleet_is_many_machines_of_one_kind(loaded: dict[str, Inventory]) -> None:
    machines = loaded["fleet"].machines
    assert len(machines) == 6
    assert all(machine.ssh and machine.ssh.host.endswith(".example") for machine in machines)
    assert len({_without_names(machine) for machine in machines}) == 1


def _without_names(machine: Machine) -> str:
    guest = machine.guests[0].model_copy(update={"id": "100"})
    return machine.model_copy(update={"name": "x", "ssh": None, "guests": (guest,)}).model_dump_json()


def test_the_demo_needs_no_gpu_and_touches_no_driver(loaded: dict[str, Inventory]) -> None:
    (machine,) = loaded["demo"].machines
    assert machine.host_name == "@local"
    assert not machine.managed
    assert machine.gpus == ()
    (guest,) = machine.guests
    assert (guest.backend, guest.id) == ("lxc", demo.CONTAINER)
    (service,) = guest.services
    assert (service.engine.kind, service.engine.version, service.engine.source) == (
        "standin",
        "1.0.0",
        "wheel",
    )
    assert service.port == 18480
    assert service.loopback


def test_the_demo_s_files_lie_where_it_is_told(
    repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(repo_root / "inventories" / "demo.py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KPRO_DEMO_DIR", raising=False)

    def wheelhouse() -> Path | None:
        return load(path, files=False).machines[0].guests[0].services[0].engine.wheelhouse

    assert wheelhouse() == tmp_path / "cache" / "kpro" / "demo" / "wheels"
    monkeypatch.setenv("KPRO_DEMO_DIR", str(tmp_path / "mine"))
    assert wheelhouse() == tmp_path / "mine" / "wheels"


def _shape(text: str) -> list[str]:
    """The statements of a file without its imports, and what each of them calls or binds."""
    shape = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [ast.unparse(target) for target in node.targets] if isinstance(node, ast.Assign) else []
        called = (
            ast.unparse(node.value.func)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            else ""
        )
        shape.append(f"{type(node).__name__} {names} {called}")
    return shape


def test_demo_and_the_real_machines_differ_in_data_only(repo_root: Path) -> None:
    shapes = {
        name: _shape((repo_root / "inventories" / f"{name}.py").read_text())
        for name in ("demo", "kpro5", "kpro6")
    }
    assert shapes["demo"] == shapes["kpro5"] == shapes["kpro6"]
    assert shapes["demo"] == [
        "Expr [] ",
        "Assign ['machine'] Machine",
        "Assign ['(metal, guests)'] machine.pyinfra_groups",
    ]
