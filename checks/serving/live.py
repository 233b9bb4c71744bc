"""Observes a running service: what it says of itself, then what it does. Sends nothing in passive mode."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checks.errors import BadInput
from checks.model import Finding, Status
from checks.serving import counters as counting
from checks.serving import cpuwait, files, generate, metrics, process, record, unitlog, window
from checks.serving.address import server as address
from checks.serving.client import Client, NoAnswer
from checks.serving.enginelog import parse as parse_log
from checks.serving.limits import Limits
from checks.serving.observation import Observation
from checks.serving.redact import redacted as redacted
from checks.serving.settings import settings_of

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_KEY = "give the key that the server was started with: --api-key-file FILE"
_SECRET = re.compile(r"(api_?key|admin_?key|token|secret|password)s?$", re.I)


@dataclass(frozen=True)
class Plan:
    """What to do: see the options of ``provcheck serve``. ``seconds`` limits the measured window."""

    url: str
    model: str | None = None
    key_file: Path | None = None
    passive: bool = False
    seconds: float = 120.0
    wait: float = 10.0
    thinking: bool = False
    context: int = 0
    levels: tuple[int, ...] = ()
    log: Path | None = None
    unit: str | None = None
    drafter: Path | None = None
    target: Path | None = None
    since: Observation | None = None
    progress: Callable[[str], None] = field(default=lambda line: None)


def observe(plan: Plan) -> Observation:
    """Raises BadInput for an address, key or file that cannot be used; a bad service is a finding."""
    target = address(plan.url, plan.model or "-", plan.key_file)
    client = Client(target)
    log = _log(plan)
    said = _self_description(client, log)
    if not plan.model and said.get("model_id"):
        target = replace(target, model=said["model_id"])
        client = Client(target)
    seen = Observation(
        log=log,
        config=said,
        passive=plan.passive,
        host=platform.node(),
        taken=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        live=True,
    )
    seen = with_files(seen, plan.drafter, plan.target)
    return _passive(client, seen, plan) if plan.passive else _active(client, seen, plan)


def _passive(client: Client, seen: Observation, plan: Plan) -> Observation:
    try:
        page = client.page("/metrics")
    except NoAnswer as error:
        return replace(seen, findings=(_unreachable(str(error)),))
    if page is None:
        return replace(seen, findings=(_no_metrics(),))
    before = window_start(plan.since) if plan.since else None
    return replace(seen, before=_still_counting(before, page), after=page)


def window_start(earlier: Observation) -> str | None:
    """The page from which to count on: the end of the earlier look, or its start when it saw too little to judge.

    So a timer may look as often as it likes: counts of a quiet hour add up until they say something.
    """
    try:
        after = counting.of_page(metrics.parse(earlier.after or ""))
        seen = (
            counting.difference(counting.of_page(metrics.parse(earlier.before)), after)
            if earlier.before
            else after
        )
    except BadInput:
        return earlier.after
    enough = (
        seen.drafts >= Limits().drafts
        if seen.drafts is not None
        else (seen.generation_tokens or 0) >= 10 * Limits().drafts
    )
    return earlier.after if enough else earlier.before


def _still_counting(before: str | None, after: str) -> str | None:
    """The earlier page, or None when the engine was restarted since: then its counts since start are the window."""
    if before is None:
        return None
    try:
        counting.difference(counting.of_page(metrics.parse(before)), counting.of_page(metrics.parse(after)))
    except BadInput:
        return None
    return before


def _active(client: Client, seen: Observation, plan: Plan) -> Observation:
    result, code = generate.wait(client.server, plan.wait, once=plan.wait <= 0, progress=plan.progress)
    if code == 3:
        return replace(seen, findings=(_unreachable(result.why),))
    if code != 0:
        refused = result.why.startswith(("401:", "403:"))
        finding = Finding(
            "serve.ready",
            Status.FAIL,
            "engine",
            f"the server is there and generates nothing: {result.why}",
            fix=_KEY
            if refused
            else "read its log; `provcheck serve --log FILE --diagnose` names what it says",
            owner="user",
        )
        return replace(seen, findings=(finding,))
    ready = Finding(
        "serve.ready", Status.PASS, "engine", f"generated {result.tokens} tokens after {result.seconds:.1f} s"
    )
    sglang = settings_of(seen, parse_log((seen.log or "").splitlines())).engine == "sglang"
    pid = seen.config.get("proc", {}).get("pid")
    waiting = cpuwait.account(pid) if pid else {}
    measured = window.measure(
        client,
        seconds=plan.seconds,
        thinking=plan.thinking,
        context=plan.context,
        levels=plan.levels,
        sglang=sglang,
        progress=plan.progress,
    )
    share = cpuwait.waited(waiting, cpuwait.account(pid)) if pid else None
    told = {**measured.told, "cpu_wait": None if share is None else round(share, 4)}
    seen = replace(seen, before=measured.before, after=measured.after, window=told)
    findings = [ready]
    if measured.failure:
        findings.append(
            Finding(
                "serve.window",
                Status.FAIL,
                "engine",
                f"the measurement broke off: {measured.failure}",
                owner="user",
            )
        )
    if measured.after is None:
        findings.append(_no_metrics())
    return replace(seen, findings=tuple(findings))


def with_files(seen: Observation, drafter: Path | None, target: Path | None) -> Observation:
    """Adds what the drafter's and the target's files say, where they are given, or lie where the engine says."""
    settings = settings_of(seen, parse_log((seen.log or "").splitlines()))
    drafter = drafter or _folder(settings.get("drafter"))
    target = target or _folder(settings.get("model"))
    return files.add(seen, drafter, target)


def _folder(name: Any) -> Path | None:
    """A model folder that the engine names and this user may read; os.path answers where pathlib would raise."""
    if not isinstance(name, str) or not name.startswith("/") or "\0" in name:
        return None
    config = os.path.join(name, "config.json")  # noqa: PTH118
    return Path(name) if os.access(config, os.R_OK) else None


def _log(plan: Plan) -> str | None:
    if plan.log is not None:
        return redacted(record.read_log(plan.log))
    if plan.unit is None:
        return None
    return unitlog.read(plan.unit)


def _self_description(client: Client, log: str | None) -> dict[str, Any]:
    told: dict[str, Any] = {}
    models = client.object("/v1/models").get("data")
    if isinstance(models, list) and models and isinstance(models[0], dict):
        told["model_id"] = str(models[0].get("id"))
    for path in ("/server_info?config_format=json", "/get_server_info"):
        if info := client.object(path):
            told["server_info"] = _scrubbed(info)
            break
    answer = client.object("/version")
    version = answer.get("version")
    if isinstance(version, str) and answer.get("engine", "vllm") == "vllm":
        told["version"] = version
        told["engine"] = "vllm"
    if "tp_size" in told.get("server_info", {}) or "internal_states" in told.get("server_info", {}):
        told["engine"] = "sglang"
    if client.server.host in LOOPBACK and (pid := process.listener(client.server.port)) is not None:
        told["proc"] = process.describe(pid)
    return told


def _scrubbed(data: Any, depth: int = 0) -> Any:
    if isinstance(data, dict):
        return {
            name: (
                "***" if isinstance(value, str) and _SECRET.search(str(name)) else _scrubbed(value, depth + 1)
            )
            for name, value in data.items()
            if depth < 6
        }
    if isinstance(data, list):
        return [_scrubbed(item, depth + 1) for item in data[:200]]
    return redacted(data) if isinstance(data, str) else data


def _unreachable(why: str) -> Finding:
    return Finding(
        "serve.ready",
        Status.UNKNOWN,
        "engine",
        f"nothing to check: {why}",
        fix="start the service, or correct the address",
    )


def _no_metrics() -> Finding:
    return Finding(
        "serve.metrics",
        Status.UNKNOWN,
        "engine",
        "the server has no /metrics page, so acceptance cannot be counted",
        fix="SGLang: --enable-metrics; vLLM: leave --disable-log-stats out",
        owner="user",
    )
