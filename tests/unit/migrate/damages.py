"""One thing wrong with a pair each, and the id of the rule that has to say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from provision.data.migrating import GIB
from provision.migrate.ends import Asked, Reach
from provision.migrate.seen import Clock, Extra, Folder, Rrsync, Rsync, Sshd, Unseen
from provision.plan import Refusal
from provision.spec import CopySettings, ExtraPath, Migration, Model, Mount, Ssh
from tests.unit.migrate.preflight_pair import (
    BOOT,
    CIPHERS,
    FILES,
    OTHER,
    REFUSED,
    REVISION,
    RUN,
    TRIED,
    Given,
    folder,
    in_source,
    in_target,
    metal,
    on_source,
    on_target,
    opened,
    place,
    unit,
    unit_of,
    with_guest,
    with_service,
    written,
)


@dataclass(frozen=True)
class Damage:
    """``rule``: who sees it. ``needs``: it can be seen only where the source's guest (or its unit) is looked at.
    ``hides``: what cannot be seen any more because of it."""

    rule: str
    name: str
    spoil: Callable[[Given], Given]
    needs: frozenset[str] = frozenset()
    hides: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name


FILES_GONE = frozenset({"files"})
FOUND = frozenset({"guest", "files"})
OPT = "/opt/templates"
STANDS = frozenset({"stands"})  # not looked for where a migration took it away from there
GUEST, UNIT, RUNS = frozenset({"guest"}), frozenset({"guest", "unit"}), frozenset({"guest", "unit", "runs"})
MOVED_AWAY = RUNS | FILES_GONE | STANDS


def _of(name: str, rule: str, spoil: Callable[[Given], Given], **more: frozenset[str]) -> Damage:
    return Damage(rule, name, spoil, **more)


def _stopped(given: Given) -> Given:
    assert given.source is not None
    return replace(given, source=replace(given.source, state="stopped", guest=None))


def _pair(**more: object) -> Callable[[Given], Given]:
    return lambda given: replace(given, pair=replace(given.pair, **more))  # type: ignore[arg-type]


def _line(run: str) -> str:
    return f'{{"run": "{run}", "owner": "op@laptop", "pid": 5}}'


SSHD = Sshd((22,), "prohibit-password", True, CIPHERS)
KEY = Path("/etc/hostname")
EXTRA = ExtraPath(path="/opt/templates", why="the chat template")
DAMAGES = (
    _of(
        "one name",
        "same machine",
        lambda g: written(g, "target", lambda m: m.model_copy(update={"name": "kpro6"})),
    ),
    _of(
        "one address",
        "same machine",
        lambda g: written(
            g, "target", lambda m: m.model_copy(update={"ssh": Ssh(host="192.0.2.6", port=22)})
        ),
    ),
    _of("one boot", "same machine", lambda g: on_target(g, boot="boot-6")),
    _of("other name", "service name", lambda g: written(g, "target", with_service(name="talk"))),
    _of(
        "other model",
        "model",
        lambda g: written(g, "target", with_service(model=Model(repo="Qwen/Other", revision=REVISION))),
    ),
    _of(
        "other revision",
        "model",
        lambda g: written(g, "target", with_service(model=Model(repo="Qwen/Qwen3-8B", revision=OTHER))),
    ),
    _of("key only there", "key", lambda g: written(g, "target", with_service(api_key_file=KEY))),
    _of("key only here", "key", lambda g: written(g, "source", with_service(api_key_file=KEY))),
    _of(
        "other settings",
        "settings",
        lambda g: written(
            g,
            "source",
            with_service(migration=Migration(extra_paths=[EXTRA], transfer=CopySettings(bwlimit_mib=10.0))),
        ),
    ),
    _of("proxy", "traffic", _pair(also=(Refusal("haproxy", "no server", "why", "next"),))),
    _of("locked here", "locked", lambda g: on_source(g, lock=_line("x"))),
    _of("locked there", "locked", lambda g: on_target(g, lock="garbage")),
    _of("open here", "open migration", lambda g: on_source(g, migrations=opened()), hides=MOVED_AWAY),
    _of("open there", "open migration", lambda g: on_target(g, migrations=opened(state="moved"))),
    _of("no systemd here", "systemd", lambda g: on_source(g, systemd=False)),
    _of("no systemd there", "systemd", lambda g: on_target(g, systemd=False)),
    _of("no rsync here", "rsync", lambda g: on_source(g, rsync=None)),
    _of("old rsync there", "rsync", lambda g: on_target(g, rsync=Rsync("3.1.3"))),
    _of("broken rsync there", "rsync", lambda g: on_target(g, rsync=Rsync("3.4.0"))),
    _of(
        "broken rsync of a distribution",
        "rsync",
        lambda g: on_source(g, rsync=Rsync("3.2.7", "3.2.7-1ubuntu1.1")),
    ),
    _of("no rrsync", "rrsync", lambda g: on_target(g, rrsync=None)),
    _of(
        "no python for rrsync",
        "rrsync",
        lambda g: on_target(g, rrsync=Rrsync("/usr/bin/rrsync", True), python3=False),
    ),
    _of("no sshd", "sshd", lambda g: on_target(g, sshd=None)),
    _of("no root", "sshd", lambda g: on_target(g, sshd=replace(SSHD, root_login="no"))),
    _of("no keys", "sshd", lambda g: on_target(g, sshd=replace(SSHD, keys_allowed=False))),
    _of("no cipher", "sshd", lambda g: on_target(g, sshd=replace(SSHD, ciphers=("aes128-ctr",)))),
    _of("sshd is down", "sshd", lambda g: on_target(g, listening=())),
    _of("no way", "reach", _pair(reach=Reach(None, "connection refused"))),
    _of("clock", "clock", lambda g: on_target(g, clock=Clock(7.0, 7.1))),
    _of("clock behind", "clock", lambda g: on_source(g, clock=Clock(-9.0, -8.0))),
    _of("boot", "reboot", lambda g: replace(g, plan=replace(g.plan, items=(*g.plan.items, *BOOT.items)))),
    _of(
        "refused plan",
        "target plan",
        lambda g: replace(g, plan=replace(g.plan, refusals=REFUSED.refusals)),
    ),
    _of(
        "taken id",
        "container id",
        lambda g: on_target(
            written(g, "target", with_guest(backend="pct", id="105")), ids={"105": "qemu on node kpro5"}
        ),
    ),
    _of("full state", "state folder", lambda g: on_source(g, state=place("/var/lib/kpro", free=1 << 20))),
    _of(
        "read-only state",
        "state folder",
        lambda g: on_target(g, state=place("/var/lib/kpro", writable=False)),
    ),
    _of("stopped", "source guest", _stopped, needs=STANDS, hides=RUNS),
    _of(
        "no unit",
        "source serves",
        lambda g: in_source(g, unit=None),
        needs=GUEST,
        hides=frozenset({"unit", "runs"}),
    ),
    _of(
        "failed unit",
        "source serves",
        lambda g: unit_of(g, active="failed", sub="failed", pid=0),
        needs=UNIT,
        hides=frozenset({"runs"}),
    ),
    _of("mute", "source serves", lambda g: in_source(g, generates="HTTP Error 500"), needs=RUNS),
    _of("drop-in", "drift", lambda g: unit_of(g, drop_ins=("/etc/x.d/override.conf",)), needs=UNIT),
    _of("other digest", "drift", lambda g: unit_of(g, digest="e" * 64), needs=UNIT),
    _of("other process", "drift", lambda g: unit_of(g, running="e" * 64), needs=UNIT),
    _of("candidate", "candidate", lambda g: unit_of(g, running=TRIED, digest=TRIED), needs=UNIT),
    _of(
        "fence",
        "fence",
        lambda g: unit_of(g, drop_ins=("/etc/systemd/system/kpro-chat.service.d/kpro-migrated.conf",)),
        needs=UNIT,
    ),
    _of("serves there", "target serves", lambda g: in_target(g, unit=unit()), needs=RUNS),
    _of("no systemd inside", "guest systemd", lambda g: in_source(g, systemd=False), needs=GUEST),
    _of(
        "somebody else's",
        "target managed",
        lambda g: written(g, "target", with_guest(managed=False, services=(adopted(),))),
    ),
    _of("does not fit", "gates", _pair(asked=(Asked("fit", "fail", ("fit.memory: 60 GiB of 47",)),))),
    _of(
        "no model",
        "model files",
        lambda g: in_source(g, folders={"model": None}),
        needs=GUEST,
        hides=FILES_GONE,
    ),
    _of("odd model", "model files", lambda g: folder(g, odd=1), needs=FOUND),
    _of("links out", "model files", lambda g: folder(g, outside=2), needs=FOUND),
    _of(
        "damaged model",
        "model files",
        lambda g: folder(g, damaged=("model.safetensors",)),
        needs=FOUND,
    ),
    _of(
        "revision",
        "files' revision",
        lambda g: folder(g, revision=OTHER),
        needs=FOUND,
    ),
    _of(
        "no bytes",
        "room",
        lambda g: on_target(g, models=place("/tank/models", free=4 * GIB)),
        needs=FOUND,
    ),
    _of(
        "no inodes",
        "room",
        lambda g: on_target(g, models=place("/tank/models", inodes=900)),
        needs=FOUND,
    ),
    _of("read-only models", "place", lambda g: on_target(g, models=place("/tank/models", writable=False))),
    _of(
        "file for a folder",
        "place",
        lambda g: on_target(g, staging=place("/tank/models/.incoming", folder=False)),
    ),
    _of(
        "two file systems",
        "place",
        lambda g: on_target(g, staging=place("/tank/models/.incoming", mount="/x")),
    ),
    _of(
        "in the way",
        "in the way",
        lambda g: on_target(g, incoming={"model": Folder("/tank/models/x", 1, 5, 5, {"a": 5})}),
        needs=FOUND,
    ),
    _of("no extra path", "extra paths", lambda g: in_source(g, extras={"/opt/templates": None}), needs=GUEST),
    _of(
        "extra link",
        "extra paths",
        lambda g: in_source(g, extras={"/opt/templates": Extra("/opt/templates", "link", "/data/t")}),
        needs=GUEST,
    ),
    _of(
        "extra leads out",
        "extra paths",
        lambda g: in_source(
            g, extras={"/opt/templates": Extra("/opt/templates", "folder", "/opt/templates", outside=1)}
        ),
        needs=GUEST,
    ),
    _of(
        "not mounted there",
        "mounts",
        lambda g: written(
            g, "source", with_guest(mounts=(*MOUNTS, Mount(source="/tank/t", target="/opt/templates")))
        ),
    ),
    _of(
        "a mount itself",
        "mounts",
        lambda g: written(
            written(
                g, "source", with_guest(mounts=(*MOUNTS, Mount(source="/tank/t", target="/opt/templates")))
            ),
            "target",
            with_guest(mounts=(*MOUNTS, Mount(source="/tank/t", target="/opt/templates", read_only=False))),
        ),
    ),
    _of(
        "named file",
        "named files",
        lambda g: in_source(g, named={"/opt/other/x.json": True}),
        needs=GUEST,
    ),
    _of("unseen", "rsync", lambda g: on_target(g, rsync=Unseen("rsync hung"))),
)
MOUNTS = (Mount(source="/tank/models", target="/srv/models"),)
__all__ = ["DAMAGES", "FILES", "RUN", "Damage", "metal"]


def adopted() -> object:
    from provision.spec import Found
    from tests.unit.migrate.preflight_pair import service

    return service(found=Found(unit="llm.service", command=("vllm", "serve", "/m")))
