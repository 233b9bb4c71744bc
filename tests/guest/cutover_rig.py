"""One container with the stand-in engine, and cut-overs in it by the real act, told what the decision would tell it."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pyinfra.api.host import Host

from provision.acts.cutover import cutover
from provision.acts.stack import stage
from provision.acts.voice import Voice
from provision.run.errors import ActFailed
from provision.spec import Engine, Guest, Machine, Model, Service
from provision.stack.cutover import Cutover, Mode
from provision.stack.desired import DesiredService, desired_service
from provision.testhost import demo_files
from tests.guest.place import Place

GATE = ("--seconds", "1", "--wait", "5")
FAST = ("--tok-s", "400")


@dataclass(frozen=True)
class Ended:
    """What a cut-over said, line by line, and the error that it ended with."""

    said: list[str]
    error: str | None

    @property
    def text(self) -> str:
        return "\n".join([*self.said, self.error or ""])


@dataclass
class Cut:
    """``place`` holds the container and the address of the service."""

    place: Place
    host: Host
    ready: int = 30
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def inside(self) -> Callable[..., str]:
        return self.place.container.attach

    def machine(self, *services: Service) -> Machine:
        guest = Guest(name="llm", backend="lxc", id=self.place.container.name, services=services)
        return Machine(name="box", managed=False, models=str(self.place.models), guests=(guest,))

    def service(self, *flags: str, **more: Any) -> Service:
        files = self.place.folder / "files"
        wheels = demo_files.wheel_folder(files)
        values: dict[str, Any] = {
            "name": "tiny",
            "engine": Engine(kind="standin", version="1.0.0", source="wheel", wheelhouse=wheels),
            "model": Model(
                repo="kpro/tiny", revision=demo_files.DEMO_REVISION, folder=demo_files.model_folder(files)
            ),
            "port": self.place.port,
            "flags": flags,
            "ready_seconds": self.ready,
        }
        return Service(**{**values, **self.settings, **more})

    def desired(self, service: Service) -> DesiredService:
        (guest,) = self.machine(service).guests
        return desired_service(guest, service)

    def asked(self, mode: Mode, *flags: str, trial: bool = True, **more: Any) -> Cutover:
        """``more``: fields of Cutover."""
        service = self.service(*flags)
        beside = service.model_copy(update={"name": "tiny-candidate", "port": self.place.port + 1})
        values: dict[str, Any] = {"gate": GATE, "drain_seconds": 5, **more}
        return Cutover(self.desired(service), self.desired(beside) if trial else None, mode, **values)

    def over(self, mode: Mode, *flags: str, **more: Any) -> Ended:
        """Stages and cuts over."""
        return self.carry_out(self.asked(mode, *flags, **more))

    def carry_out(self, asked: Cutover) -> Ended:
        said: list[str] = []
        stage(self.host, asked.desired, Voice("run-1", said.append))
        try:
            cutover(self.host, asked, Voice("run-1", said.append))
        except ActFailed as error:
            return Ended(said, str(error))
        return Ended(said, None)

    def good(self) -> str:
        return self.inside("cat", "/var/lib/kpro/good/tiny").strip()

    def outcome(self, name: str = "tiny.service.json") -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.inside("cat", f"/var/lib/kpro/trials/{name}"))
        return told

    def phase(self) -> str:
        """Where the cut-over under way is, read from outside; empty while there is none."""
        path = self.place.container.rootfs / "var/lib/kpro/cutover/tiny/phase"
        try:
            return path.read_text().split()[0]
        except (OSError, IndexError):
            return ""

    @contextmanager
    def request_in_flight(self, tokens: int) -> Iterator[list[str]]:
        """As soon as a cut-over is under way somebody has a request in flight; its answer, if one comes."""
        answers: list[str] = []

        def ask() -> None:
            until = time.monotonic() + 30
            while not self.phase() and time.monotonic() < until:
                time.sleep(0.02)
            # Its server may lose the power.
            with suppress(OSError):
                answers.append(self.answer(tokens))

        asking = threading.Thread(target=ask, daemon=True)
        if tokens:
            asking.start()
        yield answers
        if tokens:
            asking.join(30)

    def left(self) -> list[str]:
        """What no cut-over may leave behind: a trial, an open phase, secrets outside their place, half files."""
        units = self.inside(
            "systemctl", "list-units", "--all", "--plain", "--no-legend", "kpro-*", check=False
        )
        script = (
            "ls -d /run/systemd/system/kpro-* /var/lib/kpro/cutover/* /run/kpro-cutover/*/*env /run/kpro-cutover/*/key "
            "/etc/kpro/*candidate* 2>/dev/null; true"
        )
        return [
            *(line for line in units.splitlines() if "candidate" in line or "cutover" in line),
            *self.inside("sh", "-c", script).split(),
            *self.place.leftovers(),
        ]

    def answer(self, tokens: int = 8) -> str:
        body = {"model": "tiny", "prompt": "hello", "max_tokens": tokens, "ignore_eos": True}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.place.port}/v1/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            text: str = json.load(reply)["choices"][0]["text"]
        return text


class Caller:
    """A client that asks again and again from a thread of its own; ``failed`` holds what went wrong, with the time."""

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._call, daemon=True)
        self.failed: list[tuple[float, str]] = []
        self.answered: list[float] = []

    def _call(self) -> None:
        while not self._over.is_set():
            try:
                self._cut.answer(4)
                self.answered.append(time.monotonic())
            except OSError as error:
                self.failed.append((time.monotonic(), str(error)))
            time.sleep(0.02)

    def __enter__(self) -> Caller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)

    @property
    def longest_gap(self) -> float:
        """The longest time between two answers, in seconds."""
        pairs = zip(self.answered, self.answered[1:], strict=False)
        return max((after - before for before, after in pairs), default=0.0)
