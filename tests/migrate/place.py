"""A service to move: inventories of both hosts, the stand-in engine, a model, and the real programs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.testhost import demo_files
from tests.controller import BIN, Operator
from tests.migrate.rig import GUEST, Host, Pair

PORT = 8000
KEY = "sk-of-the-pair-0123456789"
"""Seen in no argument, journal, report or output of a migration."""

_INVENTORY = """\
from provision.spec import Engine, ExtraPath, Guest, HAProxy, Hooks, Machine, Migration, Model, Mount, Service, Ssh

machine = Machine(
    name={name!r},
    ssh=Ssh(**{ssh!r}),
    managed=False,
    guests=[
        Guest(
            name="llm",
            backend="lxc",
            id={guest!r},
            network="host",
            mounts=[Mount(source=path, target=path, read_only=False) for path in {mounts}],
            services=[
                Service(
                    **dict(
                        name="tiny",
                        engine=Engine(kind="standin", version="1.0.0", source="wheel", wheelhouse={wheels!r}),
                        model=Model(repo="kpro/tiny", revision={revision!r}, folder={folder!r}),
                        listen={listen!r},
                        port={port},
                        api_key_file={key!r},
                        ready_seconds=60,
                        migration={migration},
                    )
                    | {more}
                )
            ],
        )
    ],
)
metal, guests = machine.pyinfra_groups()
"""


@dataclass
class Place(Operator):
    """``folder`` holds the inventories ``a.py`` and ``b.py``; programs run in the pair's network."""

    pair: Pair
    files: Path = field(init=False)

    def __post_init__(self) -> None:
        self.files = self.folder / "files"
        demo_files.prepare(self.files)
        self.key.write_text(f"{KEY}\n")
        self.key.chmod(0o600)

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def inventory(self) -> Path:
        return self.folder / "a.py"

    def write(
        self,
        *hosts: Host,
        migration: str = "Migration(watch_seconds=5)",
        mounts: tuple[str, ...] = (),
        **more: object,
    ) -> None:
        """The inventories of these hosts (none: both); ``migration``: as an operator writes it; ``mounts``: folders of
        the machines that are seen in the guests under the same paths; ``more`` are further arguments of the service."""
        for host in hosts or (self.pair.a, self.pair.b):
            text = _INVENTORY.format(
                name=host.name,
                ssh=host.ssh().model_dump(exclude_none=True),
                guest=GUEST,
                wheels=str(demo_files.wheel_folder(self.files)),
                revision=demo_files.DEMO_REVISION,
                folder=str(demo_files.model_folder(self.files)),
                listen=host.address,
                port=PORT,
                key=str(self.key),
                migration=migration,
                mounts=mounts,
                more=more,
            )
            (self.folder / f"{host.name}.py").write_text(text)

    def run(self, *words: str, timeout: float = 300) -> Any:
        return self.pair.run(*words, timeout=timeout)

    def apply(self, *words: str, host: str = "a") -> Any:
        return self.provision("apply", str(self.folder / f"{host}.py"), "--yes", *words)

    def migrate(self, *words: str, timeout: float = 300) -> Any:
        """``provision migrate a b``, with what else is asked for."""
        return self.provision("migrate", *self._ends(), *words, timeout=timeout)

    def start_migrate(self, *words: str) -> Any:
        """The same in the background; its output goes to ``migrate.log``."""
        return self.pair.start(
            self.folder / "migrate.log", str(BIN / "provision"), "migrate", *self._ends(), *words
        )

    def _ends(self) -> tuple[str, str]:
        return str(self.folder / "a.py"), str(self.folder / "b.py")

    def answer(self, host: Host) -> str:
        """What the service generates on this host, asked without any code of the product. Empty: no answer."""
        body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 4, "ignore_eos": True})
        said = host.sh(
            f"curl -s -m 10 -H 'Content-Type: application/json' -H 'Authorization: Bearer {KEY}' -d '{body}' "
            f"http://{host.address}:{PORT}/v1/completions",
            check=False,
        )
        try:
            text: str = json.loads(said)["choices"][0]["text"]
        except (ValueError, KeyError, IndexError):
            return ""
        return text

    def runs(self) -> Path:
        return Path(os.environ["XDG_STATE_HOME"]) / "kpro" / "runs"

    def serve_on_a(self) -> None:
        """The service is up on host a by ``provision apply``; nothing of it serves on b."""
        done = self.apply(host="a")
        assert done.returncode == 0, done.stdout + done.stderr
        assert self.answer(self.pair.a)
        assert not self.answer(self.pair.b)

    def start_over(self) -> None:
        """Nothing of the product is on either host any more."""
        for host in (self.pair.a, self.pair.b):
            host.sh(
                f"lxc-stop -k -n {GUEST} 2>/dev/null; rm -rf --one-file-system /var/lib/lxc/{GUEST} /srv/models "
                "/var/lib/kpro /run/kpro-migrate /mnt/backup",
                timeout=120,
            )

    def left_behind(self) -> list[str]:
        """Everything of a migration that is left on either host: state, keys, units, scratch, fence, models of b."""
        script = (
            "ls -d /var/lib/kpro/migrations/* /run/kpro-migrate /srv/models/.incoming/* /srv/models/.incoming.before "
            "2>/dev/null; grep -s kpro-migrate /root/.ssh/authorized_keys; "
            "systemctl list-units --all --plain --no-legend 'kpro-migrate-*'"
        )
        guest = (
            "ls -d /run/kpro-migrate /var/lib/kpro/migrated/* /etc/systemd/system/kpro-*.service.d/kpro-migrated.conf "
            "2>/dev/null"
        )
        found = [
            f"{host.name}: {line}"
            for host in (self.pair.a, self.pair.b)
            for line in host.sh(script, check=False).splitlines()
            + host.inside(guest, check=False).splitlines()
        ]
        there = self.pair.b.sh("ls -d /srv/models/*@* 2>/dev/null", check=False).splitlines()
        unit = self.pair.b.inside("ls /etc/systemd/system/kpro-tiny.service 2>/dev/null", check=False).split()
        return found + [f"b: {line}" for line in there + unit]
