"""What is proven before anything stops, in a real container: a vLLM by name and parser, served by the stand-in."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.testhost.model import make_model
from tests.doubles import vllm_cpu
from tests.guest.place import Place
from tests.guest.rig import Container

pytestmark = pytest.mark.usefixtures("one_operator")
REVISION = "{:040x}"


class Staged(Place):
    """A place whose engine is called vllm-cpu."""

    def put(self, **service: Any) -> None:
        wheels = self.folder / "wheels"
        if not wheels.is_dir():
            vllm_cpu.build(wheels)
        engine = {"source": "wheel", "wheelhouse": str(wheels)}
        flags = service.pop("flags", ())
        self.write(flags=flags, engine=engine, **service)
        text = self.inventory.read_text()
        self.inventory.write_text(
            text.replace('kind="standin", version="1.0.0"', f'kind="vllm-cpu", version="{vllm_cpu.VERSION}"')
        )

    def checked(self) -> dict[str, str]:
        """The verdicts of the last run by gate."""
        last = list(self.events())
        run = max(index for index, event in enumerate(last) if event["event"] == "run")
        return {e["gate"]: e["verdict"] for e in last[run:] if e["event"] == "checked"}

    def good(self) -> None:
        """A service whose drafter, flags and size are in order."""
        drafter = self.folder / "drafter"
        if not drafter.is_dir():
            make_model(drafter, 1)
        self.put(
            flags=("--max-model-len", "512"),
            drafter={"repo": "kpro/drafter", "revision": REVISION.format(3), "folder": str(drafter)},
            profile="draft-model",
        )


@pytest.fixture(scope="module")
def made(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    place = Staged(tmp_path_factory.mktemp("gates"), Container(f"kprotest-{os.getpid()}-gates"))
    place.good()
    yield place
    place.remove()


def test_what_is_about_to_be_started_is_proven_and_a_second_run_asks_nothing_again(made: Staged) -> None:
    done = made.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert made.answer().strip()
    assert made.checked() == {
        "flags": "pass",
        "drafter": "pass",
        "fit": "pass",
        "load": "skip",
        "nccl": "skip",
    }
    assert "the parser installed with /opt/kpro/envs/vllm-cpu-0.32.0-" in done.stderr
    assert "gate drafter of tiny: pass (" in done.stderr
    left = made.container.attach("ls", "/tmp", "/var/lib/kpro")
    assert "kpro-gate" not in left
    assert "measured" not in left
    pid = made.main_pid()
    again = made.apply()
    assert again.returncode == 0, again.stderr[-3000:]
    assert (made.checked(), made.main_pid()) == ({}, pid)


def _too_big(folder: Path) -> Path:
    """A model whose index says that its weights are larger than any machine of these tests."""
    make_model(folder)
    (folder / "model.safetensors").unlink()
    index = {"metadata": {"total_size": 1 << 42}, "weight_map": {"lm_head.weight": "model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_a_bad_flag_a_bare_drafter_and_a_model_too_big_are_told_at_once_and_what_runs_goes_on(
    made: Staged, tmp_path: Path
) -> None:
    made.good()
    assert made.apply().returncode == 0
    pid, answer = made.main_pid(), made.answer()
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(made.folder / "drafter/model.safetensors", bare)
    made.put(
        # In the table of 0.32.0, and not in the parser that is installed.
        flags=("--kv-cache-dtype", "fp8_e4m3"),
        model={
            "repo": "kpro/huge",
            "revision": REVISION.format(1),
            "folder": str(_too_big(tmp_path / "huge")),
        },
        # On the machine: one that lies on the controller is refused before anything is built.
        drafter={"repo": "kpro/bare", "revision": REVISION.format(2), "path": str(bare)},
        profile="draft-model",
    )
    done = made.apply()
    assert done.returncode == 1, done.stderr
    assert made.checked() == {
        "flags": "fail",
        "drafter": "fail",
        "fit": "fail",
        "load": "skip",
        "nccl": "skip",
    }
    for word in (
        "the gate of tiny is red (flags: fail); what runs is left as it is",
        "--kv-cache-dtype",
        "the gate of tiny is red (drafter: fail)",
        "there is no config.json beside the weights",
        "drafter /srv/models/kpro--bare@",
        "--write",
        "the gate of tiny is red (fit: fail)",
        "does not fit",
    ):
        assert word in done.stderr, done.stderr[-4000:]
    assert (made.main_pid(), bool(answer), bool(made.answer())) == (pid, True, True)
