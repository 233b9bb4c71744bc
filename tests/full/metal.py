"""Virtual hosts of the long matrix: with any pile and any faults, the pinned driver at hand, one at a time."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from provision.testhost.vm import image
from provision.testhost.vm.host import EmulatedGpu, VirtualHost
from provision.testhost.vm.recipe import Recipe
from tests.vm.place import FIRST, SECOND, Metal
from tests.vm.rig import CACHE, FUNCTIONS, WAIT, say

LOCKED = dict.fromkeys(FUNCTIONS, "vfio-pci")
WHOLE = EmulatedGpu()
NO_GSP = EmulatedGpu({0x0: 0xB72000A1, 0xA00: 0x0})
FALLEN = EmulatedGpu({0x0: 0xFFFFFFFF, 0xA00: 0xFFFFFFFF})


@contextmanager
def booted(
    folder: Path, recipe: Recipe | None = None, gpus: Sequence[EmulatedGpu] = (WHOLE, WHOLE)
) -> Iterator[Metal]:
    """A fresh host that is up; gone at the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", CACHE)
        made = image.ready(recipe or Recipe(), say)
        with VirtualHost(made, gpus, say=say, owner="tests/full", wait=WAIT) as vm:
            patch.undo()
            yield Metal(folder, vm)


def install(metal: Metal, *words: str) -> subprocess.CompletedProcess[str]:
    """``apply`` of the metal alone: no container is the point here."""
    started = time.monotonic()
    done = metal.provision(
        "apply", str(metal.inventory), "--yes", "--phases", "install", *words, timeout=1500
    )
    say(f"apply ended with {done.returncode} after {time.monotonic() - started:.0f} s\n{done.stderr[-6000:]}")
    return done


def again(metal: Metal) -> list[str]:
    """What one more run changes: nothing, when all is as wanted."""
    done = metal.provision("apply", str(metal.inventory), "--phases", "install", "--json", timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    changed: list[str] = json.loads(done.stdout)["changed"]
    return changed


def released(metal: Metal) -> None:
    """Both GPUs are on the pinned driver, nothing is left of what held them, and the boot partition is whole."""
    drivers = metal.drivers()
    assert drivers[FIRST] == drivers[SECOND] == "nvidia", drivers
    assert "vfio-pci" not in drivers.values()
    assert metal.overrides() == {"(null)"}
    assert "535.261.03" in metal.sh("cat /proc/driver/nvidia/version")
    assert "vfio" not in metal.sh("cat /boot/grub/grub.cfg | grep linux; exit 0")
    assert metal.sh("ls /boot/*.new /var/lib/kpro/regenerate 2>/dev/null; exit 0") == ""


def start_install(metal: Metal) -> subprocess.Popen[str]:
    """The same in the background, its words in ``apply.log``."""
    return metal.start_apply("--phases", "install")


def until(metal: Metal, condition: str, process: subprocess.Popen[str], seconds: int = 900) -> None:
    """Until a condition is true on the host, looked at there and often, while the run is at work."""
    script = f"n=0; until {condition}; do n=$((n + 1)); [ $n -lt {seconds * 20} ] || exit 1; sleep 0.05; done"
    done = metal.vm.ssh(script, timeout=seconds + 60, check=False)
    said = (metal.folder / "apply.log").read_text()[-3000:]
    assert done.returncode == 0, f"never: {condition}\n{said}"
    assert process.poll() is None, f"the run had ended before: {said}"


def cut(metal: Metal, when: str, kind: str) -> None:
    """Cuts the power while a run does ``kind``, as soon as ``when`` is true on the host; then boots it again."""
    process = start_install(metal)
    until(metal, when, process)
    metal.vm.power_cut()
    process.wait(600)
    say(f"the cut run ended with {process.returncode}: {(metal.folder / 'apply.log').read_text()[-1500:]}")
    assert process.returncode == 1
    met = [event["event"] for event in metal.events() if event.get("kind") == kind]
    assert met[-2:] == ["begin", "failed"], met
    metal.vm.boot()
