"""What every tier shares: where the checkout is, the reference material beside it, and a home of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

# Parallel workers on two cores make a deadline per example a lottery; CI draws the same cases each time.
settings.register_profile("house", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("house")

# What a shell may set, and hides what an operator's shell would show: errors of a stream that is written late.
os.environ.pop("PYTHONUNBUFFERED", None)


def pytest_configure() -> None:
    """A run that is told to end ends as by Ctrl-C: fixtures take their containers and servers with them."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell that starts the tests in the background has them, and all they start, ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Recorded machines have sysfs's loops of links, which pytest would follow for ever. No test lies behind a link."""
    return True if collection_path.is_symlink() else None


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The top of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference fixtures that may lie beside the checkout; a clone elsewhere has none and skips."""
    folder = ROOT.parent / "shared" / "fixtures"
    if not folder.is_dir():
        pytest.skip("no reference fixtures beside this checkout")
    return folder.parent


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the state and caches of whoever runs it, or depends on the terminal it is run from."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def own_process() -> Iterator[None]:
    """No test leaves the process of the tests with another way to take signals or another umask: whatever a later test
    starts inherits an ignored signal, and would go on where it should end."""
    before = taken()
    yield
    after = taken()
    if after != before:
        for number, handler in before[0].items():
            if handler != after[0][number]:
                signal.signal(number, handler)
        os.umask(before[1])
    assert after == before, "this test changed how the whole process takes signals, or its umask"


def taken() -> tuple[dict[signal.Signals, object], int]:
    """What Python knows of each signal's handler, and the umask."""
    umask = os.umask(0o022)
    os.umask(umask)
    return {number: signal.getsignal(number) for number in signal.Signals}, umask
