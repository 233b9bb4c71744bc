"""Real vLLM servers on loopback, what they count themselves, and provcheck as a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
K = 4
START_S, STOP_S, RUN_S = 480.0, 60.0, 300.0
"""Deadlines in seconds, four times the usual on two cores: two starts at once, an end, a measurement."""

SPECULATION: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "ngram": {"method": "ngram", "num_speculative_tokens": K, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
    "good": {"method": "draft_model", "model": "good", "num_speculative_tokens": K},
    "bad": {"method": "draft_model", "model": "bad", "num_speculative_tokens": K},
}
EXTRA = {"plain": ("--dtype", "float32")}
KEY = "kpro-engine-tier-key"
ENVIRON = {"plain": {"VLLM_API_KEY": KEY}, "ngram": {"VLLM_SERVER_DEV_MODE": "1"}}
"""plain asks for a key; ngram tells its configuration under /server_info, which vLLM does only in this mode."""


class Engine:
    """A vLLM process that was started; ``log`` is everything it printed."""

    def __init__(self, name: str, folder: Path, work: Path) -> None:
        """Starts it with the environment and models of ``folder``; its files go below ``work``."""
        self.name, self.log = name, work / "log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        work.mkdir(parents=True)
        environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(work),
            "VLLM_CACHE_ROOT": str(work / "cache"),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_HOST_IP": "127.0.0.1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            **ENVIRON.get(name, {}),
        }
        self.key = work / "key"
        self.key.write_text(KEY + "\n")
        with self.log.open("wb") as log:
            # A session of its own: its children form one group, which ends with it.
            self.process = subprocess.Popen(
                [str(folder / "env/bin/python"), *self._arguments(folder / "models")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                cwd=work,
                start_new_session=True,
            )

    def _arguments(self, models: Path) -> list[str]:
        # The `vllm` command does not find its own package under the name vllm-cpu. Eager: no compiler is needed.
        words = [
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model",
            str(models / "target"),
            "--enforce-eager",
        ]
        words += [
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--max-model-len",
            "1024",
            "--max-num-seqs",
            "4",
        ]
        config = SPECULATION[self.name]
        if config is not None:
            config = {key: str(models / value) if key == "model" else value for key, value in config.items()}
            words += ["--speculative-config", json.dumps(config)]
        return [*words, *EXTRA.get(self.name, ())]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def seen(self) -> tuple[str | Path, ...]:
        """The words that let provcheck see all of it: address, log, and the key where it asks for one."""
        key = ("--api-key-file", self.key) if "VLLM_API_KEY" in ENVIRON.get(self.name, {}) else ()
        return (self.url, "--log", self.log, *key)

    def wait(self, until: float) -> None:
        """Returns once /health is 200. Raises TimeoutError at ``until`` (monotonic), or at once when it ended."""
        while status(self.url, "/health") != 200:
            if self.process.poll() is not None or time.monotonic() > until:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])
                raise TimeoutError(f"the {self.name} engine did not become healthy; its log ends in\n{tail}")
            time.sleep(0.5)

    def stop(self) -> None:
        """Ends it and every process that it started; these get time to remove their shared memory."""
        if self.process.poll() is None:
            self.process.terminate()
        until = time.monotonic() + STOP_S
        # Its group lives on for as long as a child does.
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < until:
                self.process.poll()
                os.killpg(self.process.pid, 0)
                time.sleep(0.1)
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_S)


def fetch(url: str, path: str) -> tuple[int, str]:
    """Status and text of a GET; status 0 when nobody answers."""
    host, port = url.removeprefix("http://").split(":")
    link = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        link.request("GET", path)
        answer = link.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        link.close()


def status(url: str, path: str) -> int:
    return fetch(url, path)[0]


def counted(url: str) -> Counter[str]:
    """The engine's own numbers, read here by other means than the product's: name -> value, positions as ``pos.0``."""
    found: Counter[str] = Counter()
    for line in fetch(url, "/metrics")[1].splitlines():
        if match := re.fullmatch(r"vllm:(\w+)\{([^}]*)\} (\S+)", line):
            name, labels, value = match.groups()
            where = re.search(r'position="(\d+)"', labels)
            key = f"pos.{where[1]}" if where and name.endswith("per_pos_total") else name
            if not name.endswith("_bucket"):
                found[key] += float(value)  # type: ignore[assignment]
    return found


@dataclass(frozen=True)
class Ran:
    """One run of provcheck: exit code, JSON report, and what it said beside it."""

    code: int
    report: dict[str, Any]
    said: str

    @property
    def verdict(self) -> str:
        return str(self.report["verdict"])

    @property
    def facts(self) -> dict[str, Any]:
        facts = self.report["facts"]
        assert isinstance(facts, dict)
        return facts

    def finding(self, ident: str) -> dict[str, Any]:
        """The one finding with this id."""
        (found,) = (item for item in self.report["findings"] if item["id"] == ident)
        assert isinstance(found, dict)
        return found

    def status(self, ident: str) -> str:
        return str(self.finding(ident)["status"])

    def statuses(self) -> dict[str, str]:
        return {item["id"]: item["status"] for item in self.report["findings"]}


@dataclass(frozen=True)
class Measured:
    """One measurement of one server: what it had counted before and after, the run, the record that it left."""

    engine: Engine
    before: Counter[str]
    after: Counter[str]
    ran: Ran
    record: Path

    def gained(self, name: str) -> float:
        """By how much a counter of the engine rose."""
        return self.after[name] - self.before[name]


def provcheck(*words: str | Path) -> Ran:
    """Runs this checkout's ``provcheck WORDS --json``; a run without a JSON report has an empty one."""
    done = subprocess.run(
        [sys.executable, "-m", "checks", *map(str, words), "--json"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    return Ran(done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr)
