"""What runs is asked with the key that its process has, where it was last seen generating."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.acts import running, service
from provision.spec import Engine, Guest, Model, Service
from provision.stack.desired import PYTHON, PYZ, DesiredService, desired_service

OLD, NEW = "old-must-not-be-seen$(x)'\"", "new-must-not-be-seen"
ASKED = """\
import json, os, pathlib, sys
words = sys.argv[1:]
key = pathlib.Path(words[-1]).read_text() if "--api-key-file" in words else None
seen = [pathlib.Path(f"/proc/{pid}/{name}").read_text() for pid in (os.getpid(), os.getppid())
        for name in ("cmdline", "environ")]
print(json.dumps({"words": words, "key": key, "leaks": any("must-not-be-seen" in text for text in seen)}))
"""


@dataclass
class Runs:
    """A service whose process runs with some key, and a provcheck that tells what it was asked with."""

    folder: Path
    desired: DesiredService
    key: str | None = None
    pid: int = 0

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        probe = self.folder / "probe.py"
        probe.write_text(ASKED)
        for old, new in ((PYTHON, sys.executable), (PYZ, str(probe)), ("/var/lib", f"{self.folder}/lib")):
            script = script.replace(old, new)
        script = script.replace(self.desired.key_path, str(self.folder / "key"))
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(["sh", "-s"], input=script, capture_output=True, text=True, timeout=30, check=False, env={"PATH": path})  # fmt: skip # noqa: E501

    def ask(self) -> dict[str, Any]:
        done = self.shell(running.asked(self.desired, "serve", ["--model", "tiny"]))
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Callable[..., Runs]]:
    started: list[subprocess.Popen[bytes]] = []

    def make(key: str | None, *, up: bool = True) -> Runs:
        file = tmp_path / "controller.key"
        file.write_text(NEW)
        spec = Service(
            name="tiny",
            engine=Engine(kind="standin", version="1.0.0"),
            model=Model(repo="kpro/tiny", revision="1" * 40),
            port=8001,
            api_key_file=str(file),
        )
        desired = desired_service(Guest(name="llm", backend="lxc", id="c1", services=[spec]), spec)
        (tmp_path / "key").write_text(NEW)
        environment = {"NOTE": "VLLM_API_KEY=no", **({"VLLM_API_KEY": key} if key is not None else {})}
        if up:
            started.append(subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], **environment}))
        pid = started[-1].pid if up else 0
        systemctl = tmp_path / "bin" / "systemctl"
        systemctl.parent.mkdir(exist_ok=True)
        systemctl.write_text(f"#!/bin/sh\necho {pid}\n")
        systemctl.chmod(0o755)
        return Runs(tmp_path, desired, key, pid)

    yield make
    for process in started:
        process.kill()
        process.wait()


def test_the_key_is_the_one_that_the_process_has_and_is_seen_nowhere(runs: Callable[..., Runs]) -> None:
    told = runs(OLD).ask()
    assert (told["key"].strip(), told["leaks"]) == (OLD, False)
    assert told["words"] == [
        "serve", "http://127.0.0.1:8001", "--model", "tiny", "--api-key-file", "/dev/stdin",
    ]  # fmt: skip


@pytest.mark.parametrize(("key", "up"), [(None, True), ("", True), (None, False)])
def test_what_runs_without_a_key_is_asked_without_one(
    runs: Callable[..., Runs], key: str | None, up: bool
) -> None:
    told = runs(key, up=up).ask()
    assert (told["key"], told["words"][-2:]) == (None, ["--model", "tiny"])


def test_it_is_asked_where_it_was_last_seen_generating(runs: Callable[..., Runs]) -> None:
    seen = runs(OLD)
    place = seen.folder / "lib/kpro/good"
    place.mkdir(parents=True)
    (place / "tiny.url").write_text("http://127.0.0.1:9009\n")
    assert seen.ask()["words"][1] == "http://127.0.0.1:9009"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "--diagnose"),
        (NEW, "--diagnose --api-key-file /etc/kpro/tiny.key"),
        (OLD, "the key that it runs with is in /etc/kpro/tiny.env; /etc/kpro/tiny.key has the next one"),
    ],
)
def test_the_command_for_an_operator_has_a_key_that_works(
    monkeypatch: pytest.MonkeyPatch, runs: Callable[..., Runs], key: str | None, said: str
) -> None:
    seen = runs(key)

    def run(host: Any, script: str, **_: Any) -> Any:
        done = seen.shell(script)
        return SimpleNamespace(text=done.stdout, ok=done.returncode == 0)

    monkeypatch.setattr(running.transport, "run", run)
    told = running.by_hand(SimpleNamespace(name="x"), seen.desired)  # type: ignore[arg-type]
    assert told.startswith("provcheck serve http://127.0.0.1:8001 --diagnose")
    assert said in told
    assert "must-not-be-seen" not in told
    assert told.endswith("--diagnose") is (key is None)


def test_the_proof_that_a_service_generates_goes_by_the_key_of_what_runs(
    monkeypatch: pytest.MonkeyPatch, runs: Callable[..., Runs]
) -> None:
    seen = runs(OLD)
    monkeypatch.setattr(service.transport, "run", lambda host, script, **_: seen.shell(script))
    done: Any = service.prove(SimpleNamespace(name="x"), seen.desired)  # type: ignore[arg-type]
    told = json.loads(done.stdout)
    assert told["key"].strip() == OLD
    assert told["words"][:2] == ["_generate", "http://127.0.0.1:8001"]
    assert "--once" in told["words"]
