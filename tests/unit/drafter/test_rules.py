"""Every rule of the table has a case that fires it; the healthy pairs fire none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from checks.data.drafter_families import FAMILIES
from checks.drafter.case import Case
from checks.drafter.config import parse
from checks.drafter.doctor import CHECKS, RULES, applicable_rules
from checks.drafter.folder import Tokens
from checks.model import Status
from tests.unit.drafter.makers import (
    Pair,
    case_of,
    draft_model,
    eagle,
    family_pair,
    incident_pair,
    toy_pair,
)


def row(name: str) -> Pair:
    return family_pair(next(item for item in FAMILIES if item.name == name))


def toy() -> Pair:
    return toy_pair()


def sliding() -> Pair:
    return row("Qwen3.6-27B-DFlash")


def qwen8() -> Pair:
    return row("Qwen3-8B-DFlash-b16")


def mtp_pair() -> Pair:
    """A target with one prediction layer in its own checkpoint."""
    shapes = {f"model.layers.{n}.mlp.up_proj.weight": (64, 32) for n in range(4)}
    shapes |= {"mtp.fc.weight": (32, 64), "mtp.layers.0.self_attn.q_proj.weight": (32, 32)}
    config = {
        "model_type": "qwen3_5_text",
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "mtp_num_hidden_layers": 1,
    }
    return Pair(shapes, {**config, "vocab_size": 100}, {**config, "vocab_size": 100})


@dataclass(frozen=True)
class Fires:
    """How to make a rule fire: a pair, a change of it, an engine, and a change of the case."""

    make: Callable[[], Pair] = toy
    config: dict[str, Any] = field(default_factory=dict)
    special: dict[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    drop_tensors: tuple[str, ...] = ()
    tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)
    added: dict[int, str] = field(default_factory=dict)
    engine: str = "vllm==0.20.1"
    runner: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    case: Callable[[Case], Case] = lambda case: case

    def build(self) -> Case:
        pair = self.make()
        if pair.config is not None:
            for name in self.drop:
                pair.config.pop(name, None)
                pair.config.get("dflash_config", {}).pop(name, None)
            pair.config |= self.config
            if self.special:
                pair.config["dflash_config"] = {**pair.config.get("dflash_config", {}), **self.special}
        (pair.target.get("text_config") or pair.target).update(self.target)
        for name in self.drop_tensors:
            pair.shapes = {key: shape for key, shape in pair.shapes.items() if name not in key}
        pair.shapes |= self.tensors
        pair.types |= self.types
        pair.added |= self.added
        return self.case(case_of(pair, self.engine, runner=self.runner, **self.options))


def no_config() -> Pair:
    pair = qwen8()
    pair.config = None
    return pair


def speculators() -> Pair:
    pair = toy()
    body = {
        key: value
        for key, value in (pair.config or {}).items()
        if key not in ("dflash_config", "architectures")
    }
    body.pop("eagle_aux_hidden_state_layer_ids")
    pair.config = {
        "speculators_model_type": "dflash",
        "aux_hidden_state_layer_ids": [2, 6, 10],
        "mask_token_id": 4090,
        "block_size": 8,
        "transformer_layer_config": body,
    }
    return pair


def with_drafter(**changes: Any) -> Callable[[Case], Case]:
    return lambda case: replace(case, drafter=replace(case.drafter, **changes))


def gguf(case: Case) -> Case:
    raw = {"architectures": ["DFlashDraftModel"], "dflash.target_layers": [2, 6, 10], "mask_token_id": 4090}
    return replace(case, shape=None, drafter=replace(case.drafter, config=parse(raw, "gguf"), tensors={}))


QUANT = {"quant_method": "compressed-tensors", "ignore": ["lm_head"]}
IGNORED = {"quant_method": "compressed-tensors", "ignore": ["re:.*mtp.*"]}
SAME = {"same": True}
TYPES4 = ["sliding_attention"] * 4 + ["full_attention"]

FIRES: dict[str, Fires] = {
    "config_absent": Fires(no_config),
    "fields_wrong": Fires(config={"hidden_size": "256"}),
    "gguf": Fires(case=gguf),
    "engine_unsupported": Fires(engine="sglang==0.5.10.post1"),
    "dflash2_on_v1": Fires(lambda: row("Qwen3.8-27B-DFlash2")),
    "speculators_v2": Fires(speculators, engine="vllm==0.33.0"),
    "kind_unknown": Fires(lambda: Pair({}, {"model_type": "qwen3"}, toy().target)),
    "defaults_harmful": Fires(drop=("vocab_size",)),
    "rope_unwritten": Fires(draft_model, drop=("rope_theta",)),
    "revision_unknown": Fires(case=with_drafter(revisions={})),
    "revision_mixed": Fires(case=with_drafter(revisions={"a" * 12: "x", "b" * 12: "y"})),
    "tensors_missing": Fires(drop_tensors=("fc.weight",)),
    "tensors_files": Fires(case=with_drafter(absent_files=("model-00002.safetensors",))),
    "tensors_unknown": Fires(tensors={"layers.0.strange.weight": (3,)}),
    "tensors_odd": Fires(tensors={"layers.1.mlp.up_proj.weight": (64, 256)}),
    "geometry_differs": Fires(config={"num_key_value_heads": 4}),
    "width_differs": Fires(target={"hidden_size": 320}),
    "target_hidden": Fires(config={"target_hidden_size": 512}),
    "tensors_adapter": Fires(draft_model, tensors={"layers.0.self_attn.q_proj.lora_A.weight": (8, 128)}),
    "tensors_missing_other": Fires(eagle, drop_tensors=("fc.weight",)),
    "geometry_differs_other": Fires(eagle, config={"num_attention_heads": 8}),
    "width_differs_eagle": Fires(eagle, target={"hidden_size": 320}),
    "layers_differ_eagle": Fires(
        eagle, drop=("eagle_aux_hidden_state_layer_ids",), tensors={"fc.weight": (256, 1024)}
    ),
    "vocab_tables": Fires(eagle, tensors={"d2t": (999,)}),
    "dtype_mixed": Fires(types={"fc.weight": "F16"}),
    "dtype_differs": Fires(config={"dtype": "float16"}),
    "ids_missing": Fires(drop=("target_layer_ids", "eagle_aux_hidden_state_layer_ids")),
    "ids_missing_lucky": Fires(
        drop=("target_layer_ids", "eagle_aux_hidden_state_layer_ids"), engine="sglang==0.5.11"
    ),
    "ids_elsewhere": Fires(
        config={"target_layer_ids": [1, 5, 9]}, drop=("eagle_aux_hidden_state_layer_ids", "dflash_config")
    ),
    "ids_wrong_count": Fires(config={"eagle_aux_hidden_state_layer_ids": [2, 6]}),
    "ids_twice": Fires(config={"eagle_aux_hidden_state_layer_ids": [2, 2, 10]}),
    "ids_not_rising_sorted": Fires(config={"eagle_aux_hidden_state_layer_ids": [10, 6, 2]}),
    "ids_not_rising_honoured": Fires(special={"target_layer_ids": [9, 5, 1]}, engine="sglang==0.5.11"),
    "ids_out_of_range": Fires(config={"eagle_aux_hidden_state_layer_ids": [2, 6, 13]}),
    "ids_shifted": Fires(qwen8),
    "ids_shifted_by_hand": Fires(qwen8, special={"target_layer_ids": [2, 10, 18, 26, 34]}),
    "ids_fields_disagree": Fires(config={"eagle_aux_hidden_state_layer_ids": [0, 4, 8]}),
    "ids_fields_disagree_known": Fires(special={"target_layer_ids": [0, 4, 8]}),
    "ids_off_family": Fires(incident_pair),
    "ids_off_formula": Fires(config={"eagle_aux_hidden_state_layer_ids": [0, 6, 12]}),
    "mask_missing": Fires(drop=("mask_token_id",)),
    "mask_beyond": Fires(special={"mask_token_id": 4100}),
    "mask_is_end": Fires(special={"mask_token_id": 0}),
    "mask_is_ordinary": Fires(special={"mask_token_id": 300}),
    "mask_is_template": Fires(special={"mask_token_id": 4000}, added={4000: "<|im_start|>"}),
    "mask_off": Fires(qwen8, special={"mask_token_id": 151670}),
    "mask_elsewhere": Fires(drop=("mask_token_id",), config={"mask_token_id": 4090}),
    "mask_elsewhere_unsure": Fires(
        drop=("mask_token_id",), config={"mask_token_id": 4090}, engine="vllm==0.25.0"
    ),
    "mask_off_relatives": Fires(lambda: row("Qwen3-Coder-30B-A3B-DFlash"), special={"mask_token_id": 151670}),
    "mask_two": Fires(config={"mask_token_id": 4091}),
    "rope_absent": Fires(drop=("rope_theta",)),
    "rope_differs": Fires(config={"rope_theta": 1e8}),
    "rope_own": Fires(eagle, config={"rope_theta": 5e4}),
    "rope_two": Fires(config={"rope_parameters": {"rope_theta": 1e4}}),
    "rope_partial": Fires(config={"partial_rotary_factor": 0.25}),
    "rope_scaled": Fires(config={"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
    "vocab_smaller": Fires(config={"vocab_size": 3000}),
    "vocab_larger": Fires(drop=("vocab_size",)),
    "vocab_reduced": Fires(config={"draft_vocab_size": 1000}),
    "vocab_table": Fires(tensors={"embed_tokens.weight": (5000, 256)}),
    "target_depth": Fires(config={"num_target_layers": 6}),
    "target_depth_absent": Fires(drop=("num_target_layers",)),
    "tokenizer_differs": Fires(added={5: "<a>"}, case=with_drafter(tokens=Tokens({5: "<b>"}))),
    "window_ignored": Fires(sliding),
    "window_ignored_beyond": Fires(sliding, options={"context": 4096}),
    "window_refused": Fires(sliding, engine="vllm==0.25.0"),
    "window_dropped": Fires(sliding, engine="sglang==0.5.23", drop=("use_sliding_window",)),
    "window_dropped_unread": Fires(sliding, drop=("use_sliding_window",)),
    "window_no_size": Fires(sliding, engine="sglang==0.5.23", drop=("sliding_window",)),
    "window_no_types": Fires(config={"use_sliding_window": True, "sliding_window": 64}),
    "window_types_wrong": Fires(config={"layer_types": ["full_attention"]}),
    "window_off_family": Fires(sliding, config={"layer_types": ["full_attention"] * 5}),
    "block_absent": Fires(drop=("block_size",)),
    "block_differs": Fires(qwen8, config={"block_size": 8}, engine="sglang==0.5.23"),
    "block_differs_unread": Fires(qwen8, config={"block_size": 8}),
    "block_two": Fires(special={"block_size": 16}),
    "k_long": Fires(options={"k": 15}),
    "k_short": Fires(options={"k": 3}),
    "k_uneven": Fires(mtp_pair, options={**SAME, "k": 3}, target={"mtp_num_hidden_layers": 2}),
    "eps_differs": Fires(config={"rms_norm_eps": 1e-5}),
    "act_differs": Fires(config={"hidden_act": "gelu"}),
    "positions_short": Fires(config={"max_position_embeddings": 2048}),
    "type_absent": Fires(drop=("model_type",)),
    "type_odd": Fires(config={"model_type": "llama"}),
    "architecture_wrong": Fires(config={"architectures": ["Qwen3ForCausalLM"]}),
    "mtp_lost": Fires(mtp_pair, drop_tensors=("mtp.",), options=SAME),
    "mtp_undeclared": Fires(mtp_pair, target={"mtp_num_hidden_layers": 0}, options=SAME),
    "mtp_fewer": Fires(mtp_pair, target={"mtp_num_hidden_layers": 2}, options=SAME),
    "mtp_unlisted": Fires(mtp_pair, target={"quantization_config": QUANT}, options=SAME),
    "mtp_listed_packed": Fires(
        mtp_pair, target={"quantization_config": IGNORED}, types={"mtp.fc.weight": "U8"}, options=SAME
    ),
    "mtp_dropped": Fires(
        mtp_pair, target={"quantization_config": IGNORED}, engine="sglang==0.5.11", options=SAME
    ),
    "mtp_files": Fires(mtp_pair, options=SAME, case=with_drafter(absent_files=("b.safetensors",))),
}

HEALTHY: dict[str, Fires] = {
    "toy on 0.20.1": Fires(),
    "toy with the right k": Fires(options={"k": 7}),
    "8B on 0.33": Fires(qwen8, engine="vllm==0.33.0"),
    "8B on SGLang with its k": Fires(qwen8, engine="sglang==0.5.23", options={"k": 16}),
    "27B on 0.33": Fires(sliding, engine="vllm==0.33.0"),
    "27B on the reference": Fires(sliding, engine="dflash==0.1.0"),
    "DFlash2 on 0.33": Fires(lambda: row("Qwen3.8-27B-DFlash2"), engine="vllm==0.33.0"),
    "speculators on 0.20.1": Fires(speculators),
    "prediction layer": Fires(mtp_pair, options=SAME),
    "EAGLE-3": Fires(eagle),
    "EAGLE-3 without a list of layers": Fires(eagle, drop=("eagle_aux_hidden_state_layer_ids",)),
    "draft model": Fires(draft_model),
    "quantised, listed": Fires(mtp_pair, target={"quantization_config": IGNORED}, options=SAME),
}


@pytest.mark.parametrize("name", sorted(rule.name for rule in RULES))
def test_every_rule_has_a_case_that_fires_it(name: str) -> None:
    fired = {item.rule.name for item in applicable_rules(FIRES[name].build())}
    assert name in fired


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_cases_fire_no_rule(name: str) -> None:
    assert [item.rule.name for item in applicable_rules(HEALTHY[name].build())] == []


def test_rules_and_cases_are_the_same_set_and_every_rule_belongs_to_a_check() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    assert set(names) == set(FIRES)
    assert {rule.check for rule in RULES} <= {check.id for check in CHECKS}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_tells_what_why_and_what_to_do_from_its_own_facts(rule: Any) -> None:
    facts = rule.when(FIRES[rule.name].build())
    for text in (rule.message, rule.cause, rule.fix, rule.source):
        assert text.strip()
    assert "{" not in (rule.message + rule.cause + rule.fix).format(**facts)
    assert rule.status in (Status.WARN, Status.FAIL, Status.UNKNOWN)


@pytest.mark.parametrize(("context", "rule"), [(2048, "window_ignored"), (2049, "window_ignored_beyond")])
def test_an_ignored_window_is_a_warning_up_to_its_size_and_a_failure_beyond(context: int, rule: str) -> None:
    fired = {
        item.rule.name for item in applicable_rules(Fires(sliding, options={"context": context}).build())
    }
    assert fired & {"window_ignored", "window_ignored_beyond"} == {rule}


@pytest.mark.parametrize(
    ("ids", "bad"), [([0, 5, 12], []), ([0, 5, 13], [13]), ([-1, 5, 9], [-1]), ([1, 5, 12], [])]
)
def test_a_shifted_list_runs_from_the_embeddings_to_the_last_layer(ids: list[int], bad: list[int]) -> None:
    case = Fires(config={"eagle_aux_hidden_state_layer_ids": ids}).build()
    facts = [item.facts["bad"] for item in applicable_rules(case) if item.rule.name == "ids_out_of_range"]
    assert facts == ([bad] if bad else [])


@pytest.mark.parametrize(("ids", "bad"), [([0, 5, 11], []), ([1, 5, 12], [12]), ([-1, 5, 9], [-1])])
def test_a_plain_list_runs_from_the_first_to_the_last_layer(ids: list[int], bad: list[int]) -> None:
    case = Fires(special={"target_layer_ids": ids}, engine="sglang==0.5.11").build()
    facts = [item.facts["bad"] for item in applicable_rules(case) if item.rule.name == "ids_out_of_range"]
    assert facts == ([bad] if bad else [])


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"eagle_aux_hidden_state_layer_ids": [2, 6]}, "ids_wrong_count"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 6, 20]}, "ids_out_of_range"),
        ({"rope_theta": 1e4}, "rope_own"),
        ({"vocab_size": 3000}, "vocab_smaller"),
    ],
)
def test_an_eagle_drafter_is_judged_by_what_it_shares_with_the_others(
    change: dict[str, Any], rule: str
) -> None:
    assert rule in {item.rule.name for item in applicable_rules(Fires(eagle, config=change).build())}


def test_ids_counted_in_another_way_are_named_as_such() -> None:
    case = Fires(qwen8, special={"target_layer_ids": [2, 10, 18, 26, 34]}, engine="vllm==0.33.0").build()
    facts = next(item.facts for item in applicable_rules(case) if item.rule.name == "ids_off_family")
    assert "all by one" in facts["far"]
