"""The incident's patch against the very wheel that it was needed for: vLLM 0.20.1, 244 MB from the machine's index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from provision.inventory.engine_rules import of_engine
from provision.spec import Engine, Patch
from tests.full.conftest import CACHE

PATCH = Path(__file__).parents[1] / "engine/patches/layer-ids-of-vllm-0.20.1.patch"


@pytest.fixture(scope="module")
def wheelhouse() -> Path:
    folder = CACHE / "wheels-0.20.1"
    if not list(folder.glob("vllm-0.20.1-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder, "vllm==0.20.1"]
        subprocess.run(command, check=True, timeout=900)
    return folder


def wrong(wheelhouse: Path, patch: Path, python: str = "3.13", glibc: tuple[int, int] = (2, 41)) -> list[str]:
    spec = Engine(
        kind="vllm",
        version="0.20.1",
        python=python,
        source="wheel",
        wheelhouse=wheelhouse,
        patches=(Patch(file=patch, why="layer ids are one too low (vllm-project/vllm#40727)"),),
    )
    return [text for _, text in of_engine(spec, glibc)]


def test_the_incident_s_patch_applies_to_the_release_that_needed_it(wheelhouse: Path) -> None:
    assert wrong(wheelhouse, PATCH) == []


def test_one_line_that_is_another_one_and_all_of_it_is_refused(wheelhouse: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.patch"
    other.write_text(
        PATCH.read_text().replace("-                layer_ids = dflash", "-                layers = dflash")
    )
    (reason,) = wrong(wheelhouse, other)
    assert "gpu_model_runner.py, hunk 1 (line 4962): at line 4965 stands" in reason


def test_a_guest_that_is_too_old_for_the_wheel_is_refused(wheelhouse: Path) -> None:
    (reason,) = wrong(wheelhouse, PATCH, glibc=(2, 31))
    assert "needs glibc 2.35, and the guest has 2.31" in reason
