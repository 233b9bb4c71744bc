"""Faulty copies of a good DFlash drafter, each with one fault that an engine takes without a word.

usage: drafters.py DRAFTER UNTRAINED FOLDER      FOLDER/<name>/{config.json,model.safetensors}

Only the standard library: it runs wherever the session does. The file of weights is rewritten by its own header."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Config = dict[str, Any]
Tensors = dict[str, tuple[dict[str, Any], bytes]]
TAPS = "eagle_aux_hidden_state_layer_ids"
"""Read first by vLLM 0.20.1, and used as it is; without it dflash_config.target_layer_ids is taken one layer early."""


def read(path: Path) -> Tensors:
    """Every tensor of a safetensors file: its entry of the header and its bytes."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        found[name] = (entry, data[8 + size + start : 8 + size + end])
    return found


def write(path: Path, tensors: Tensors) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (entry, data) in tensors.items():
        header[name] = {**entry, "data_offsets": [at, at + len(data)]}
        at += len(data)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(data for _, data in tensors.values()))


def _same(config: Config) -> Config:
    return config


def _mask(config: Config) -> Config:
    return {**config, "dflash_config": {**config["dflash_config"], "mask_token_id": config["vocab_size"] - 2}}


def _theta(config: Config) -> Config:
    return {key: value for key, value in config.items() if key not in ("rope_theta", "rope_parameters")}


def _early(config: Config) -> Config:
    return {**config, TAPS: [tap - 2 for tap in config[TAPS]]}


def _unshifted(config: Config) -> Config:
    return {key: value for key, value in config.items() if key != TAPS}


def without_fc(tensors: Tensors) -> Tensors:
    return {name: value for name, value in tensors.items() if name != "fc.weight"}


def swapped(tensors: Tensors) -> Tensors:
    """The first layer in the last one's place, and the other way round."""
    last = max(int(name.split(".")[1]) for name in tensors if name.startswith("layers."))
    names = {0: last, last: 0}
    found = {}
    for name, value in tensors.items():
        words = name.split(".")
        if words[0] == "layers":
            words[1] = str(names.get(int(words[1]), int(words[1])))
        found[".".join(words)] = value
    return found


CONFIGS: dict[str, Callable[[Config], Config]] = {
    "good": _same,
    "mask": _mask,
    "theta": _theta,
    "early": _early,
    "unshifted": _unshifted,
}
WEIGHTS: dict[str, Callable[[Tensors], Tensors]] = {"fc": without_fc, "swapped": swapped}


def make(drafter: Path, untrained: Path, folder: Path) -> list[str]:
    """The names of what was made, ``good`` among them."""
    config = json.loads((drafter / "config.json").read_text())
    config.setdefault(TAPS, [tap + 1 for tap in config["dflash_config"]["target_layer_ids"]])
    tensors = read(drafter / "model.safetensors")
    for name, change in CONFIGS.items():
        _put(folder / name, change(config), tensors)
    for name, alter in WEIGHTS.items():
        _put(folder / name, config, alter(tensors))
    _put(folder / "untrained", config, read(untrained / "model.safetensors"))
    return [*CONFIGS, *WEIGHTS, "untrained"]


def _put(folder: Path, config: Config, tensors: Tensors) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write(folder / "model.safetensors", tensors)


if __name__ == "__main__":
    print(*make(*(Path(word) for word in sys.argv[1:4])))  # noqa: T201
