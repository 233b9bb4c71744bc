"""Cache sizes against the counters of recorded vLLM 0.20.1 servers: one GiB of cache each, a tiny target."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from checks.fit.cache import Settings, drafted, plan, specs
from checks.fit.gpus import GIB, recorded
from checks.fit.shape import read_shape

TARGET = {
    "hidden_size": 256,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 4096,
}


def test_every_recorded_server_has_the_blocks_that_are_computed_for_it(shared: Path) -> None:
    folder = shared / "fixtures" / "spec"
    judged = 0
    for metrics in sorted(folder.glob("*.metrics.txt")):
        counted = re.search(r'num_gpu_blocks="(\d+)"', metrics.read_text())
        config = folder / metrics.name.replace(".metrics.txt", ".drafter_config.json")
        drafter = read_shape(json.loads(config.read_text())) if config.exists() else None
        settings = Settings(tp=1)
        layers = drafted(specs(read_shape(TARGET), settings), drafter, settings, windows=False)
        assert counted is not None
        assert GIB // plan(layers, settings).block_bytes == int(counted[1]), metrics.name
        judged += 1
    assert judged > 20


@pytest.mark.parametrize(("name", "count"), [("real_h200_x1", 1), ("real_h200_x2", 2)])
def test_a_recorded_h200_has_what_cuda_sees_of_it(shared: Path, name: str, count: int) -> None:
    gpus = recorded(shared / "fixtures" / "health" / name / "nvml_dump.json")
    assert gpus.usable == (150109880320,) * count
