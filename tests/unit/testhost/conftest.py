"""Running stand-ins and the model that they serve."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from provision.testhost.model import make_model
from provision.testhost.process import Standin, running
from provision.testhost.standin.kpro_standin.model import Model, read_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    make_model(folder)
    return folder


@pytest.fixture(scope="session")
def model(model_folder: Path) -> Model:
    return read_model(model_folder)


@pytest.fixture
def start(model_folder: Path) -> Iterator[Callable[..., Standin]]:
    """Starts a stand-in that ends with the test: ``start("--fault", "slow", KPRO_API_KEY="x")``."""
    with ExitStack() as stack:

        def begin(*args: str, model: Path = model_folder, **options: Any) -> Standin:
            return stack.enter_context(running(model, *args, **options))

        yield begin


@pytest.fixture(scope="module")
def fast(model_folder: Path) -> Iterator[Standin]:
    """A healthy, quick stand-in with speculation, shared by the tests of a module."""
    speculation = json.dumps({"method": "ngram", "num_speculative_tokens": 4})
    args = ("--served-model-name", "tiny", "--tok-s", "20000", "--speculative-config", speculation)
    with running(model_folder, *args) as standin:
        yield standin


@pytest.fixture(scope="session")
def metrics_of() -> Callable[[Standin], dict[str, float]]:
    """Every sample as ``name`` or ``name{value}``, without the labels that all samples share."""

    def read(standin: Standin) -> dict[str, float]:
        found = {}
        for family in text_string_to_metric_families(standin.get("/metrics").body.decode()):
            for sample in family.samples:
                own = [v for k, v in sorted(sample.labels.items()) if k not in ("engine", "model_name")]
                found[sample.name + (f"{{{','.join(own)}}}" if own else "")] = sample.value
        return found

    return read
