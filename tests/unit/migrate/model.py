"""Two hosts in one process: every script of a migration runs for real, with files of its host's own.

Each host and each guest is a private mount namespace in which /etc, /root, /run, /srv, /opt and /var/lib are folders of
the model, on one small file system a host; its programs are this machine's, but for those of ``model_doubles``.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from provision.host.transport import Completed, TransportError
from provision.migrate.copy import Folder
from provision.migrate.copy.listing import PRINT
from provision.spec import Guest, Machine, Service
from tests.unit.migrate import model_doubles
from tests.unit.migrate.model_specs import EXTRA, ROLES, Role, machine, service

_OWN = {"etc": "/etc", "root": "/root", "run": "/run", "opt": "/opt", "lib": "/var/lib"}
_SIZE = 4 << 20
_PATH = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
# A shell of each host that waits for scripts; each runs in a child of it. Memory has nothing that could be synced.
_SERVER = """
sync() { :; }
while read -r at; do
  (. $at/script) <$at/stdin >$at/stdout 2>$at/stderr
  echo $?
done
"""


class NoNamespace(OSError):
    """This machine does not let this user have one."""


class Killed(BaseException):
    """The controller is dead: nothing of it runs any more."""


@dataclass
class End:
    """A ``Side``. ``cut``: it is not reached."""

    world: World
    role: Role
    machine: Machine
    cut: bool = False
    lock: IO[str] | None = None

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def guest(self) -> Guest:
        return self.machine.guests[0]

    @property
    def service(self) -> Service:
        return self.guest.services[0]

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        return self.world.asked(self, "host", script, stdin)

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        return self.world.asked(self, "guest", script, stdin)

    def hold(self) -> None:
        self.world.reach(self)
        if self.lock is None:
            path = self.world.at(self.role, "host", "/run/kpro/lock")
            path.parent.mkdir(exist_ok=True)
            self.lock = path.open("a")
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def let_go(self) -> None:
        if self.lock is not None:
            self.lock.close()
            self.lock = None


@dataclass
class World:
    """``before`` and ``after`` see every script of the controller, and may raise instead of it."""

    folder: Path
    extra: bool = False
    before: Callable[[End, str], None] = lambda end, script: None
    after: Callable[[End, str], None] = lambda end, script: None
    calls: int = 0
    dead: bool = False
    holders: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ends: dict[Role, End] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model_doubles.needs()
        self.folder.mkdir(parents=True)
        top = self.folder / "stage"
        top.mkdir()
        small = "; ".join(
            f"mkdir {top}/{role}; mount -t tmpfs -o size={_SIZE} {role} {top}/{role}" for role in ROLES
        )
        self._hold("world", [], f"mount -t tmpfs model {top}; {small}")
        self.stage = Path(f"/proc/{self.holders['world'].pid}/root{top}")
        model_doubles.put(self.folder / "bin", self.stage)
        (self.stage / "unasked").touch()
        (self.stage / "asked").touch()
        for role, name, number in (("source", "kpro6", 6), ("target", "kpro5", 5)):
            one = service(role, self.folder, extra=self.extra)  # type: ignore[arg-type]
            self.ends[role] = End(self, role, machine(role, name, number, one))  # type: ignore[index,arg-type]
            for place in ("host", "guest"):
                self._namespace(role, place)

    def _enter(self, pid: int) -> list[str]:
        user = [] if os.getuid() == 0 else ["-U", "--preserve-credentials"]
        return ["nsenter", *user, "-m", "-t", str(pid), "--"]

    def _hold(self, name: str, enter: list[str], script: str, last: str = "exec cat") -> None:
        """A namespace that lasts as long as this process."""
        user = [] if os.getuid() == 0 or enter else ["-U", "-r"]
        program = f"set -e; {script}; echo; set +e; {last}"
        holder = subprocess.Popen(
            [*enter, "unshare", *user, "-m", "--propagation", "private", "sh", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={
                "PATH": f"{self.folder}/bin:{_PATH}",
                "WHERE": name,
                "ENTER": " ".join(self._enter(0)[:-2]),
            },
        )
        self.holders[name] = holder
        assert holder.stdout is not None
        if holder.stdout.readline() != b"\n":
            self.close()
            raise NoNamespace(f"no mount namespace for {name}: root, or user namespaces, are needed")

    def _namespace(self, role: str, place: str) -> None:
        top = f"{self.folder}/stage/{role}"
        here = f"{top}/{place}"
        folders = [*_OWN, "srv"] if place == "host" else [*_OWN]
        for name in folders:
            (self.stage / role / place / name).mkdir(parents=True)
        binds = [f"mount --bind {here}/{name} {path}" for name, path in _OWN.items()]
        binds.append(f"mount --bind {top}/host/srv /srv")
        if place == "guest":
            (self.stage / role / "host/srv/data").mkdir()
            (self.stage / role / "guest/opt/data").mkdir()
            binds.append(f"mount --bind {top}/host/srv/data /opt/data")
            binds.append(f"mount --bind {self.folder}/bin/python3 /usr/bin/python3")
        (self.stage / "asks" / f"{role}.{place}").mkdir(parents=True)
        self._hold(f"{role}.{place}", self._enter(self.holders["world"].pid), "; ".join(binds), _SERVER)
        if place == "host":
            (self.stage / f"pid.{role}").write_text(f"{self.holders[f'{role}.host'].pid}\n")

    def at(self, role: str, place: str, path: str) -> Path:
        """A file of a host or guest, from here."""
        for name, top in {**_OWN, "srv": "/srv"}.items():
            if path == top or path.startswith(f"{top}/"):
                return self.stage / role / ("host" if name == "srv" else place) / name / path[len(top) + 1 :]
        raise ValueError(path)

    def run(self, role: str, place: str, script: str, stdin: bytes = b"") -> Completed:
        """A script there, whoever is cut off."""
        server = self.holders[f"{role}.{place}"]
        at = self.stage / "asks" / f"{role}.{place}"
        (at / "script").write_text(script)
        (at / "stdin").write_bytes(stdin)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(f"{at}\n".encode())
        server.stdin.flush()
        code = int(server.stdout.readline())
        return Completed(code, (at / "stdout").read_bytes(), (at / "stderr").read_bytes())

    def reach(self, end: End) -> None:
        if self.dead:
            raise Killed
        if end.cut:
            raise TransportError(f"{end.name}: No route to host")

    def asked(self, end: End, place: str, script: str, stdin: bytes) -> Completed:
        self.reach(end)
        self.calls += 1
        self.before(end, script)
        self.reach(end)
        done = self.run(end.role, place, script, stdin)
        self.after(end, script)
        self.reach(end)
        return done

    def reboot(self, role: Role) -> None:
        """Memory is gone, and what is enabled starts again, unless it is fenced."""
        self.end_units(role)
        self.ends[role].let_go()
        for place in ("host", "guest"):
            for path in (self.stage / role / place / "run").iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.run(
            role, "guest", f"u={model_doubles.UNIT}; systemctl is-enabled --quiet $u && systemctl start $u"
        )

    def end_units(self, role: Role) -> None:
        for file in self.at(role, "host", "/run/double").glob("*.pid"):
            with suppress(OSError, ValueError):
                os.killpg(int(file.read_text()), signal.SIGKILL)

    def keep(self, name: str) -> None:
        """Takes everything down as it is now."""
        kept = self.stage / "kept" / name
        kept.mkdir(parents=True)
        for what in (*ROLES, "state", "traffic", "starts"):
            subprocess.run(["cp", "-a", "--", self.stage / what, kept / what], check=True)

    def back_to(self, name: str) -> None:
        """As it was then. What a copy wrote down of files' identities is written anew: these are other files now."""
        for role in ROLES:
            self.end_units(role)
            self.ends[role].let_go()
            self.ends[role].cut = False
        self.dead, self.calls = False, 0
        stage, kept = self.stage, self.stage / "kept" / name
        own = [str(stage / role) for role in ROLES]
        # The tops, which are mounted, stay; so does the mount point in /opt.
        subprocess.run(
            [
                "find",
                *own,
                "-mindepth",
                "3",
                "!",
                "-path",
                "*/opt/data",
                "!",
                "-path",
                "*/host/srv/data",
                "-delete",
            ],
            check=True,
        )
        shutil.rmtree(stage / "state", ignore_errors=True)
        subprocess.run(["cp", "-a", "--", *sorted(kept.iterdir()), stage], check=True)
        for flag in ("cut", *stage.glob("fail-*")):
            (stage / flag).unlink(missing_ok=True)
        self._again()

    def _again(self) -> None:
        listed = f"find . {PRINT}"
        self.run(
            "source",
            "host",
            f"for f in /run/kpro-migrate/*/[01]/before; do [ -e $f ] || continue; d=${{f%/before}}\n"
            f"case $d in */0) p={self.model('source')} ;; *) p=/srv/data/chat ;; esac\n"
            f"(cd $p && {listed}) >$d/before; [ ! -e $d/after ] || cp $d/before $d/after; done",
        )
        source = self.run("source", "host", f"cd {self.model('source')} && {listed}").stdout
        extra = self.run("source", "host", f"cd /srv/data/chat && {listed}").stdout
        for number, path, was in ((0, self.model("target"), source), (1, "/srv/data/chat", extra)):
            self.run(
                "target",
                "host",
                f"cd /var/lib/kpro/migrations/*.copy || exit\n"
                f"[ ! -e {number}.placed ] || printf '%s\\n%s\\n' $(stat -c %d:%i {path}) {path} >{number}.placed\n"
                f"[ ! -e {number}.seen ] || {{ cat >{number}.source; (cd {path} && {listed}) >{number}.seen; }}",
                was,
            )

    def model(self, role: Role) -> str:
        """The folder of its model, on the metal."""
        return f"/srv/models/{Path(self.ends[role].service.model.directory).name}"

    @property
    def folders(self) -> tuple[Folder, ...]:
        directory = self.ends["target"].service.model.directory
        found = [Folder(directory, directory, True)]
        return (*found, Folder(EXTRA, EXTRA, False)) if self.extra else tuple(found)

    def close(self) -> None:
        for role in self.ends:
            self.end_units(role)
        for holder in reversed(self.holders.values()):
            holder.kill()
            holder.communicate()
