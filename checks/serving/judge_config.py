"""Findings about settings: what the engine really runs with, against what the drafter and the operator want."""

from __future__ import annotations

from checks.model import Finding, Status
from checks.serving.evidence import Evidence
from checks.serving.rules_machine import on_cpu


def findings(e: Evidence) -> list[Finding | None]:
    return [
        graphs(e),
        all_reduce(e),
        wanted(e),
        kernel(e),
    ]


def graphs(e: Evidence) -> Finding | None:
    state = e.settings.get("cuda_graphs")
    if on_cpu(e):
        return make("serve.graphs", Status.SKIP, "an engine on CPUs has no CUDA graphs", None, None)
    if state is None:
        return make(
            "serve.graphs",
            Status.SKIP,
            "whether CUDA graphs are on is not in this record",
            None,
            "give the log of the start",
        )
    if state is False:
        return make(
            "serve.graphs",
            Status.WARN,
            "CUDA graphs are off",
            "graphs_off",
            "drop --enforce-eager / --disable-cuda-graph",
        )
    return make("serve.graphs", Status.PASS, "CUDA graphs are on", None, None)


def all_reduce(e: Evidence) -> Finding | None:
    """Custom all-reduce and NCCL's peer access over several GPUs: told when asked off, a warning when lost."""
    tp = e.settings.get("tp")
    if not isinstance(tp, int) or tp < 2:
        return None
    peer = e.settings.get("env.NCCL_P2P_DISABLE")
    told = f"over {tp} GPUs" + (f", NCCL_P2P_DISABLE={peer}" if peer else "")
    if e.settings.get("custom_all_reduce") is not False:
        return make(
            "serve.all_reduce", Status.PASS, f"custom all-reduce is not disabled {told}", None, None, "host"
        )
    if e.log.custom_allreduce_off:
        why = (
            f"custom all-reduce is off {told}, and the engine took it off itself:"
            f" {e.log.custom_allreduce_off}"
        )
        return make("serve.all_reduce", Status.WARN, why, "transport", "provcheck nccl", "host")
    return make(
        "serve.all_reduce", Status.PASS, f"custom all-reduce is off {told}, as asked", None, None, "host"
    )


_ASKED = (
    "method",
    "k",
    "tp",
    "cuda_graphs",
    "custom_all_reduce",
    "attention_backend",
    "kv_cache_dtype",
    "quantization",
)


def wanted(e: Evidence) -> Finding | None:
    """What the operator wants and what the command line asked for, setting by setting, against what runs."""
    asked = {
        key: value for key, value in e.settings.asked.items() if key in _ASKED and value not in (None, "auto")
    }
    wrong = [
        f"{key} is {e.settings.get(key)}, {verb} {value}"
        for verb, wishes in (("wanted", e.wanted), ("asked for", asked))
        for key, value in wishes.items()
        if key in e.settings.values and str(e.settings.get(key)).lower() != str(value).lower()
    ]
    if wrong:
        status = Status.FAIL if any(", wanted " in told for told in wrong) else Status.WARN
        fix = "start the service with the wanted settings, or see its log for why it took another"
        return make("serve.settings", status, "; ".join(dict.fromkeys(wrong)), "settings", fix)
    unseen = [key for key in e.wanted if key not in e.settings.values]
    if unseen:
        told = f"not knowable from this record: {', '.join(unseen)}"
        return make("serve.settings", Status.UNKNOWN, told, None, "give the log of the start")
    if not e.wanted and not asked:
        return None
    told = f"{len(e.wanted) + len(asked)} wanted or asked settings are in effect"
    return make("serve.settings", Status.PASS, told, None, None)


def kernel(e: Evidence) -> Finding | None:
    named = [xid for xid in e.log.xids if xid.startswith("43 ")]
    if not named:
        return None
    return Finding(
        "node.xid",
        Status.PASS,
        "host",
        f"Xid 43 names {named[0].split(' ', 1)[1]}: an application error of the engine, not hardware",
    )


def make(
    ident: str,
    status: Status,
    message: str,
    cause: str | None,
    fix: str | None,
    subject: str = "engine",
    value: object = None,
    limit: object = None,
) -> Finding:
    owner = "node" if subject == "host" else "user"
    return Finding(
        ident, status, subject, message, value=value, limit=limit, cause=cause, fix=fix, owner=owner
    )
