"""How the demonstration ends when a part does not: with its own code, and the reason alone when nothing booted."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.data import demo
from provision.testhost import demo_vm
from provision.testhost.vm.errors import TestHostBusy, TestHostError


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_vm.demo_files, "prepare", lambda folder: None)
    monkeypatch.setattr(demo_vm, "_image", lambda: SimpleNamespace(kernel="6.1.0-50-amd64"))
    monkeypatch.setattr(demo_vm, "_driver", lambda kernel: 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TestHostBusy("a test host runs already (somebody, pid 7)"), 4),
        (TestHostError("it does not boot"), 1),
        (OSError("no space left"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_a_host_that_does_not_come_up_ends_it_with_the_reason_and_no_report(
    built: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
) -> None:
    def fails(*words: object, **more: Any) -> None:
        raise error

    monkeypatch.setattr(demo_vm, "VirtualHost", fails)
    assert demo_vm.run(None, keep=False) == code
    said = capsys.readouterr().err
    assert (str(error) or "interrupted") in said
    assert "not shown" not in said


def test_a_driver_that_is_not_built_ends_it_with_the_builders_code(
    built: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_vm, "_driver", lambda kernel: 3)
    assert demo_vm.run(None, keep=False) == 3
    assert "the driver could not be built" in capsys.readouterr().err


def test_the_file_of_a_killed_demonstration_is_forgotten_and_that_of_one_that_answers_is_not(
    tmp_path: Path,
) -> None:
    for name in ("id", "known_hosts"):
        (tmp_path / name).touch()
    path = demo.folder(demo.HOST_FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket() as up:
        up.bind(("127.0.0.1", 0))
        up.listen()
        port = up.getsockname()[1]
        state = {"host": "127.0.0.1", "port": port, "key": str(tmp_path / "id")}
        state["known_hosts"] = str(tmp_path / "known_hosts")
        path.write_text(json.dumps(state))
        demo_vm._forget_the_dead()
        assert path.exists()
    demo_vm._forget_the_dead()
    assert not path.exists()
    path.write_text("{cut")
    demo_vm._forget_the_dead()
    assert not path.exists()
