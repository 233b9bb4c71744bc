"""Where the files come from: format, types of fields, silent defaults, revision, family, engine support."""

from __future__ import annotations

from checks.data.drafter_defaults import SOURCE
from checks.drafter.case import Case
from checks.drafter.rule import Check, Facts, Rule
from checks.model import Status

DERIVED = {
    "hidden_size": "hidden",
    "intermediate_size": "intermediate",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
}


def silent_defaults(case: Case) -> list[dict[str, object]]:
    """Every absent field with the value that it silently takes and, where known, the value that it should
    have."""
    config = case.config
    if config is None or config.defaults is None:
        return []
    rows: list[dict[str, object]] = []
    for name, default in config.defaults.items():
        if name not in config.present:
            rows.append({"field": name, "becomes": default, "right": _right(case, name)})
    return rows


def _right(case: Case, name: str) -> object:
    if name in DERIVED:
        return getattr(case.shape, DERIVED[name]) if case.shape else None
    known = {
        "rope_theta": case.expected.theta,
        "rms_norm_eps": case.expected.eps,
        "sliding_window": case.expected.window,
    }
    if name in known:
        row = known[name]
        return row.value if row else None
    if name == "use_sliding_window":
        types = case.expected.layer_types or None
        return None if types is None else any(kind == "sliding_attention" for kind in types.value)
    goal = {
        "vocab_size": case.goal.vocab,
        "max_position_embeddings": case.goal.max_positions,
        "hidden_act": case.goal.act,
    }
    return goal.get(name)


def harmful_defaults(case: Case) -> Facts | None:
    rows = [
        row
        for row in silent_defaults(case)
        if row["right"] is not None and not _same(row["becomes"], row["right"])
    ]
    if not rows:
        return None
    return {
        "list": ", ".join(f"{row['field']} becomes {row['becomes']} (right: {row['right']})" for row in rows),
        "source": SOURCE,
    }


def rope_unwritten(case: Case) -> Facts | None:
    """A draft model of its own keeps its own base; absent, nobody can say what it was."""
    if case.kind != "draft_model" or case.config is None or case.config.theta is not None:
        return None
    becomes = case.config.effective_theta
    return None if becomes is None else {"becomes": f"{becomes:g}"}


def _same(a: object, b: object) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(float(a) - float(b)) <= 1e-6 * max(abs(float(a)), abs(float(b)))
    return a == b


def no_config(case: Case) -> Facts | None:
    return {} if case.config is None else None


def wrong_types(case: Case) -> Facts | None:
    return {"wrong": "; ".join(case.config.wrong)} if case.config and case.config.wrong else None


def gguf_elsewhere(case: Case) -> Facts | None:
    if case.config is None or case.config.fmt != "gguf" or case.engine.name == "llama.cpp":
        return None
    return {"engine": case.engine}


def no_revision(case: Case) -> Facts | None:
    return {} if not case.drafter.revisions else None


def mixed_revisions(case: Case) -> Facts | None:
    names = sorted(case.drafter.revisions)
    full = [a for a in names if not any(b != a and b.startswith(a) for b in names)]
    if len(full) < 2:
        return None
    return {"list": "; ".join(f"{commit[:12]} by {case.drafter.revisions[commit]}" for commit in full[:6])}


def unsupported(case: Case) -> Facts | None:
    if not case.is_block or not case.engine.does("dflash", "no"):
        return None
    return {"engine": case.engine, "source": case.engine.ability("dflash").source}  # type: ignore[union-attr]


def second_generation(case: Case) -> Facts | None:
    if case.kind != "dflash2" or case.engine.name != "vllm" or case.engine.runner != "v1":
        return None
    return {"engine": case.engine}


def speculators_on_v2(case: Case) -> Facts | None:
    if case.config is None or case.config.fmt != "speculators" or case.engine.runner != "v2":
        return None
    return {"engine": case.engine}


def unknown_kind(case: Case) -> Facts | None:
    return {} if case.kind == "unknown" else None


CHECKS = (
    Check(
        "drafter.config",
        "Without config.json every value is a guess of the engine.",
        lambda case: f"config.json of format {case.config.fmt if case.config else '?'}",
    ),
    Check(
        "drafter.fields",
        "A field of the wrong type is refused, or read as something else.",
        lambda case: "every field that is judged has the right type",
        skips=lambda case: "no config.json" if case.config is None else None,
    ),
    Check(
        "drafter.engine",
        "Not every engine version can run every drafter.",
        lambda case: f"{case.engine} can run {case.kind_name}",
        blind=lambda case: (
            f"whether {case.engine} can run {case.kind_name} is not known"
            if case.is_block
            and (case.engine.ability("dflash") is None or case.engine.does("dflash", "unknown"))
            else None
        ),
    ),
    Check(
        "drafter.defaults",
        "What is left out is filled in silently by transformers.",
        lambda case: (
            "nothing is left out that would become something wrong"
            + (
                f" (left out: {', '.join(str(row['field']) for row in silent_defaults(case))})"
                if silent_defaults(case)
                else ""
            )
        ),
        skips=lambda case: "no config.json" if case.config is None else None,
        blind=lambda case: (
            None
            if case.config is None or case.config.defaults is not None or case.config.fmt != "hf"
            else f"the silent defaults of model_type {case.config.model_type!r} are not known"
        ),
        value=lambda case: [row["field"] for row in silent_defaults(case)],
    ),
    Check(
        "drafter.revision",
        "The same name is not always the same drafter: revisions differ in layers, ids and windows.",
        lambda case: "pinned to " + ", ".join(commit[:12] for commit in case.drafter.revisions),
        value=lambda case: sorted(case.drafter.revisions),
    ),
)

RULES = (
    Rule(
        "config_absent",
        "drafter.config",
        Status.FAIL,
        no_config,
        "there is no config.json beside the weights",
        "weights carry sizes, but not the layer ids, the mask token, the RoPE base or the window",
        "get it from the publisher, or let --write make it from the weights, the target and "
        "published relatives",
        "the incident: one bare file, config guessed, acceptance length 1.12",
        "guess",
    ),
    Rule(
        "fields_wrong",
        "drafter.fields",
        Status.FAIL,
        wrong_types,
        "{wrong}",
        "the file was edited by hand or by a faulty tool",
        "give the fields their proper type",
        "transformers 5.6.0 strict configs",
    ),
    Rule(
        "gguf",
        "drafter.engine",
        Status.FAIL,
        gguf_elsewhere,
        "this is a GGUF drafter, which {engine} does not load; its layer ids are counted from 1",
        "the format belongs to llama.cpp",
        "use the safetensors checkpoint; when converting, subtract 1 from every id",
        "ggml-org/llama.cpp#25792",
    ),
    Rule(
        "engine_unsupported",
        "drafter.engine",
        Status.FAIL,
        unsupported,
        "{engine} cannot run DFlash drafters",
        "{source}",
        "use SGLang >= 0.5.11 or vLLM >= 0.20.1",
        "checks/data/id_conventions.py",
    ),
    Rule(
        "dflash2_on_v1",
        "drafter.engine",
        Status.FAIL,
        second_generation,
        "this is a second-generation drafter (candidate selector, convolutions), and {engine} "
        "does not run those",
        "the V1 runner degrades silently or ends with 'no module named candidate_selector'",
        "use vLLM 0.33 with the V2 runner",
        "noonghunna/club-3090#1064; vLLM 0.33.0 tests",
    ),
    Rule(
        "speculators_v2",
        "drafter.engine",
        Status.WARN,
        speculators_on_v2,
        "speculators drafters had an acceptance of about 0 % on the V2 runner ({engine})",
        "the thread is open, the cause not known; the V1 runner was normal",
        "compare both runners with one prompt set before you rely on it (VLLM_USE_V2_MODEL_RUNNER=0)",
        "vllm#49559",
    ),
    Rule(
        "kind_unknown",
        "drafter.engine",
        Status.UNKNOWN,
        unknown_kind,
        "neither the tensors nor the config tell what kind of drafter this is",
        "no known tensor name and no known architecture",
        "give the folder of a DFlash, EAGLE-3, MTP or ordinary draft model",
        "tensor names: checks/drafter/weights.py",
    ),
    Rule(
        "defaults_harmful",
        "drafter.defaults",
        Status.WARN,
        harmful_defaults,
        "fields that are left out become something else: {list}",
        "transformers fills them in silently ({source})",
        "write every one of them (--write does it)",
        "transformers 5.6.0 configuration_qwen3.py",
    ),
    Rule(
        "rope_unwritten",
        "drafter.defaults",
        Status.WARN,
        rope_unwritten,
        "rope_theta is left out and becomes {becomes}",
        "an ordinary draft model keeps its own base; measured with a wrong one: 1.65 instead of 2.44",
        "write the base that this model was trained with",
        "measured on vLLM 0.20.1",
    ),
    Rule(
        "revision_unknown",
        "drafter.revision",
        Status.WARN,
        no_revision,
        "nothing says which revision this is",
        "the same repository held different drafters at different commits",
        "download with a pinned commit and name the folder <name>@<commit>",
        "z-lab/dflash#152",
    ),
    Rule(
        "revision_mixed",
        "drafter.revision",
        Status.FAIL,
        mixed_revisions,
        "files of several revisions lie together: {list}",
        "weights of one commit and config of another need not belong together",
        "download all files of one commit into an empty folder",
        "z-lab/dflash#152",
    ),
)
