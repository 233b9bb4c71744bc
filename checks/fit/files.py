"""A model folder before its weights are downloaded: config, index, and whatever safetensors are there already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.bounded_json import BadJson, read_object
from checks.errors import BadInput
from checks.safetensors import BadSafetensors, Tensor, read_header

MAX_CONFIG = 4 << 20
MAX_INDEX = 32 << 20
MAX_FILES = 2000
MAX_TENSORS = 400_000
"""Published indexes have about 100 bytes a tensor; the largest mixture-of-experts models some 200,000 tensors."""


@dataclass(frozen=True)
class Folder:
    """``tensors`` is None unless every shard is there; ``total`` is the index's own sum of bytes, if it has one."""

    name: str
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor] | None
    total: int | None
    names: frozenset[str]

    @property
    def known_by(self) -> str:
        """What the sizes rest on, for a report."""
        if self.tensors is not None:
            return f"headers of {self.name}"
        return f"index of {self.name}" if self.total is not None else "nothing"


def read_folder(path: Path) -> Folder:
    """Reads configs and headers, never weights. Raises BadInput for anything that is not what its name says."""
    if not path.is_dir():
        raise BadInput(f"{path} is no folder; give the folder that has the model's config.json")
    config = _object(path / "config.json", MAX_CONFIG)
    if config is None:
        raise BadInput(f"{path} has no config.json; fetch the repository's *.json files, they are small")
    index = _object(path / "model.safetensors.index.json", MAX_INDEX)
    shards = sorted(path.glob("*.safetensors"))[: MAX_FILES + 1]
    if len(shards) > MAX_FILES:
        raise BadInput(f"{path} has more than {MAX_FILES} safetensors files; give the folder of one model")
    weight_map = (index or {}).get("weight_map")
    names = frozenset(map(str, weight_map)) if isinstance(weight_map, dict) else frozenset()
    wanted = {str(name) for name in weight_map.values()} if isinstance(weight_map, dict) else set()
    if wanted:
        shards = [shard for shard in shards if shard.name in wanted]
    complete = bool(shards) and (not wanted or {shard.name for shard in shards} == wanted)
    tensors = _headers(shards) if complete else None
    return Folder(
        path.name or str(path), config, tensors, _total(path, index), names or frozenset(tensors or ())
    )


def _total(path: Path, index: Mapping[str, Any] | None) -> int | None:
    metadata = (index or {}).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if total is None:
        return None
    number = int(total) if isinstance(total, float) and total.is_integer() else total
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 1 << 50:
        raise BadInput(
            f"{path}: the index says total_size {str(total)[:40]!r}, which is no size; download it again"
        )
    return number


def _object(path: Path, limit: int) -> dict[str, Any] | None:
    try:
        return read_object(path, limit) if path.exists() else None
    except BadJson as error:
        raise BadInput(f"{path.parent}: {error}; download it again") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None


def _headers(shards: list[Path]) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}
    for shard in shards:
        try:
            out.update(read_header(shard).tensors)
        except BadSafetensors as error:
            raise BadInput(f"{shard.parent}: {error}") from None
        except OSError as error:
            raise BadInput(f"{shard} cannot be read: {error.strerror}") from None
        if len(out) > MAX_TENSORS:
            raise BadInput(
                f"{shard.parent} names more than {MAX_TENSORS} tensors, beyond any model; check its source"
            )
    return out
