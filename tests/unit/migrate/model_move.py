"""A migration in the model: the chain on its target, what serves before it begins, and the words of the command."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any
from unittest import mock

from provision.migrate import beginning, cut, probe, record, run, runbook, serving, steps, watch
from provision.migrate.asked import Asked
from provision.migrate.copy import Copy, CopySettings, copying
from provision.migrate.moving import Moving
from provision.migrate.traffic.choose import traffic
from provision.migrate.traffic.hooks import Programs
from provision.plan import Item, Plan, Refusal, Step
from provision.run.errors import ActFailed, Refused, RunError
from provision.run.journal import Journal
from tests.unit.migrate import model_doubles
from tests.unit.migrate.model import End, Killed, World
from tests.unit.migrate.model_specs import EXTRA, ROLES

RUN = "20261130T120000Z-a1b2c3"
UNIT = model_doubles.UNIT
_TEXT = "[Service]\nExecStart=/opt/kpro/engine/serve\n"
FOREIGN = {
    "/root/.ssh/authorized_keys": "# mine\nssh-ed25519 AAAA admin@desk\n\nssh-rsa BBBB backup  \n",
    "/srv/models/other@1/model-1.safetensors": "other weights\n",
    "/var/lib/kpro/migrations/other.json": '{"of": "another service"}\n',
    "/etc/hosts": "127.0.0.1 localhost\n",
}
"""Files of others on both machines."""
PHASES = {
    "install": (("host", "/etc/modprobe.d/kpro.conf", "options nvidia\n"),),
    "configure": (
        ("guest", "/opt/kpro/engine/serve", "#!/bin/sh\n"),
        ("guest", "/etc/kpro/staged/kpro-chat.service", _TEXT),
        ("guest", "/etc/kpro/staged/chat.env", "A=1\n"),
    ),
    "activate": (
        ("guest", "/etc/kpro/chat.env", "A=1\n"),
        ("guest", f"/etc/systemd/system/{UNIT}", _TEXT),
    ),
}
"""What each phase of the chain writes, and where."""


@dataclass
class Chained(End):
    """A ``Target``. ``red``: its gate says no."""

    red: bool = False

    def plan(self, phases: Sequence[str]) -> Plan:
        items = []
        for phase in phases:
            for place, path, text in PHASES[phase]:
                if self._ask(place, f"cat {path} 2>/dev/null || :").text != text:
                    items.append(Item(Step.STACK, "put", self.name, path, f"{path} is written"))
        refusals = () if "configure" not in phases else tuple(self._models())
        return Plan(self.name, tuple(items), refusals)

    def _models(self) -> list[Refusal]:
        folder = self.service.model.directory
        if self._ask("guest", f"[ -s {folder}/config.json ]").ok:
            return []
        return [Refusal("model", f"{folder} is not there", "the engine reads it", "copy it")]

    def apply(self, phases: Sequence[str]) -> None:
        plan = self.plan(phases)
        if plan.refusals:
            raise Refused(plan.refusals)
        if "activate" in phases and self.red:
            raise RunError(f"{self.name}: the gate is red: a GPU fell off the bus")
        for phase in phases:
            for place, path, text in PHASES[phase]:
                done = self._ask(place, f"mkdir -p $(dirname {path}) && cat >{path}", text)
                if not done.ok:
                    raise RunError(f"{self.name}: {path}: {done.error_text}")
        if "activate" in phases:
            done = self._ask("guest", f"systemctl daemon-reload && systemctl start {UNIT}")
            if not done.ok:
                raise RunError(f"{self.name}: {UNIT}: {done.error_text}")

    def _ask(self, place: str, script: str, text: str = "") -> Any:
        return (self.host if place == "host" else self.inside)(script, stdin=text.encode())


def furnish(world: World) -> None:
    """The source serves, as a boot left it; both machines have files of others."""
    spec = world.ends["target"]
    world.ends["target"] = Chained(world, "target", spec.machine)
    shards = {f"model-{n}.safetensors": os.urandom(1) * 40_000 for n in (1, 2)}
    files = {"config.json": b"{}\n", **shards, "sub/tokenizer.json": b"[1]\n"}
    for role in ROLES:
        for path, text in FOREIGN.items():
            file = world.at(role, "host", path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        world.at(role, "host", "/root/.ssh").chmod(0o700)
        world.at(role, "host", "/root/.ssh/authorized_keys").chmod(0o600)
        for name in ("ssh_host_ed25519_key", "ssh_host_ed25519_key.pub"):
            file = world.at(role, "host", f"/etc/ssh/{name}")
            file.parent.mkdir(exist_ok=True)
            file.write_text("ssh-ed25519 HOSTKEY root@host\n")
    for name, data in files.items():
        file = world.at("source", "host", f"{world.model('source')}/{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    extra = world.at("source", "host", "/srv/data/chat")
    extra.mkdir()
    (extra / "prompt.jinja").write_text("{{ it }}\n")
    for place, path, text in (row for rows in PHASES.values() for row in rows):
        file = world.at("source", place, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    # A key of root's own folder, which the copy may have to make on the target.
    world.run("source", "guest", f"systemctl enable --quiet {UNIT}; systemctl start {UNIT}")
    (world.stage / "traffic").write_text("source\n")
    (world.stage / "state").mkdir()


@dataclass
class Controller:
    """One process of ``provision migrate`` after another. ``said``: all lines. ``wrong``: the answers differ. ``left``:
    what the last command said is left."""

    world: World
    wrong: bool = False
    said: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    told: Any = lambda event, facts: None
    journals: list[Journal] = field(default_factory=list)

    def moving(self, run: str = RUN, since: str = "2026-11-30T12:00:00.000+00:00") -> Moving:
        source, target = self.world.ends["source"], self.world.ends["target"]
        assert isinstance(target, Chained)
        journal = Journal(run)
        self.journals.append(journal)

        def tell(event: str, **facts: Any) -> str:
            if self.world.dead:
                raise Killed
            self.told(event, facts)
            return journal.write(event, **facts)

        leads = traffic(run, source, target)
        assert isinstance(leads, Programs)
        ticks = iter(range(10_000))
        m = Moving(
            run,
            source,
            target,
            self.said.append,
            tell,
            "me@desk",
            source.name,
            lambda m: [],
            Copy(run, source, target, self.world.folders, CopySettings("192.0.2.5", streams=1, tries=2)),
            replace(leads, clock=lambda: float(next(ticks)), sleep=lambda seconds: None),
            self._prove,
            lambda m: "as fast as the source",
            since=since,
        )
        return m

    def _prove(self, m: Moving) -> str:
        up = [self.world.at(role, "guest", f"/run/double/{UNIT}.up") for role in ROLES]
        if self.wrong or len({file.read_text().splitlines()[1] for file in up if file.exists()}) != 1:
            raise ActFailed("the answers differ: nothing is led to it")
        return "byte-equal"

    def begin(self, m: Moving) -> None:
        beginning.begin(m)
        m.tell("plan", items=[])

    def from_step(self, m: Moving, step: str) -> None:
        """All steps from this one on, as they come in an undisturbed run."""
        at = [one.name for one in steps.of(m)].index(step)
        with mock.patch.object(runbook, "first_open", return_value=at):
            runbook.forward(m, resumed=True)

    def command(self, way: str) -> int:
        """``provision migrate kpro6 kpro5 --resume`` or ``--rollback``: its exit code."""
        self.let_go()
        ask = Asked("kpro6", "kpro5", None, way, False, "", True, False, False)
        ends: Any = SimpleNamespace(**self.world.ends)
        pair: Any = SimpleNamespace(target=ends.target, source=ends.source)

        def moving(ask: Asked, ends: object, pair: object, look: object, run: str, since: str) -> Moving:
            return self.moving(run, since)

        verbs = {"resume": run._resume, "rollback": run._rollback, "finalize": run._finalize}
        try:
            with mock.patch.object(run, "moving", moving):
                answer = verbs[way](ask, ends, pair)
                self.left = list(answer.document.get("left", ()))
                return answer.exit_code
        except ValueError as error:
            self.said.append(str(error))
            return 2
        except RunError as error:
            self.said.append(str(error))
            return error.exit_code
        except OSError as error:
            self.said.append(str(error))
            return 1
        finally:
            self.let_go()

    def close(self) -> None:
        self.let_go()
        for journal in self.journals:
            journal.close()

    def let_go(self) -> None:
        """What a process that is gone does not hold any more."""
        for end in self.world.ends.values():
            end.let_go()


def quick(patch: Any) -> None:
    """Nobody waits for a double, and what is brought into a guest is one."""
    data = model_doubles.PROVCHECK.encode()
    patch.setattr(probe, "_pyz", lambda: (data, sha256(data).hexdigest()))
    patch.setattr(serving, "_PAUSE_S", 0.02)
    patch.setattr(copying, "EVERY", 0.02)
    patch.setattr(cut, "SETTLE_SECONDS", 5)
    ticks = itertools.count(step=2)
    patch.setattr(
        watch, "watch", partial(watch.watch, clock=lambda: float(next(ticks)), sleep=lambda seconds: None)
    )


__all__ = ["EXTRA", "FOREIGN", "RUN", "Chained", "Controller", "furnish", "quick", "record"]
