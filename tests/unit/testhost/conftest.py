"""Running stand-ins, the model that they serve, and readers of their metrics."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
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
def parse() -> Callable[[str], dict[str, float]]:
    """Every sample of a scrape as ``name`` or ``name{value}``, without the labels that all samples share."""

    def samples(text: str) -> dict[str, float]:
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                own = [v for k, v in sorted(sample.labels.items()) if k not in ("engine", "model_name")]
                found[sample.name + (f"{{{','.join(own)}}}" if own else "")] = sample.value
        return found

    return samples


@pytest.fixture(scope="session")
def metrics_of(parse: Callable[[str], dict[str, float]]) -> Callable[[Standin], dict[str, float]]:
    return lambda standin: parse(standin.get("/metrics").body.decode())


@pytest.fixture(scope="session")
def until(metrics_of: Callable[[Standin], dict[str, float]]) -> Callable[..., None]:
    """Waits until the series have the given values: ``until(standin, num_requests_running=1)``."""

    def wait(standin: Standin, **values: float) -> None:
        wanted = {f"vllm:{name}": value for name, value in values.items()}
        deadline = time.monotonic() + 10
        while not wanted.items() <= (seen := metrics_of(standin)).items():
            assert time.monotonic() < deadline, {name: seen.get(name) for name in wanted}
            time.sleep(0.01)

    return wait


@pytest.fixture(scope="session")
def endless() -> Callable[..., AbstractContextManager[None]]:
    """An answer in flight that takes far longer than a test, for as long as the block runs."""

    @contextmanager
    def asked(standin: Standin, *, stream: bool = False) -> Iterator[None]:
        body = json.dumps({"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": stream}).encode()
        with socket.create_connection(("127.0.0.1", standin.port)) as raw:
            raw.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            yield

    return asked
