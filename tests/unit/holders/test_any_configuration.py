"""Laws of the release for any configuration: nothing is left that holds, once is enough, and the way back is exact."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.bdf import Bdf
from provision.acts import release
from provision.host import transport
from provision.host.moves import Edits, FileEdit
from provision.host.release import configuration
from provision.host.release.decide import metal_plan
from provision.host.view import PciFunction
from provision.spec import Driver, Gpu, Machine
from tests.unit.holders.configs import CONFIGS
from tests.unit.plan.seen import Seen

GPU, TWIN = "0000:42:00.0", "0000:61:00.0"
MACHINE = Machine(
    name="box",
    gpus=[Gpu(bdf=GPU, model="RTX A6000")],
    driver=Driver(version="580.159.04", flavour="open", route="prebuilt"),
)
patient = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], max_examples=60)


def host(files: dict[str, str], twin: bool) -> Seen:
    seen = (
        Seen().boots().put("pci", "/sys/bus/pci/devices", "").put("file", "/proc/driver/nvidia/version", None)
    )
    seen.gpu(GPU, "vfio-pci", "25").audio("0000:42:00.1", "vfio-pci", "25")
    if twin:
        seen.gpu(TWIN, "vfio-pci", "10")
    for path, text in files.items():
        seen.put("file", path, text)
    return seen


def edits(seen: Seen) -> tuple[FileEdit, ...]:
    plan, _ = metal_plan(MACHINE, seen.snapshot)
    return tuple(
        edit for item in plan.items if isinstance(item.payload, Edits) for edit in item.payload.files
    )


def apply(seen: Seen, wanted: tuple[FileEdit, ...]) -> Seen:
    for edit in wanted:
        seen.put("file", edit.path, None if edit.gone else edit.data)
    return seen


def function(bdf: str, device: str = "0x2230", pci_class: str = "0x030000") -> PciFunction:
    return PciFunction(Bdf.parse(bdf), device, pci_class, None, None, None)


OURS = (function(GPU), function("0000:42:00.1", "0x1aef", "0x040300"))


@patient
@given(CONFIGS, st.booleans())
def test_after_the_edits_no_place_holds_the_gpu_and_a_second_run_has_none(
    files: dict[str, str], twin: bool
) -> None:
    seen = host(files, twin)
    apply(seen, edits(seen))
    for place in configuration.places(seen.snapshot):
        for holder in place.holders:
            assert holder.instead or not any(holder.holds(one) for one in OURS), str(holder)
    assert edits(seen) == ()


@patient
@given(CONFIGS)
def test_a_twin_that_stays_is_bound_by_its_address_when_its_ids_go(files: dict[str, str]) -> None:
    seen = host(files, True)
    before = [place for place in configuration.places(seen.snapshot) if _holds(place, TWIN)]
    apply(seen, edits(seen))
    left = [place for place in configuration.places(seen.snapshot) if _holds(place, TWIN)]
    rules = seen.snapshot.sections.get(("file", configuration.RULES_FILE))
    by_address = rules is not None and rules.data is not None and TWIN.encode() in rules.data
    assert not before or left or by_address


def _holds(place: configuration.Place, bdf: str) -> bool:
    return any(holder.holds(function(bdf)) for holder in place.holders)


@patient
@given(CONFIGS)
def test_lines_of_other_people_stay_byte_for_byte(files: dict[str, str]) -> None:
    """Every line that says nothing of VFIO, of NVIDIA or of what waits for them is in the new file as it was."""
    seen = host(files, False)
    words = (
        "vfio",
        "nvidia",
        "pci-stub",
        "pci_stub",
        "nouveau",
        "drm",
        "snd_hda",
        "xhci",
        "GRUB",
        "VFIO",
        "kernel_cmdline",
    )
    for edit in edits(seen):
        old = files.get(edit.path, files.get(edit.path.replace("/etc/", "/usr/lib/"), ""))
        lines = old.encode().split(b"\n")
        kept = [
            line
            for line, before in zip(lines, [b"", *lines], strict=False)
            if not any(word.encode() in line for word in words) and not before.endswith(b"\\")
        ]
        new = edit.data.split(b"\n")
        assert edit.gone or all(line in new or b"# kpro: " + line in new for line in kept)


class Local:
    """Runs what acts send to a host on a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "run").mkdir()

    def here(self, script: str) -> str:
        return script.replace("/var/lib/kpro", f"{self.root}/kpro").replace(
            "/run/kpro", f"{self.root}/run/kpro"
        )

    def stream(self, host: object, command: str, source: BinaryIO, **_: object) -> transport.Completed:
        done = subprocess.run(
            ["sh", "-c", self.here(command)],
            input=source.read(),
            capture_output=True,
            check=False,
            timeout=60,
        )
        return transport.Completed(done.returncode, done.stdout, done.stderr)

    def files(self) -> dict[str, tuple[bytes, int]]:
        found = (path for path in (self.root / "m").rglob("*") if path.is_file())
        return {str(path): (path.read_bytes(), path.stat().st_mode) for path in found}


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(CONFIGS.filter(lambda files: len(files) > 2), st.booleans())
def test_edits_and_the_undo_script_give_the_original_bytes(files: dict[str, str], twin: bool) -> None:
    wanted = edits(host(files, twin))
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(transport, "stream") as stream:
        local = Local(Path(folder))
        stream.side_effect = local.stream
        for path, text in files.items():
            place = Path(f"{folder}/m{path}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode())
            place.chmod(0o640)
        before = local.files()
        moved = Edits(tuple(_below(f"{folder}/m", edit) for edit in wanted))
        named: Any = SimpleNamespace(name="box")
        say: Any = _Say("r1")
        release.edit_files(named, moved, say)
        after = {path.removeprefix(f"{folder}/m"): data for path, (data, _) in local.files().items()}
        for edit in wanted:
            assert after.get(edit.path) == (None if edit.gone else edit.data)
        done = _undo(local)
        assert done.returncode == 0, done.stdout + done.stderr
        assert local.files() == before


def _below(folder: str, edit: FileEdit) -> FileEdit:
    return FileEdit(f"{folder}{edit.path}", edit.before, edit.data, edit.why, edit.mode, edit.gone)


def _undo(local: Local) -> subprocess.CompletedProcess[str]:
    """Without what makes the initramfs anew, which is this machine's."""
    text = local.here((local.root / "kpro" / "undo.sh").read_text())
    text = text.replace("\nregenerate\n", "\n:\n")
    environment = {**os.environ, "KPRO_RUN": "r1"}
    return subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False, env=environment)


class _Say:
    def __init__(self, run: str) -> None:
        self.run = run

    def __call__(self, text: str) -> None:
        pass
