"""What must lie on the controller is looked for before anything is begun, and named by its field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

FIELD = "machine.guests[0].services[1]"
MODEL = 'model=Model(repo="a/target", revision="1" * 40),\n                    profile="plain"'
NO_MOUNT = ('mounts=[Mount(source="/tank/models", target="/srv/models")],', "")


def only(desk: Any, *changes: tuple[str, str]) -> str:
    reasons = desk.reasons(*changes, files="all")
    assert len(reasons) == 1, reasons
    return str(reasons[0])


def test_a_wheelhouse_must_hold_wheels(desk: Any, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    change = ('version="0.20.1")', f'version="0.20.1", source="wheel", wheelhouse="{wheels}")')
    assert f"{FIELD}.engine.wheelhouse: there is no folder" in only(desk, change)
    wheels.mkdir()
    assert f"{FIELD}.engine.wheelhouse: no wheel (*.whl) lies in" in only(desk, change)
    (wheels / "vllm-0.20.1-py3-none-any.whl").touch()
    assert desk.load(change, files="all")


def test_a_folder_of_model_files_must_be_there_and_hold_something(desk: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    change = (MODEL, MODEL.replace("* 40", f'* 40, folder="{folder}"'))
    assert f"{FIELD}.model.folder: there is no folder" in only(desk, change, NO_MOUNT)
    folder.mkdir()
    assert f"{FIELD}.model.folder: {folder} is empty" in only(desk, change, NO_MOUNT)
    (folder / "config.json").touch()
    assert desk.load(change, NO_MOUNT, files="all")


def test_a_key_must_be_a_secret(desk: Any, tmp_path: Path) -> None:
    key = tmp_path / "key"
    change = ("port=8001", f'listen="0.0.0.0", api_key_file="{key}", port=8001')
    assert f"{FIELD}.api_key_file: {key} cannot be looked at" in only(desk, change)
    key.mkdir(mode=0o700)
    assert "is no regular file" in only(desk, change)
    key.rmdir()
    key.touch(mode=0o600)
    assert "is empty" in only(desk, change)
    for text, said in (
        (b" \n", "holds no key"),
        (b"a\nb\n", "more than one line"),
        (b"a\rb", "more than one line"),
    ):
        key.write_bytes(text)
        assert said in only(desk, change)
    key.write_bytes(b"\xff")
    assert "cannot be read as text" in only(desk, change)
    key.write_text("first\n")
    assert desk.load(change, files="all").machines
    key.write_text("sesame\n")
    for mode in (0o644, 0o640, 0o604, 0o620):
        key.chmod(mode)
        reason = only(desk, change)
        assert f"is open to others than its owner (mode {mode:04o})" in reason
        assert f"chmod 600 {key}" in reason
        assert "sesame" not in reason
    key.chmod(0o600)
    assert desk.load(change, files="all")


def test_a_record_for_the_gate_must_be_there(desk: Any, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    change = ("port=8001", f'replay="{record}", port=8001')
    assert f"{FIELD}.replay: there is no file {record}" in only(desk, change)
    record.write_text("{}")
    assert desk.load(change, files="all")


@pytest.mark.parametrize("name", ["key", "known_hosts"])
def test_ssh_files_must_be_there(desk: Any, tmp_path: Path, name: str) -> None:
    file = tmp_path / "file"
    change = ('host="node1.example"', f'host="node1.example", {name}="{file}"')
    assert f"machine.ssh.{name}: there is no file {file}" in only(desk, change)
    file.touch()
    assert desk.load(change, files="all")


def test_a_tilde_is_the_operator_s_home(desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("sesame")
    (tmp_path / "key").chmod(0o600)
    inventory = desk.load(("port=8001", 'api_key_file="~/key", port=8001'), files="all")
    assert inventory.machines[0].guests[0].services[1].api_key_file == tmp_path / "key"


def test_a_recorded_machine_can_be_planned_without_the_files(desk: Any, tmp_path: Path) -> None:
    change = ("port=8001", f'replay="{tmp_path}/none", port=8001')
    assert desk.load(change, files="none")
