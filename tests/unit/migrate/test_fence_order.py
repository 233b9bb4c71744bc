"""The scripts of the fence, run for real in a folder: what is on the disk at each sync, and where they are cut."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from provision.host.transport import Completed, TransportError
from provision.migrate import fence
from provision.run.errors import ActFailed
from provision.spec import Engine, Model, Service

UNIT = "/etc/systemd/system/kpro-chat.service"
SERVICE = Service(
    name="chat",
    engine=Engine(kind="standin", version="1.0.0"),
    model=Model(repo="kpro/tiny", revision="1" * 40),
)
_SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >>{log}
case "$1" in
  show) echo LoadState=loaded; echo FragmentPath={unit}; echo CanStart=yes; echo CanStop=yes ;;
  cat) cat {unit} {unit}.d/*.conf 2>/dev/null ;;
  daemon-reload) exit {code} ;;
  *) exit 99 ;;
esac
"""
_SYNC = """#!/bin/sh
d=no m=no
[ -e {unit}.d/kpro-migrated.conf ] && d=yes
[ -e {marker} ] && m=yes
echo "sync drop_in=$d marker=$m" >>{log}
"""


@dataclass
class Guest:
    """Scripts run with the paths of a guest below ``root``."""

    root: Path
    service: Service = SERVICE
    name: str = "kpro6"
    reload: int = 0
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.root / "log"
        (self.root / "bin").mkdir()
        self.at(UNIT).parent.mkdir(parents=True)
        self.at(UNIT).write_text("[Service]\nExecStart=/bin/true\n")
        self.at("/var/lib/kpro").mkdir(parents=True)

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        values = {
            "log": self.log,
            "unit": self.at(UNIT),
            "marker": self.at(fence.marker(SERVICE)),
            "code": self.reload,
        }
        for name, text in (("systemctl", _SYSTEMCTL), ("sync", _SYNC)):
            (self.root / "bin" / name).write_text(text.format(**values))
            (self.root / "bin" / name).chmod(0o755)
        for folder in ("/etc/systemd", "/var/lib/kpro"):
            script = script.replace(folder, f"{self.root}{folder}")
        # What is compared, and what the condition says, are paths of the guest.
        script = script.replace(f"ConditionPathExists=!{self.root}", "ConditionPathExists=!")
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            input=stdin,
            capture_output=True,
            check=False,
            env={"PATH": f"{self.root}/bin:{os.environ['PATH']}"},
        )
        return Completed(done.returncode, done.stdout, done.stderr)

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def test_the_drop_in_is_on_the_disk_and_known_to_systemd_before_the_marker_comes(guest: Guest) -> None:
    fence.put(guest, "run", "kpro5")
    first = next(i for i, line in enumerate(guest.lines) if "marker=yes" in line)
    assert "drop_in=yes" in guest.lines[first]
    assert "systemctl daemon-reload" in guest.lines[:first]
    assert fence.look(guest).up
    assert guest.lines[-1].startswith("systemctl cat")


def test_the_marker_is_gone_from_the_disk_before_the_drop_in_goes(guest: Guest) -> None:
    fence.put(guest, "run", "kpro5")
    before = len(guest.lines)
    fence.take_away(guest, "run")
    states = [line for line in guest.lines[before:] if line.startswith("sync")]
    assert states[0] == "sync drop_in=yes marker=no"
    assert fence.look(guest).away
    assert not guest.at(f"{UNIT}.d").exists()


def test_a_put_that_is_cut_leaves_the_service_free_and_the_next_one_finishes_it(guest: Guest) -> None:
    guest.reload = 1
    with pytest.raises(ActFailed, match="fencing it ended with 1"):
        fence.put(guest, "run", "kpro5")
    assert not guest.at(fence.marker(SERVICE)).exists()
    guest.reload = 0
    fence.put(guest, "run", "kpro5")
    assert fence.look(guest).up


def test_a_drop_in_of_others_stays(guest: Guest) -> None:
    other = guest.at(f"{UNIT}.d/limits.conf")
    other.parent.mkdir()
    other.write_text("[Service]\nLimitNOFILE=9\n")
    fence.put(guest, "run", "kpro5")
    fence.take_away(guest, "run")
    assert other.read_text() == "[Service]\nLimitNOFILE=9\n"


def test_no_half_written_file_is_left(guest: Guest) -> None:
    fence.put(guest, "run", "kpro5")
    assert list(guest.root.rglob(".kpro-put*")) == []
    assert guest.at(UNIT).read_text() == "[Service]\nExecStart=/bin/true\n"


class Away:
    name, service = "kpro6", SERVICE

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        raise TransportError("the container does not run")


def test_a_guest_that_cannot_be_looked_at_is_refused_and_hides_no_other_reason(guest: Guest) -> None:
    assert fence.check(guest, "run") == []
    (found,) = fence.check(Away(), "run")
    assert "the container does not run" in found.seen
    assert found.next_step
