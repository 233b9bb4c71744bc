"""Makes drafters and targets on disk: safetensors files of a header and nothing but a hole, configs,
tokenizers."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.data.drafter_families import FULL, Family
from checks.drafter.case import Case
from checks.drafter.config import parse
from checks.drafter.doctor import judge
from checks.drafter.engine import Engine
from checks.drafter.folder import Folder, Tokens
from checks.drafter.observe import build
from checks.model import Finding
from checks.safetensors import Tensor

Shapes = dict[str, tuple[int, ...]]
SIZES = {"BF16": 2, "F16": 2, "F32": 4, "U8": 1, "I32": 4, "F8_E4M3": 1}


def header(
    shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str] | None = None
) -> tuple[bytes, int]:
    """The header as bytes, and how many bytes of data it describes."""
    position, content = 0, {}
    for name, shape in shapes.items():
        kind = (types or {}).get(name, "BF16")
        size = SIZES[kind]
        for extent in shape:
            size *= extent
        content[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [position, position + size]}
        position += size
    return json.dumps(content).encode(), position


def write_weights(
    path: Path, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str] | None = None
) -> None:
    """A sparse file: the header is real, the data is a hole."""
    raw, data = header(shapes, types)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(raw)) + raw)
        stream.truncate(8 + len(raw) + data)


def dflash_shapes(
    *, hidden: int, inter: int, heads: int, kv: int, head_dim: int, layers: int, captured: int
) -> Shapes:
    shapes: Shapes = {
        "fc.weight": (hidden, captured * hidden),
        "hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
    }
    for number in range(layers):
        at = f"layers.{number}."
        shapes |= {
            f"{at}input_layernorm.weight": (hidden,),
            f"{at}post_attention_layernorm.weight": (hidden,),
            f"{at}self_attn.q_proj.weight": (heads * head_dim, hidden),
            f"{at}self_attn.k_proj.weight": (kv * head_dim, hidden),
            f"{at}self_attn.v_proj.weight": (kv * head_dim, hidden),
            f"{at}self_attn.o_proj.weight": (hidden, heads * head_dim),
            f"{at}self_attn.q_norm.weight": (head_dim,),
            f"{at}self_attn.k_norm.weight": (head_dim,),
            f"{at}mlp.gate_proj.weight": (inter, hidden),
            f"{at}mlp.up_proj.weight": (inter, hidden),
            f"{at}mlp.down_proj.weight": (hidden, inter),
        }
    return shapes


class Pair:
    """A drafter and its target in memory, to be changed and then written to a folder."""

    def __init__(self, shapes: Shapes, config: dict[str, Any] | None, target: dict[str, Any]) -> None:
        self.shapes, self.config, self.target = shapes, config, target
        self.types: dict[str, str] = {}
        self.added: dict[int, str] = {}
        self.vocab: dict[str, int] = {"the": 300, "of": 301}
        self.name = "drafter"

    def write(self, root: Path, name: str = "drafter@0123456789ab") -> tuple[Path, Path]:
        drafter, target = root / name, root / "target"
        drafter.mkdir(parents=True)
        target.mkdir(parents=True)
        if self.shapes:
            write_weights(drafter / "model.safetensors", self.shapes, self.types)
        if self.config is not None:
            (drafter / "config.json").write_text(json.dumps(self.config))
        (target / "config.json").write_text(json.dumps(self.target))
        added = {str(number): {"content": text} for number, text in self.added.items()}
        (target / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
        (target / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": self.vocab}}))
        return drafter, target


def family_pair(row: Family) -> Pair:
    """The healthy drafter of a row; sizes that the row leaves open are filled in."""
    hidden, inter = row.hidden or 2048, row.intermediate or 6144
    heads, kv, head_dim = row.heads or 32, row.kv_heads or 4, row.head_dim or 128
    layers, captured = row.layers or 5, row.captured or 5
    depth, vocab = row.target_layers or 48, row.vocab or 248320
    theta, eps = row.theta or 1e7, row.eps or 1e-6
    types = list(row.layer_types or (FULL,) * layers)
    shapes = dflash_shapes(
        hidden=hidden, inter=inter, heads=heads, kv=kv, head_dim=head_dim, layers=layers, captured=captured
    )
    kind = "DFlashDraftModel"
    if row.kind == "dflash2":
        kind = "DFlash2DraftModel"
        shapes["candidate_selector.hidden_projection.weight"] = (256, hidden)
    config: dict[str, Any] = {
        "architectures": [kind],
        "model_type": "qwen3",
        "hidden_size": hidden,
        "intermediate_size": inter,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": head_dim,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "vocab_size": vocab,
        "num_target_layers": depth,
        "rope_theta": theta,
        "rms_norm_eps": eps,
        "hidden_act": "silu",
        "max_position_embeddings": 262144,
        "initializer_range": 0.02,
        "use_cache": True,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": 7,
        "dtype": "bfloat16",
        "block_size": row.block or 16,
        "layer_types": types,
        "max_window_layers": layers,
        "dflash_config": {
            "mask_token_id": vocab - 5 if row.mask is None else row.mask,
            "target_layer_ids": list(row.ids or even_ids(depth, captured)),
        },
    }
    if "sliding_attention" in types:
        config |= {"sliding_window": row.window, "use_sliding_window": True}
    target = {
        "architectures": ["SomeForConditionalGeneration"],
        "text_config": {
            "model_type": "qwen3_5_text",
            "hidden_size": hidden,
            "num_hidden_layers": depth,
            "vocab_size": vocab,
            "rms_norm_eps": eps,
            "hidden_act": "silu",
            "max_position_embeddings": 262144,
            "eos_token_id": 7,
            "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        },
    }
    pair = Pair(shapes, config, target)
    pair.name = row.name
    return pair


def even_ids(depth: int, captured: int) -> list[int]:
    return [round(1 + i * (depth - 4) / (captured - 1)) for i in range(captured)]


def toy_pair() -> Pair:
    """The small pair that the effects were measured with: 12 layers, ids 1 5 9, mask 4090, block 8."""
    shapes = dflash_shapes(hidden=256, inter=768, heads=4, kv=2, head_dim=64, layers=3, captured=3)
    config: dict[str, Any] = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "vocab_size": 4096,
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "max_position_embeddings": 4096,
        "rope_theta": 1000000,
        "rms_norm_eps": 1e-06,
        "hidden_act": "silu",
        "eos_token_id": 0,
        "block_size": 8,
        "num_target_layers": 12,
        "dflash_config": {"mask_token_id": 4090, "target_layer_ids": [1, 5, 9]},
        "eagle_aux_hidden_state_layer_ids": [2, 6, 10],
    }
    target = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": 4096,
        "hidden_size": 256,
        "num_hidden_layers": 12,
        "max_position_embeddings": 4096,
        "rope_theta": 1000000,
        "rms_norm_eps": 1e-06,
        "hidden_act": "silu",
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    return Pair(shapes, config, target)


def draft_model() -> Pair:
    """An ordinary model of two layers, with the vocabulary of the toy's target."""
    pair = toy_pair()
    pair.shapes = {"model.embed_tokens.weight": (4096, 128), "model.norm.weight": (128,)}
    for number in range(2):
        at = f"model.layers.{number}."
        layer = dflash_shapes(hidden=128, inter=384, heads=4, kv=2, head_dim=32, layers=1, captured=1)
        pair.shapes |= {
            at + name.removeprefix("layers.0."): s for name, s in layer.items() if "layers.0." in name
        }
    pair.config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": 4096,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "rope_theta": 1000000,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    }
    return pair


def eagle() -> Pair:
    """An EAGLE-3 drafter of one layer that captures three target layers."""
    pair = toy_pair()
    pair.shapes = {
        "d2t": (1000,),
        "t2d": (4096,),
        "fc.weight": (256, 768),
        "norm.weight": (256,),
        "lm_head.weight": (1000, 256),
        "midlayer.hidden_norm.weight": (256,),
        "midlayer.input_layernorm.weight": (256,),
        "midlayer.post_attention_layernorm.weight": (256,),
        "midlayer.self_attn.q_proj.weight": (256, 512),
        "midlayer.self_attn.k_proj.weight": (128, 512),
        "midlayer.self_attn.v_proj.weight": (128, 512),
        "midlayer.self_attn.o_proj.weight": (256, 256),
        "midlayer.mlp.gate_proj.weight": (768, 256),
        "midlayer.mlp.up_proj.weight": (768, 256),
        "midlayer.mlp.down_proj.weight": (256, 768),
    }
    pair.config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "vocab_size": 4096,
        "draft_vocab_size": 1000,
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "rope_theta": 1000000,
        "rms_norm_eps": 1e-6,
        "eagle_aux_hidden_state_layer_ids": [2, 6, 9],
    }
    return pair


def incident_pair(mask: int = 248044) -> Pair:
    """The guess of the incident: ids by a spacing of 15.5, an end-of-text mask, theta, vocabulary and
    window left out."""
    from checks.data.drafter_families import FAMILIES

    pair = family_pair(next(row for row in FAMILIES if row.name == "Qwen3.6-27B-DFlash"))
    pair.target["text_config"]["eos_token_id"] = 248044
    assert pair.config is not None
    for name in ("rope_theta", "vocab_size", "layer_types", "sliding_window", "use_sliding_window"):
        del pair.config[name]
    pair.config["dflash_config"] = {"mask_token_id": mask, "target_layer_ids": [1, 17, 33, 49, 63]}
    return pair


def judged(
    pair: Pair, engine: str = "vllm==0.33.0", *, runner: str | None = None, **options: Any
) -> dict[str, Finding]:
    """Findings by id, judged in memory."""
    case = case_of(pair, engine, runner=runner, **options)
    return {finding.id: finding for finding in judge(case)[0]}


def case_of(pair: Pair, engine: str = "vllm==0.33.0", *, runner: str | None = None, **options: Any) -> Case:
    tensors = {name: Tensor(pair.types.get(name, "BF16"), shape) for name, shape in pair.shapes.items()}
    drafter = Folder(
        f"/models/{pair.name}@0123456789ab",
        None if pair.config is None else parse(pair.config),
        tensors,
        revisions={"0123456789ab": "the folder's name"},
    )
    target = Folder("/models/target", parse(pair.target), tokens=Tokens(pair.added))
    built = build(drafter, target, Engine.parse(engine, runner), **options)
    mask = built.config.mask if built.config else None
    if mask is None or mask in pair.added:
        return built
    return replace(built, mask_ordinary=mask in pair.vocab.values())
