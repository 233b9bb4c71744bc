"""A pair that may move, and ways to spoil it: each one thing, with the rule that has to see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from provision.data.migrating import GIB
from provision.migrate.ends import End, Pair, Reach
from provision.migrate.seen import (
    Clock,
    Extra,
    Folder,
    GuestLook,
    Listener,
    Looks,
    MachineLook,
    Place,
    Rrsync,
    Rsync,
    Sshd,
    UnitLook,
    Unseen,
)
from provision.migrate.standing import Record, State
from provision.plan import Item, Plan, Refusal, Step
from provision.spec import (
    Engine,
    ExtraPath,
    Gpu,
    Guest,
    Machine,
    Migration,
    Model,
    Mount,
    Service,
    Ssh,
)

REVISION, OTHER = "0" * 39 + "1", "0" * 39 + "2"
DIGEST, TRIED = "d" * 64, "c" * 64
RUN = "20261130T120000Z-a1b2c3"
FILES = {"config.json": 600, "model.safetensors": 3 * GIB, "kpro-manifest.json": 200}
CIPHERS = ("aes128-ctr", "aes128-gcm@openssh.com")


@dataclass(frozen=True)
class Given:
    """What ``judge`` is given."""

    source: Looks | None
    target: Looks
    pair: Pair
    plan: Plan


def model() -> Model:
    return Model(repo="Qwen/Qwen3-8B", revision=REVISION)


def service(**more: Any) -> Service:
    given: dict[str, Any] = {
        "name": "chat",
        "engine": Engine(kind="vllm", version="0.20.1"),
        "model": model(),
        "flags": ("--chat-template", "/opt/templates/chat.jinja"),
        "migration": Migration(extra_paths=[ExtraPath(path="/opt/templates", why="the chat template")]),
        **more,
    }
    return Service(**given)


def machine(name: str, number: int, one: Service, **more: Any) -> Machine:
    guest: dict[str, Any] = {
        "name": "llm",
        "backend": "lxc",
        "id": "llm",
        "gpus": ["42:00.0"],
        "mounts": [Mount(source="/tank/models", target="/srv/models")],
        "services": [one],
        **more,
    }
    return Machine(
        name=name,
        ssh=Ssh(host=f"192.0.2.{number}", user="root"),
        gpus=[Gpu(bdf="42:00.0", model="RTX A6000")],
        guests=[Guest(**guest)],
    )


def end(role: Any, given: Machine) -> End:
    return End(role, given.name, given, given.guests[0], given.guests[0].services[0])


def place(path: str, **more: Any) -> Place:
    return replace(Place(path, path, "2049", "/tank", 900 * GIB, 10_000_000, True), **more)


def metal(number: int) -> MachineLook:
    return MachineLook(
        boot=f"boot-{number}",
        namespace="mnt:[4026531832]",
        hostname=f"kpro{number}",
        clock=Clock(-0.01, 0.02),
        ntp=True,
        systemd=True,
        python3=True,
        rsync=Rsync("3.5.0", "3.5.0+ds1-0+deb12u1"),
        rrsync=Rrsync("/usr/bin/rrsync", True),
        sshd=Sshd((22,), "prohibit-password", True, CIPHERS, (f"SHA256:{number}",)),
        models=place("/tank/models"),
        staging=place("/tank/models/.incoming", nearest="/tank/models"),
        state=place("/var/lib/kpro", mount="/", device="2050", free=20 * GIB),
        ids={"llm": "lxc"},
        listening=(Listener(22, "0.0.0.0", "sshd (pid 700)"),),
        lock=None,
        migrations={},
        driver=("580.159.04", "open"),
        gpus={"0000:42:00.0": "NVIDIA RTX A6000"},
    )


def unit() -> UnitLook:
    return UnitLook(
        "kpro-chat.service",
        "active",
        "running",
        "enabled",
        77,
        "Mon 2026-11-30 08:00:00 UTC",
        "/etc/systemd/system/kpro-chat.service",
        digest=DIGEST,
        running=DIGEST,
        names=("HF_HOME", "PATH"),
    )


def inside() -> GuestLook:
    return GuestLook(
        systemd=True,
        python3=True,
        unit=unit(),
        generates=None,
        folders={"model": Folder(model().directory, 3, sum(FILES.values()), 0, FILES, revision=REVISION)},
        extras={"/opt/templates": Extra("/opt/templates", "folder", "/opt/templates", 1, 4096)},
        listening=(Listener(8000, "127.0.0.1", "vllm (pid 77)"),),
        named={"/opt/templates/chat.jinja": True},
    )


def green() -> Given:
    """Nothing speaks against it."""
    one, two = machine("kpro6", 6, service()), machine("kpro5", 5, service())
    empty = replace(inside(), unit=None, folders={}, extras={}, named={}, generates=Unseen("it is not asked"))
    return Given(
        Looks(metal(6), "running", inside()),
        Looks(replace(metal(5), incoming={"model": None}), "running", empty),
        Pair(
            RUN,
            end("source", one),
            end("target", two),
            digests={DIGEST: "own profile", TRIED: "candidate"},
            same_key=True,
            reach=Reach("direct"),
        ),
        Plan("kpro5", (Item(Step.CONTAINER, "container.create", "kpro5", "llm", "make it"),)),
    )


def on_source(given: Given, **more: Any) -> Given:
    assert given.source is not None
    return replace(given, source=replace(given.source, machine=replace(given.source.machine, **more)))


def on_target(given: Given, **more: Any) -> Given:
    return replace(given, target=replace(given.target, machine=replace(given.target.machine, **more)))


def in_source(given: Given, **more: Any) -> Given:
    """A guest that is not looked into cannot be spoilt."""
    assert given.source is not None
    if given.source.guest is None:
        return given
    return replace(given, source=replace(given.source, guest=replace(given.source.guest, **more)))


def in_target(given: Given, **more: Any) -> Given:
    assert given.target.guest is not None
    return replace(given, target=replace(given.target, guest=replace(given.target.guest, **more)))


def unit_of(given: Given, **more: Any) -> Given:
    assert given.source is not None
    seen = given.source.guest.unit if given.source.guest is not None else None
    if not isinstance(seen, UnitLook):
        return given
    return in_source(given, unit=replace(seen, **more))


def written(given: Given, role: str, change: Callable[[Machine], Machine]) -> Given:
    """One of the inventories says something else."""
    old: End = getattr(given.pair, role)
    return replace(given, pair=replace(given.pair, **{role: end(role, change(old.machine))}))


def with_service(**more: Any) -> Callable[[Machine], Machine]:
    def change(given: Machine) -> Machine:
        guest = given.guests[0]
        one = guest.services[0].model_copy(update=more)
        return given.model_copy(update={"guests": (guest.model_copy(update={"services": (one,)}),)})

    return change


def with_guest(**more: Any) -> Callable[[Machine], Machine]:
    def change(given: Machine) -> Machine:
        return given.model_copy(update={"guests": (given.guests[0].model_copy(update=more),)})

    return change


def folder(given: Given, **more: Any) -> Given:
    assert given.source is not None
    seen = given.source.guest.folders["model"] if given.source.guest is not None else None
    return in_source(given, folders={"model": replace(seen, **more)}) if isinstance(seen, Folder) else given


def opened(run: str = "20261129T000000Z-ffffff", state: State = "open") -> dict[str, Record]:
    since = "2026-11-29T00:00:00+00:00"
    return {"chat": Record(run, "chat", "source", "kpro4", "op@laptop", "copy", state, since)}


REFUSED = Plan("kpro5", refusals=(Refusal("machine.guests[0].gpus[0]", "42:00.0 is held", "why", "next"),))
BOOT = Plan("kpro5", (Item(Step.REBOOT, "reboot", "kpro5", "kpro5", "boot: the driver is loaded then"),))
