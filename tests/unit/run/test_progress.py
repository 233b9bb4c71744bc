"""One line for each operation that did something, failed, or waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from provision.run.runner import Progress

STATE: Any = SimpleNamespace(get_op_meta=lambda op_hash: SimpleNamespace(names={"4 reboot"}))
HOST: Any = SimpleNamespace(name="m", data=SimpleNamespace(machine=SimpleNamespace(name="m")))


@pytest.mark.parametrize(
    ("pending", "line"),
    [({"m": "why"}, "m: 4 reboot: waits for the reboot"), ({"other": "why"}, "m: 4 reboot: FAILED in 0.0 s")],
    ids=["waits", "failed"],
)
def test_a_machine_that_waits_for_its_reboot_has_not_failed(pending: dict[str, str], line: str) -> None:
    said: list[str] = []
    session: Any = SimpleNamespace(changed=[], pending=pending)
    progress = Progress(session, said.append)
    progress.operation_host_start(STATE, HOST, "op")
    progress.operation_host_error(STATE, HOST, "op")
    assert said == [line]


def test_what_did_nothing_is_not_told() -> None:
    said: list[str] = []
    progress = Progress(SimpleNamespace(changed=[], pending={}), said.append)  # type: ignore[arg-type]
    progress.operation_host_start(STATE, HOST, "op")
    progress.operation_host_success(STATE, HOST, "op")
    assert said == []
