"""The inventories of the repository: they load, tell the real story, and differ in data only."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any

import pytest

from provision.data import demo
from provision.inventory import Inventory, InventoryRefused, load
from provision.spec import Machine

NAMES = ("demo", "demo_quick", "fleet", "kpro5", "kpro6")


def virtual_host(folder: Path, **change: Any) -> Path:
    """A demonstration's folder while its virtual host is up; ``change`` spoils what the file says."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "id").touch()
    (folder / "known_hosts").touch()
    state = {"host": "127.0.0.1", "port": 40022, "pid": os.getpid()}
    state |= {name: str(folder / file) for name, file in (("key", "id"), ("known_hosts", "known_hosts"))}
    (folder / demo.HOST_FILE).write_text(json.dumps(state | change))
    return folder


@pytest.fixture(scope="module")
def loaded(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Inventory]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KPRO_DEMO_DIR", str(virtual_host(tmp_path_factory.mktemp("demo"))))
        return {
            name: load(str(repo_root / "inventories" / f"{name}.py"), files="none", names=False)
            for name in NAMES
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


def test_the_demo_locks_two_gpus_and_takes_them_from_there_to_a_service(
    loaded: dict[str, Inventory],
) -> None:
    (machine,) = loaded["demo"].machines
    assert machine.ssh is not None
    assert (machine.ssh.host, machine.ssh.port, machine.ssh.user) == ("127.0.0.1", 40022, "root")
    assert machine.ssh.key is not None
    assert machine.ssh.key.endswith("/id")
    assert machine.ssh.known_hosts is not None
    assert (machine.managed, machine.reboot, machine.gpu_count) == (True, "allowed", 2)
    assert [(gpu.bdf, gpu.model) for gpu in machine.gpus] == [
        ("0000:01:00.0", "RTX A6000"),
        ("0000:02:00.0", "RTX A6000"),
    ]
    assert machine.driver is not None
    assert (machine.driver.version, machine.driver.flavour, machine.driver.route) == (
        "535.261.03",
        "open",
        "prebuilt",
    )
    (guest,) = machine.guests
    assert guest.gpus == tuple(gpu.bdf for gpu in machine.gpus)
    assert (guest.backend, guest.userspace) == ("lxc", "bind")
    assert guest.services[0].replay == demo.record()
    assert demo.record().is_file()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (None, "none is up"),
        ({"pid": 2**22 + 1}, "it ended"),
        ({"port": "22"}, "port must be a number"),
        ({"port": 0}, "port must be a number"),
        ({"key": "/nowhere/id"}, "key /nowhere/id is not there"),
        ({"known_hosts": ""}, "known_hosts must be a text"),
        ({"pid": True}, "pid must be a process number"),
    ],
)
def test_without_a_virtual_host_the_demo_says_what_to_do(
    change: dict[str, Any] | None,
    said: str,
    repo_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KPRO_DEMO_DIR", str(tmp_path))
    if change is not None:
        virtual_host(tmp_path, **change)
    with pytest.raises(InventoryRefused) as refused:
        load(str(repo_root / "inventories" / "demo.py"), files="none", names=False)
    (reason,) = refused.value.reasons
    assert said in reason
    assert "provision demo --keep" in reason
    assert "demo_quick.py" in reason


@pytest.mark.parametrize("text", ["", "{", "[]", "\u0000"])
def test_a_spoilt_file_of_the_virtual_host_is_no_traceback(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPRO_DEMO_DIR", str(tmp_path))
    (tmp_path / demo.HOST_FILE).write_text(text)
    with pytest.raises(demo.NoVirtualHost, match="Remove it"):
        demo.host()


def test_the_quick_demo_needs_no_gpu_and_touches_no_driver(loaded: dict[str, Inventory]) -> None:
    (machine,) = loaded["demo_quick"].machines
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
    path = str(repo_root / "inventories" / "demo_quick.py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KPRO_DEMO_DIR", raising=False)

    def wheelhouse() -> Path | None:
        return load(path, files="none").machines[0].guests[0].services[0].engine.wheelhouse

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
        for name in ("demo", "demo_quick", "kpro5", "kpro6")
    }
    assert shapes["demo"] == shapes["demo_quick"] == shapes["kpro5"] == shapes["kpro6"]
    assert shapes["demo"] == [
        "Expr [] ",
        "Assign ['machine'] Machine",
        "Assign ['(metal, guests)'] machine.pyinfra_groups",
    ]
