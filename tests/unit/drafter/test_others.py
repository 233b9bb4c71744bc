"""EAGLE drafters and ordinary draft models: what is cut, of another target or described by another config is red."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.drafter.makers import Pair, draft_model, eagle, judged, toy_pair

Change = Callable[[Pair], None]


def without(*words: str) -> Change:
    def change(pair: Pair) -> None:
        pair.shapes = {n: s for n, s in pair.shapes.items() if not any(word in n for word in words)}

    return change


def config(**values: Any) -> Change:
    def change(pair: Pair) -> None:
        assert pair.config is not None
        pair.config |= values
        pair.config = {name: value for name, value in pair.config.items() if value is not None}

    return change


def tensors(**shapes: tuple[int, ...]) -> Change:
    return lambda pair: pair.shapes.update({n.replace("__", "."): s for n, s in shapes.items()})


def target(**values: Any) -> Change:
    return lambda pair: pair.target.update(values)


def packed(pair: Pair) -> None:
    """The linears as a quantised checkpoint names and shapes them."""
    linears = [name for name in pair.shapes if "_proj.weight" in name]
    for name in linears:
        rows, columns = pair.shapes.pop(name)
        pair.shapes |= {
            name.replace(".weight", ".qweight"): (columns // 8, rows),
            name.replace(".weight", ".scales"): (columns // 128, rows),
        }


def hybrid(pair: Pair) -> None:
    """A layer of another make than the rest."""
    config(model_type="lfm2")(pair)
    without("layers.1.self_attn")(pair)
    pair.shapes["model.layers.1.conv.in_proj.weight"] = (384, 128)


@pytest.mark.parametrize(
    ("make", "change", "check", "words"),
    [
        (eagle, without("fc.weight"), "tensors", "fc.weight"),
        (eagle, without("self_attn"), "tensors", "layers.0.self_attn.q_proj.weight"),
        (eagle, without("hidden_norm"), "tensors", "layers.0.hidden_norm.weight"),
        (eagle, without("lm_head"), "tensors", "lm_head.weight"),
        (eagle, config(hidden_size=128), "geometry", "hidden_size 128, weights 256"),
        (eagle, config(num_key_value_heads=4), "geometry", "num_key_value_heads x head_dim 256, weights 128"),
        (eagle, target(hidden_size=320), "target_width", "the target's hidden states are 320 wide"),
        (eagle, tensors(fc__weight=(256, 960)), "target_width", "its fc takes 960"),
        (eagle, tensors(t2d=(5000,)), "vocab", "t2d has 5000 rows, the target 4096"),
        (eagle, tensors(d2t=(900,)), "vocab", "d2t has 900 rows"),
        (draft_model, without("layers.1."), "tensors", "layer 1"),
        (draft_model, without("layers.1.mlp.up_proj"), "tensors", "layers.1.mlp.up_proj.weight"),
        (draft_model, without("embed_tokens"), "tensors", "embed_tokens.weight"),
        (draft_model, config(tie_word_embeddings=False), "tensors", "lm_head.weight"),
        (draft_model, config(num_hidden_layers=1), "geometry", "num_hidden_layers 1, weights 2"),
        (draft_model, config(intermediate_size=512), "geometry", "intermediate_size 512, weights 384"),
    ],
)
def test_what_does_not_belong_together_is_named(
    make: Callable[[], Pair], change: Change, check: str, words: str
) -> None:
    pair = make()
    change(pair)
    found = judged(pair)[f"drafter.{check}"]
    assert found.status.value == "fail", found
    assert words in found.message


@pytest.mark.parametrize("make", [eagle, draft_model])
def test_no_weights_are_never_green(make: Callable[[], Pair]) -> None:
    pair = make()
    pair.shapes = {}
    found = judged(pair)
    assert found["drafter.tensors"].status.value == "unknown"
    assert found["drafter.geometry"].status.value == "unknown"


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (eagle, config(eagle_aux_hidden_state_layer_ids=None)),
        (eagle, without("t2d")),
        (eagle, packed),
        (draft_model, packed),
        (draft_model, hybrid),
        (draft_model, tensors(lm_head__weight=(4096, 128))),
        (draft_model, config(rope_theta=5e6)),
    ],
)
def test_healthy_ones_of_every_make_are_green(make: Callable[[], Pair], change: Change) -> None:
    pair = make()
    change(pair)
    bad = {n: f.message for n, f in judged(pair).items() if f.status.value in ("fail", "unknown")}
    assert set(bad) <= {"drafter.defaults"}, bad


@pytest.mark.parametrize("theta", [5e4, None])
def test_a_base_of_its_own_is_told_of_an_eagle_and_held_against_a_block_drafter(theta: float | None) -> None:
    found = {}
    for make in (eagle, toy_pair):
        pair = make()
        config(rope_theta=theta)(pair)
        found[make] = judged(pair)["drafter.rope"].status.value
    assert found == {eagle: "warn", toy_pair: "fail"}


def test_a_drafter_cut_where_its_kind_shows_is_judged_as_what_its_config_says() -> None:
    pair = eagle()
    without("fc.weight", "hidden_norm", "q_proj")(pair)
    assert "an EAGLE-3 drafter" in judged(pair)["drafter.engine"].message
    pair = toy_pair()
    without("fc.weight", "hidden_norm")(pair)
    assert judged(pair)["drafter.tensors"].status.value == "fail"
    assert "DFlash" in judged(pair)["drafter.engine"].message


def test_a_head_of_the_first_eagle_is_no_third_one() -> None:
    """Its fc takes the embedding and one hidden state, and its layer has neither norm before."""
    pair = eagle()
    without("hidden_norm", "input_layernorm", "lm_head", "d2t", "t2d", "norm.weight")(pair)
    for part in "qkv":
        rows, _ = pair.shapes[f"midlayer.self_attn.{part}_proj.weight"]
        pair.shapes[f"midlayer.self_attn.{part}_proj.weight"] = (rows, 256)
    pair.shapes |= {"fc.weight": (256, 512), "embed_tokens.weight": (4096, 256)}
    config(architectures=["EagleLlamaForCausalLM"], draft_vocab_size=None)(pair)
    config(eagle_aux_hidden_state_layer_ids=None)(pair)
    found = judged(pair)
    assert found["drafter.engine"].message.endswith("can run an EAGLE drafter of the first generations")
    assert [n for n, f in found.items() if f.status.value in ("fail", "unknown")] == []
    without("self_attn.o_proj")(pair)
    assert judged(pair)["drafter.tensors"].status.value == "fail"
