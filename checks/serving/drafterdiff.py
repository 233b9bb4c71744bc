"""What differs between the configs of two drafters, of the fields that change what is served. Pure.

Which fields those are says :data:`checks.data.drafter_fields.FIELDS`. Values are compared as an engine reads them: an
absent ``rope_theta`` is what it silently becomes, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from checks.data.drafter_fields import FIELDS, NO_EFFECT
from checks.drafter.config import parse
from checks.serving.drafterfile import FAMILY_TYPE

MATTERING = tuple(row.field for row in FIELDS if row.kind != NO_EFFECT)
ROPE = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor")
MASK = ("dflash_config.mask_token_id",)
IDS = ("dflash_config.target_layer_ids", "eagle_aux_hidden_state_layer_ids")
SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "num_target_layers",
)


@dataclass(frozen=True)
class Change:
    """``was`` and ``now`` are values of JSON; None is "absent"."""

    field: str
    was: Any
    now: Any

    @property
    def words(self) -> str:
        return f"{self.field}: {_brief(self.was)} -> {_brief(self.now)}"


def fields_of(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields that matter, by the names of the table; absent ones are left out. Empty without a config."""
    if not config:
        return {}
    read = parse(dict(config))
    if read.model_type is None:
        read = replace(read, model_type=FAMILY_TYPE)
    found = {name: _at(config, name) for name in MATTERING}
    turned = found["rope_parameters"]
    if isinstance(turned, dict):
        rest = {key: value for key, value in turned.items() if key != "rope_theta" and value != "default"}
        found["rope_parameters"] = rest or None
    found["rope_theta"] = read.effective_theta
    found["dflash_config.mask_token_id"] = read.mask
    found["block_size"] = read.block
    found["dtype"] = read.dtype
    return {name: value for name, value in found.items() if value is not None}


def changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Change, ...]:
    """Fields that differ, in the order of the table; empty when either is not known."""
    if not was or not now:
        return ()
    return tuple(
        Change(name, was.get(name), now.get(name)) for name in MATTERING if was.get(name) != now.get(name)
    )


def siblings(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether both are of one make: no size that both name differs. Only then does another mask token or rope mean
    anything, since each make has its own."""
    return not any(name in was and name in now and was[name] != now[name] for name in SIZES)


def _at(config: Mapping[str, Any], name: str) -> Any:
    group, _, inner = name.rpartition(".")
    place = config.get(group) if group else config
    return place.get(inner) if isinstance(place, Mapping) else None


def _brief(value: Any) -> str:
    if value is None:
        return "absent"
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)[:60]
