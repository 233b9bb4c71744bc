"""The settings a service really runs with, from everything it says of itself, in one vocabulary for both engines.

Sources, weaker first: the process's command line and environment, the arguments it logged, the configuration it
logged, ``/server_info``, and the log lines that state what was finally used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.data.settings_map import BACKENDS, SETTINGS, SGLANG_METHODS, SettingRow
from checks.serving.enginelog import LogFacts, pairs
from checks.serving.observation import Observation

_OURS = frozenset({"server_info", "proc", "version", "models", "engine", "unit", "model_id"})
_OFF = frozenset({"none", "null", "", "false"})
_ALIASES = {"tp": "tp_size", "tp_size": "tp", "model_tag": "model"}


@dataclass(frozen=True)
class Settings:
    """``values`` holds canonical keys (:data:`checks.data.settings_map.SETTINGS`) that are known; a key that is
    missing is not known, a value of None means "off" or "not set". ``asked`` holds what the command line asked for.
    """

    engine: str | None = None
    version: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)

    def get(self, key: str) -> Any:
        return self.values.get(key)

    @property
    def speculation(self) -> bool | None:
        """Whether speculation is configured; None when nothing says so."""
        return None if "method" not in self.values else self.values["method"] is not None


def settings_of(seen: Observation, log: LogFacts) -> Settings:
    """The effective settings of one observation."""
    config = seen.config if _OURS & seen.config.keys() else {"server_info": seen.config}
    info = config.get("server_info")
    info = info if isinstance(info, dict) else {}
    raw: dict[str, Any] = {}
    proc = config.get("proc")
    if isinstance(proc, dict):
        raw.update(_of_process(proc))
    raw.update(_flat(log.args))
    asked = dict(raw)
    raw.update(log.config)
    raw.update(_of_server_info(info))
    engine = _engine(config, info, log, seen)
    version = config.get("version") or info.get("version") or log.version
    if log.attention_backend:
        raw["attention_backend"] = log.attention_backend
    for key, value in (("nccl", log.nccl), ("runner", log.runner)):
        if value:
            raw[key] = value
    values = _canonical(raw, engine)
    _finish(values, raw, engine, log)
    return Settings(engine, str(version)[:60] if version else None, values, _canonical(asked, engine))


def _canonical(raw: Mapping[str, Any], engine: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for row in SETTINGS:
        known, value = _read(row, engine, raw)
        if known:
            values[row.key] = value
    return values


def _finish(values: dict[str, Any], raw: dict[str, Any], engine: str | None, log: LogFacts) -> None:
    """What a name alone cannot say: the log's last word on graphs and all-reduce, and SGLang's two EAGLEs."""
    if log.graphs is not None:
        values["cuda_graphs"] = log.graphs
    if log.custom_allreduce_off:
        values["custom_all_reduce"] = False
    if engine == "sglang" and values.get("method") == "eagle" and not values.get("drafter"):
        values["method"] = "mtp"
    if (
        engine == "vllm"
        and str(raw.get("speculative_config")).lower() in _OFF
        and "speculative_config.method" not in raw
    ):
        values["method"] = None
        values.pop("k", None)
    if values.get("method") == "mtp" and values.get("drafter") in (None, values.get("model")):
        # The head is part of the target: vLLM names the target again, SGLang names nothing.
        values["drafter"] = None
    if values.get("method", "") is None:
        values.pop("k", None)


def _engine(
    config: Mapping[str, Any], info: Mapping[str, Any], log: LogFacts, seen: Observation
) -> str | None:
    named = config.get("engine")
    if named in ("vllm", "sglang"):
        return str(named)
    if "vllm_config" in info:
        return "vllm"
    if "tp_size" in info or "internal_states" in info:
        return "sglang"
    if log.engine:
        return log.engine
    page = seen.after or seen.before or ""
    return next((name for name in ("vllm", "sglang") if f"\n{name}:" in "\n" + page), None)


def _of_server_info(info: Mapping[str, Any]) -> dict[str, Any]:
    config = info.get("vllm_config")
    if isinstance(config, str):
        return dict(pairs(config))
    flat = _flat(config if isinstance(config, dict) else info)
    env = info.get("vllm_env")
    if isinstance(env, dict):
        flat.update({f"env.{name}": value for name, value in list(env.items())[:2000]})
    return flat


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves by their own name, those of a speculative config also as ``speculative_config.<name>``."""
    flat: dict[str, Any] = {}
    for name, value in list(data.items())[:5000]:
        if isinstance(value, dict):
            for inner, leaf in list(value.items())[:2000]:
                if name == "speculative_config":
                    flat[f"speculative_config.{inner}"] = leaf
                elif not isinstance(leaf, dict):
                    flat.setdefault(str(inner), leaf)
        else:
            flat[str(name)] = value
    return flat


def _of_process(proc: Mapping[str, Any]) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    cmdline = proc.get("cmdline")
    words = [str(word) for word in cmdline[:2000]] if isinstance(cmdline, list) else []
    for index, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, _, value = word.lstrip("-").partition("=")
        following = words[index + 1] if index + 1 < len(words) else "-"
        key = name.replace("-", "_")
        if not value:
            value = "True" if following.startswith("-") and not following[1:2].isdecimal() else following
        if key.startswith("no_"):
            key, value = key[3:], "False"
        raw[_ALIASES.get(key, key)] = value
    if isinstance(text := raw.get("speculative_config") or raw.pop("sc", None), str):
        try:
            spec = json.loads(text)
        except ValueError:
            spec = {}
        raw.update(_flat({"speculative_config": spec if isinstance(spec, dict) else {}}))
    environ = proc.get("environ")
    if isinstance(environ, dict):
        raw.update({f"env.{name}": value for name, value in list(environ.items())[:500]})
    if proc.get("cpus") is not None:
        raw["cpus"] = proc["cpus"]
    return raw


def _read(row: SettingRow, engine: str | None, raw: Mapping[str, Any]) -> tuple[bool, Any]:
    names = row.sglang if engine == "sglang" else row.vllm
    for name in names:
        if name in raw:
            return True, _READERS[row.read](raw[name], engine)
    return False, None


def _text(value: Any, _engine: str | None) -> Any:
    if value is None or str(value).strip().lower() in ("none", "null", ""):
        return None
    return str(value)[:300]


def _integer(value: Any, _engine: str | None) -> Any:
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return None


def _number(value: Any, _engine: str | None) -> Any:
    try:
        return float(str(value))
    except ValueError:
        return None


def _true(value: Any) -> bool:
    return str(value).strip().lower() in ("true", "1", "yes")


def _negated(value: Any, _engine: str | None) -> Any:
    return not _true(value)


def _same_on_vllm_negated_on_sglang(value: Any, engine: str | None) -> Any:
    return not _true(value) if engine == "sglang" else _true(value)


def _drafts(value: Any, engine: str | None) -> Any:
    count = _integer(value, engine)
    return count - 1 if engine == "sglang" and count is not None else count


def _method(value: Any, engine: str | None) -> Any:
    name = _text(value, engine)
    if name is None:
        return None
    if engine == "sglang":
        return SGLANG_METHODS.get(name.upper(), name.lower())
    return "mtp" if name.lower().endswith("_mtp") else name.lower()


def _dtype(value: Any, engine: str | None) -> Any:
    name = _text(value, engine)
    return name.removeprefix("torch.") if name else None


def _backend(value: Any, engine: str | None) -> Any:
    name = _text(value, engine)
    return BACKENDS.get(name.upper().removeprefix("ATTENTIONBACKENDENUM."), name.lower()) if name else None


_READERS: dict[str, Callable[[Any, str | None], Any]] = {
    "text": _text,
    "integer": _integer,
    "number": _number,
    "negated": _negated,
    "overlap": _same_on_vllm_negated_on_sglang,
    "prefix": _same_on_vllm_negated_on_sglang,
    "k": _drafts,
    "method": _method,
    "dtype": _dtype,
    "backend": _backend,
}
