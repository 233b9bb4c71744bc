"""A machine or guest that cannot be looked at fails the run in words, whatever the connection raised."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from provision.host import observe, transport
from provision.run.errors import RunError


@pytest.mark.parametrize(
    "error", [transport.TransportError("guest llm is stopped"), OSError("no route to host")]
)
def test_a_guest_that_stopped_meanwhile_is_said_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def gone(*words: object, **more: Any) -> None:
        raise error

    monkeypatch.setattr(transport, "run", gone)
    with pytest.raises(RunError, match=f"box could not be looked at: {error}"):
        observe.observe(SimpleNamespace(name="box"), ["pci:"])  # type: ignore[arg-type]
