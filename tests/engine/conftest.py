"""Four real vLLM servers on this machine's CPUs, shared by all tests of the tier, each measured once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.rig import ROOT, SPECULATION, START_S, Engine, Measured, counted, provcheck

# Read before any test gets a home of its own: the environment is made once for all sessions.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kpro" / "engine"
INSTALL_S = 600
CANNOT = 3
"""Exit code of scripts/engine-env on a machine that can never run this engine."""


def say(config: pytest.Config, text: str) -> None:
    """A line of progress, past pytest's capture."""
    manager = config.pluginmanager.getplugin("capturemanager")
    with manager.global_and_fixture_disabled():
        print(f"engine tier: {text}", flush=True)  # noqa: T201 - times are printed


@pytest.fixture(scope="session")
def engine_folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The engine's environment and models; nobody rebuilds them while this session runs."""
    start = time.monotonic()
    done = subprocess.run(
        [ROOT / "scripts/engine-env", CACHE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    if done.returncode == CANNOT and os.environ.get("CI") != "true":
        pytest.skip(done.stderr.strip())
    if done.returncode != 0:
        pytest.fail(done.stderr, pytrace=False)
    say(request.config, f"environment and models in {CACHE}: {time.monotonic() - start:.0f} s")
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield CACHE


@pytest.fixture(scope="session")
def engines(
    request: pytest.FixtureRequest, engine_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Engine]]:
    """plain, ngram, good and bad, all running; two start at a time, as this machine may have two cores."""
    started: dict[str, Engine] = {}
    names = list(SPECULATION)
    try:
        for pair in (names[:2], names[2:]):
            begin = time.monotonic()
            for name in pair:
                started[name] = Engine(name, engine_folder, tmp_path_factory.mktemp("engine") / name)
            for name in pair:
                started[name].wait(begin + START_S)
            say(request.config, f"{' and '.join(pair)} answer after {time.monotonic() - begin:.0f} s")
        yield started
    finally:
        for engine in started.values():
            engine.stop()


@pytest.fixture(scope="session")
def measured(
    request: pytest.FixtureRequest, engines: dict[str, Engine], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Measured]:
    """Each server measured once with ``--diagnose``, with its log, into a record."""
    folder = tmp_path_factory.mktemp("records")
    found: dict[str, Measured] = {}
    for name, engine in engines.items():
        begin, before, record = time.monotonic(), counted(engine.url), folder / f"{name}.json"
        ran = provcheck("serve", *engine.seen, "--diagnose", "--record", record)
        found[name] = Measured(engine, before, counted(engine.url), ran, record)
        say(request.config, f"{name} measured in {time.monotonic() - begin:.1f} s, exit {ran.code}")
    return found
