"""Stand-in engines on loopback, and a way to call the command as a user does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from provision.testhost.model import make_model
from provision.testhost.process import Standin, running

DEAD = [0.09, 0.005, 0.001, 0.0, 0.0, 0.0, 0.0]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    make_model(folder)
    return folder


@pytest.fixture
def start(model_folder: Path) -> Iterator[Callable[..., Standin]]:
    """Starts a stand-in that ends with the test; ``acceptance`` makes it speculate with these rates."""
    with ExitStack() as stack:

        def begin(*args: str, acceptance: list[float] | None = None, **environ: str) -> Standin:
            options = list(args)
            if acceptance is not None:
                spec = {
                    "method": "ngram",
                    "num_speculative_tokens": len(acceptance),
                    "standin": {"acceptance": acceptance},
                }
                options += ["--speculative-config", json.dumps(spec | {"method": "mtp"})]
            return stack.enter_context(
                running(model_folder, "--served-model-name", "tiny", *options, **environ)
            )

        yield begin


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """``provcheck serve`` with these arguments: exit code and report."""

    def call(*args: str) -> tuple[int, dict[str, Any]]:
        target = tmp_path / "report.json"
        code = main(["serve", *args, "--json", "--output", str(target)])
        return code, json.loads(target.read_text()) if target.is_file() else {}

    return call
