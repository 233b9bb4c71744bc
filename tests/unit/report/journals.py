"""Journals of every kind of run, as their events; written and read by the tests as a run would."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

Facts = Mapping[str, Any]
ZERO = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
METAL, GUEST = "kpro5", "@guest/kpro5/llm"
RUN = "20261130T120000Z-a1b2c3"
EARLIER = "20261129T080000Z-0a0b0c"


def event(at: float, what: str, /, **facts: Any) -> dict[str, Any]:
    when = (ZERO + timedelta(seconds=at)).isoformat(timespec="milliseconds")
    return {"at": when, "run": RUN, "event": what, **facts}


def raw(events: Iterable[Facts]) -> bytes:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in events).encode(
        "utf-8", "backslashreplace"
    )


def item(
    at: float, what: str, step: int, subject: str, text: str, host: str = METAL, **facts: Any
) -> dict[str, Any]:
    phase = "install" if step <= 5 else "configure" if step <= 8 else "activate"
    return event(at, what, step=step, phase=phase, kind="act", host=host, subject=subject, text=text, **facts)


def operations(at: float, *names: str) -> list[dict[str, Any]]:
    return [event(at + n / 100, "operation", host=METAL, name=name) for n, name in enumerate(names)]


def begun(reason: str = "apply kpro5", **facts: Any) -> list[dict[str, Any]]:
    return [
        event(0, "run", reason=reason, phases=["install", "configure", "activate"], by="ops@desk", **facts),
        event(0.2, "locked", machine="kpro5", owner="ops@desk"),
    ]


def finding(status: str, id: str, message: str, **facts: Any) -> dict[str, Any]:
    return {"status": status, "id": id, "subject": "gpu0", "message": message, **facts}


SILENCED = finding(
    "warn", "gpu.power_limit", "its power limit is 250 W, the default is 300 W", value=250, limit=300, unit="W",
    silence={"owner": "ops@example.org", "reason": "rack budget", "until": "2027-01-31"},
)  # fmt: skip
POSITIONS = [0.81, 0.66, 0.52, 0.41, 0.33]
TRIAL = {
    "host": GUEST, "service": "chat", "profile": "vllm 0.20.1 dflash (00a743)", "candidate": True, "mode": "beside",
    "forecast": "chat keeps serving while it is tried, and then is down for about 41 s", "forecast_s": 41.0,
    "verdict": "accepted", "why": "96.1 tok/s decode, the baseline 71.3: 1.35x, 1.05x is asked for",
    "downtime_s": 38.4, "start_s": 36.2, "measured_s": 121.0, "tok_s": 96.1, "acceptance": 3.73,
    "reading": {"by_concurrency": {"4": 81.2, "16": 44.0}, "per_position": POSITIONS, "ttft_ms": 148.0},
    "baseline": {"tok_s": 71.3, "acceptance": 2.61, "per_position": [0.72, 0.44, 0.25, 0.13, 0.07],
                 "by_concurrency": {"4": 66.0, "16": 39.5}},
}  # fmt: skip


def green() -> list[dict[str, Any]]:
    """An apply that changes the machine, and puts a candidate into service."""
    return [
        *begun(version="0.1.0"),
        event(0.5, "plan", machine="kpro5", items=[], refusals=[], notes=["the driver is held by its packages"]),
        *operations(1, "1 inspect", "2 release: clean the boot configuration"),
        item(1.1, "begin", 2, "vfio.conf", "take 0000:41:00.0 out of /etc/modprobe.d/vfio.conf"),
        item(2.3, "done", 2, "vfio.conf", "take 0000:41:00.0 out of /etc/modprobe.d/vfio.conf"),
        *operations(2.4, "3 driver: install"),
        item(2.5, "begin", 3, "driver", "install driver 580.159.04 (open)"),
        item(61.0, "done", 3, "driver", "install driver 580.159.04 (open)"),
        *operations(61.1, "4 reboot", "6 container: create", "8 stack: build the engine environment"),
        item(61.4, "begin", 8, "engine", "build vllm 0.20.1 in llm", GUEST),
        item(190.0, "done", 8, "engine", "build vllm 0.20.1 in llm", GUEST),
        *operations(190.1, "9 gate"),
        event(192, "gate", host=GUEST, service="chat", verdict="warn", evidence="live", seconds=1.4,
              findings=[SILENCED, finding("warn", "gpu.pcie_width", "x8 of x16", cause="a riser", fix="reseat it")]),
        event(194, "checked", host=GUEST, service="chat", gate="flags", verdict="pass", seconds=2.1, evidence="live",
              said="the installed parser takes the command line"),
        event(230, "checked", host=GUEST, service="chat", gate="nccl", verdict="skip", seconds=0.0, said="one GPU"),
        *operations(230.1, "10 service: try the candidate"),
        item(230.2, "begin", 10, "chat", "try vllm 0.20.1 dflash beside chat", GUEST, costs=["chat is down for 41 s"]),
        item(470.0, "done", 10, "chat", "try vllm 0.20.1 dflash beside chat", GUEST),
        event(470.1, "trial", **TRIAL),
        event(470.2, "baseline", host=GUEST, service="chat", path="/var/lib/kpro/baselines/chat/k.json", why="better"),
        event(471.0, "answered", host=GUEST, service="chat", seconds=0.2, text="Hello, world."),
        event(471.5, "end", failed=[], changed=["driver"], exit=0),
    ]  # fmt: skip


def in_sync() -> list[dict[str, Any]]:
    return [*begun(), *operations(1, "1 inspect", "9 gate", "10 service: generates"),
            event(1.4, "end", failed=[], changed=[], exit=0)]  # fmt: skip


def red_gate() -> list[dict[str, Any]]:
    """The gate is red; what runs goes on."""
    why = "the gate of chat is red (fail); what runs is left as it is\n  fail  gpu.ecc gpu0: 3 uncorrectable errors"
    red = finding(
        "fail", "gpu.ecc", "3 uncorrectable errors", value=3, limit=0, cause="a bad cell", fix="reset it"
    )
    return [
        *begun(),
        *operations(1, "1 inspect", "9 gate"),
        event(
            2,
            "gate",
            host=GUEST,
            service="chat",
            verdict="fail",
            evidence="live",
            seconds=0.9,
            findings=[red],
        ),
        event(2.1, "failed", host=GUEST, why=why),
        event(2.2, "end", failed=[GUEST], changed=[], exit=1),
    ]


def refused_candidate() -> list[dict[str, Any]]:
    trial = TRIAL | {"verdict": "refused", "why": "not better than what serves: 0.93x", "downtime_s": None}
    why = "chat: the candidate vllm 0.20.1 dflash was refused, and chat goes on without it"
    return [
        *begun(),
        *operations(1, "10 service: try the candidate"),
        item(1.2, "begin", 10, "chat", "try vllm 0.20.1 dflash beside chat", GUEST),
        event(99, "trial", **trial),
        item(99.1, "failed", 10, "chat", "try vllm 0.20.1 dflash beside chat", GUEST, why=why),
        event(99.3, "end", failed=[], changed=[], exit=1),
    ]


def refused() -> list[dict[str, Any]]:
    """Nothing was touched; two reasons."""
    reasons = [
        {"where": f"machines.kpro5.gpus[{n}]", "seen": "held by virtual machine 101", "why": "it would lose its GPU",
         "next": "stop the machine: qm stop 101"} for n in (0, 1)
    ]  # fmt: skip
    return [
        event(0, "run", reason="apply kpro5", by="ops@desk", phases=["install"]),
        event(0.4, "plan", machine="kpro5", items=[], refusals=reasons, notes=[]),
        event(0.5, "end", failed=[], changed=[], exit=3),
    ]


def interrupted() -> list[dict[str, Any]]:
    return [*green()[:9], event(30, "end", failed=[], changed=[], exit=130)]


def replayed() -> list[dict[str, Any]]:
    return [one | {"evidence": "replayed"} if one["event"] == "gate" else one for one in green()]


STEPS = ("lock", "preflight", "install", "copy", "configure", "warm", "answers", "speed", "drain", "delta", "verify",
         "activate", "gate", "switch", "watch", "stop")  # fmt: skip
GIB = 1 << 30


def migrate(last: str = "stop", *, fails: bool = False) -> list[dict[str, Any]]:
    """Up to ``last``; ``fails``: that step fails, and all is taken back to the source."""
    events = [
        event(0, "run", reason="migrate kpro6 kpro5", by="ops@desk", source="kpro6", target="kpro5", service="chat"),
        event(0.4, "plan", machine="kpro5", items=[], refusals=[], notes=["clocks differ by 12 ms"],
              moves=[{"what": "model acme/large@1111", "how": "copied, 41.2 GiB"}],
              stays=[{"what": "compile caches", "why": "they are made anew for the target's GPUs"}]),
    ]  # fmt: skip
    at = 1.0
    for number, name in enumerate(STEPS):
        begin, took = at, 4.0 + 7 * number
        events.append(event(begin, "step", step=name, state="begin"))
        if name in ("copy", "delta"):
            events += _copied(name, begin, took)
        if name in ("preflight", "gate"):
            side, host = ("source", "kpro6") if name == "preflight" else ("target", "kpro5")
            facts = {"side": side, "host": f"@guest/{host}/llm", "service": "chat", "evidence": "live"}
            events.append(event(begin + 1, "gate", verdict="pass", seconds=1.1, **facts))
            events.append(
                event(
                    begin + 2,
                    "checked",
                    gate="nccl",
                    verdict="pass",
                    seconds=6.0,
                    said="0.93 of the limit",
                    **facts,
                )
            )
        if name == "answers":
            events.append(event(begin + 1, "answers", **ANSWERS))
        if name == "speed":
            facts = {"service": "chat", "per_position": POSITIONS, "by_concurrency": {"4": 81.0, "16": 44.0}}
            events.append(
                event(begin, "reading", side="source", what="baseline", tok_s=95.0, acceptance=3.71, **facts)
            )
            events.append(event(begin, "reading", side="target", what="measured", tok_s=112.0, acceptance=3.74,
                                **facts | {"by_concurrency": {"4": 99.0, "16": 61.0}}))  # fmt: skip
        at = begin + took
        if name == last and fails:
            events.append(
                event(at, "step", step=name, state="failed", seconds=took, why="the switch hook ended with 7")
            )
            for back in reversed(STEPS[: number + 1]):
                at += 0.5
                events.append(event(at, "step", step=back, state="undone", seconds=0.4))
            return [*events, event(at + 1, "end", failed=["kpro5"], changed=[], exit=1)]
        events.append(event(at, "step", step=name, state="done", seconds=took, text=f"{name} is proven"))
        if name == last:
            break
    events.append(event(at, "downtime", service="chat", seconds=2.9, forecast_s=4.0))
    return [*events, event(at + 1, "end", failed=[], changed=[], exit=0)]


def _copied(step: str, begin: float, took: float) -> list[dict[str, Any]]:
    whole = 41 * GIB
    samples: Sequence[float] = (0.1, 0.3, 0.45, 0.7, 0.9)
    return [
        *(event(begin + took * part, "progress", step=step, bytes_done=int(whole * part), bytes_total=whole,
                rate=940e6, eta_s=3, state="active") for part in samples),
        event(begin + took - 0.1, "copied", step=step, bytes=whole, seconds=took, rate=whole / took, files=23,
              differences=[], route="direct"),
    ]  # fmt: skip


ANSWERS = {
    "verdict": "pass", "compared": 64, "first_token_share": 0.985, "least_share": 0.95, "logprob_diff": 0.012,
    "tolerance": 0.05, "exact": False, "said": "64 prompts",
}  # fmt: skip
KINDS = {
    "green": green, "in_sync": in_sync, "red_gate": red_gate, "refused_candidate": refused_candidate,
    "refused": refused, "interrupted": interrupted, "replayed": replayed, "migrate": migrate,
    "taken_back": lambda: migrate("switch", fails=True),
}  # fmt: skip
