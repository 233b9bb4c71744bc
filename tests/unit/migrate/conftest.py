"""Two ends of a migration with stand-ins for the tests of the steps that look at both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from provision.testhost.model import make_model
from provision.testhost.process import Standin, running
from tests.unit.migrate.answering import End

MakeEnd = Callable[..., End]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    make_model(folder)
    return folder


@pytest.fixture
def end(tiny_model: Path, tmp_path: Path) -> Iterator[MakeEnd]:
    """An end by its name; ``fault`` of its stand-in, ``key`` that it asks for, ``alone`` without any."""
    with ExitStack() as stack:

        def make(
            name: str,
            *,
            fault: str = "",
            key: str = "",
            alone: bool = False,
            pace: str = "20000",
            **more: Any,
        ) -> End:
            engine: Standin | None = None
            if not alone:
                words = [
                    "--served-model-name",
                    "tiny",
                    "--tok-s",
                    pace,
                    *(["--fault", fault] if fault else []),
                ]
                environ = {"VLLM_API_KEY": key} if key else {}
                engine = stack.enter_context(running(tiny_model, *words, **environ))
            return End(name, tmp_path / name, engine, **more)

        yield make
