"""Disarming a machine, by a real shell in a folder of its own: with systemd as PID 1 and without it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from provision.acts import confirm
from tests.unit.guest.doubles import Doubles

NOT_BOOTED = 'echo "System has not been booted with systemd as init system (PID 1)." >&2; exit 1 ;;'


class Place:
    def __init__(self, folder: Path, booted: bool, reload: str) -> None:
        self.folder = folder
        for name in ("state", "units", "bin"):
            (folder / name).mkdir()
        if booted:
            (folder / "systemd").mkdir()
        for name in ("state/confirm.json", "units/kpro-confirm.timer", "units/kpro-undo.service"):
            (folder / name).touch()
        self.systemctl = Doubles(folder / "bin")
        self.systemctl.answer("systemctl", f'"-q disable --now "*) {NOT_BOOTED}', f"daemon-reload) {reload}")

    def disarm(self) -> int:
        script = confirm._DISARM
        for there, here in (
            ("/var/lib/kpro", "state"),
            ("/etc/systemd/system", "units"),
            ("/run/systemd/system", "systemd"),
        ):
            assert there in script
            script = script.replace(there, str(self.folder / here))
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(["sh", "-c", script], env={**os.environ, "PATH": path}, check=False).returncode

    @property
    def left(self) -> list[Path]:
        return [*(self.folder / "state").iterdir(), *(self.folder / "units").iterdir()]


def test_a_machine_without_systemd_is_disarmed_once_nothing_of_it_is_left(tmp_path: Path) -> None:
    place = Place(tmp_path, booted=False, reload=NOT_BOOTED)
    assert (place.disarm(), place.left) == (0, [])
    assert "systemctl daemon-reload" not in place.systemctl.asked


@pytest.mark.parametrize(("reload", "code"), [(";;", 0), (NOT_BOOTED, 1)])
def test_one_with_systemd_is_disarmed_when_systemd_has_read_that(
    tmp_path: Path, reload: str, code: int
) -> None:
    place = Place(tmp_path, booted=True, reload=reload)
    assert (place.disarm(), place.left) == (code, [])
    assert "systemctl daemon-reload" in place.systemctl.asked
