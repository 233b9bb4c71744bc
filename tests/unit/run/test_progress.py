"""One line for each operation that did something, failed, or waits."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from provision.run import present
from provision.run.errors import CandidateRefused, RunError
from provision.run.runner import Outcome, Progress
from provision.run.told import quiet

STATE: Any = SimpleNamespace(get_op_meta=lambda op_hash: SimpleNamespace(names={"4 reboot"}))
HOST: Any = SimpleNamespace(name="m", data=SimpleNamespace(machine=SimpleNamespace(name="m")))


@pytest.mark.parametrize(
    ("pending", "line"),
    [({"m": "why"}, "m: 4 reboot: waits for the reboot"), ({"other": "why"}, "m: 4 reboot: FAILED in 0.0 s")],
    ids=["waits", "failed"],
)
def test_a_machine_that_waits_for_its_reboot_has_not_failed(pending: dict[str, str], line: str) -> None:
    said: list[str] = []
    session: Any = SimpleNamespace(changed=[], pending=pending, failed_by={})
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


REFUSED = CandidateRefused("m", "tiny", "plain", "not better than what serves")


def test_a_host_whose_candidate_was_refused_has_not_failed() -> None:
    for error, line in (
        (REFUSED, "m: 4 reboot: one was refused, and what served before goes on"),
        (RunError("no"), "m: 4 reboot: FAILED in 0.0 s"),
    ):
        said: list[str] = []
        session: Any = SimpleNamespace(changed=[], pending={}, failed_by={"m": error})
        progress = Progress(session, said.append)
        progress.operation_host_start(STATE, HOST, "op")
        progress.operation_host_error(STATE, HOST, "op")
        assert said == [line]


def outcome(failed: tuple[str, ...], *problems: RunError) -> Outcome:
    return Outcome("r1", problems, failed, (), {}, 1 if problems or failed else 0)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            outcome(("m",), REFUSED),
            "1 candidate(s) refused, the reasons are above: what served before goes on",
        ),
        (outcome(("m",), REFUSED, RunError("no")), "FAILED on m"),
        (outcome(("m", "other"), REFUSED), "FAILED on m, other"),
        (outcome(("m",)), "FAILED on m"),
    ],
)
def test_a_run_that_refused_a_candidate_and_did_all_else_is_not_called_failed(
    capsys: Any, one: Outcome, said: str
) -> None:
    present.outcomes([one, outcome(())], proven=True)
    told = capsys.readouterr().err
    assert said in told
    assert ("FAILED" in told) is said.startswith("FAILED")


def test_pyinfra_does_not_count_the_commands_of_what_failed(caplog: Any) -> None:
    quiet()
    quiet()
    logger = logging.getLogger("pyinfra")
    logger.error("[@guest/box/llm] Error: executed 0 commands")
    logger.error("[@guest/box/llm] Error: no route to host")
    assert [record.getMessage() for record in caplog.records] == ["[@guest/box/llm] Error: no route to host"]
