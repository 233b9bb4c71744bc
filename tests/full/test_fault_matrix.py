"""All cells of the fault matrix, each to its very end, and a way back that is cut at each of its commands.

``scripts/test-full -k test_fault_matrix -n 2``: about eight minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.migrate import model_play
from tests.unit.migrate.model_faults import NAMES, Cell, Way, cells, killed
from tests.unit.migrate.model_play import Stage
from tests.unit.migrate.test_fault_matrix import DIFFERENT, at_home, patched, stops, warm

__all__ = ["patched", "stops", "warm"]


@pytest.mark.parametrize("cell", list(cells()), ids=str)
def test_every_cell_ends_on_one_host_with_nothing_left(
    warm: Stage, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(warm, monkeypatch)
    wrong = model_play.play(warm, cell, whole=True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("cell", [cell for cell in cells() if cell.step in DIFFERENT], ids=str)
def test_every_cell_of_a_source_that_is_stopped_does_so_too(
    stops: Stage, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(stops, monkeypatch)
    wrong = model_play.play(stops, cell, whole=True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("cell", [cell for step in NAMES for cell in killed(step)], ids=str)
@pytest.mark.parametrize("kind", ["warm", "stops"])
@pytest.mark.parametrize("lost", [model_play.bereft, model_play.orphaned])
def test_a_new_process_without_one_of_the_machines_leaves_the_clients_to_one_that_answers(
    lost: Callable[[Stage, Cell], list[str]],
    kind: str,
    cell: Cell,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    stage: Stage = request.getfixturevalue(kind)
    at_home(stage, monkeypatch)
    wrong = lost(stage, cell)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("way", ["rollback", "resume"])
@pytest.mark.parametrize("kind", ["warm", "stops"])
def test_a_way_back_that_is_cut_at_any_command_can_be_gone_to_its_end_or_turned_round(
    kind: str, way: Way, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    stage: Stage = request.getfixturevalue(kind)
    at_home(stage, monkeypatch)
    for number in range(1, stage.commands["back"] + 1):
        wrong = model_play.cut_back(stage, number, way)
        assert not wrong, "\n".join([f"before command {number}:", *wrong])
