"""Every fault at every step of a migration, and both ways on from it, against two hosts with real files.

A fixed sample of the cells; tests/full plays all of them, each to its very end.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provision.migrate import steps
from tests.unit.migrate import model_doubles, model_laws, model_play
from tests.unit.migrate.model import NoNamespace
from tests.unit.migrate.model_faults import FAULTS, LAST, NAMES, Cell, Way, cells, killed, left_out
from tests.unit.migrate.model_move import Controller, quick
from tests.unit.migrate.model_play import Stage
from tests.unit.migrate.model_specs import ROLES

EVERY = 5
PARTS = 4
DIFFERENT = ("copy", *NAMES[NAMES.index("drain") :])
"""Steps that do something else where the source has files of its own to move, and is stopped for them."""


def played() -> list[Cell]:
    """The sample: every fifth cell, and those of faults that meet few steps."""
    every = list(cells())
    return [cell for at, cell in enumerate(every) if at % EVERY == 0 or len(cell.fault.only) < 3]


@pytest.fixture(scope="module")
def patched() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        yield patch


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, patched: pytest.MonkeyPatch) -> Iterator[Stage]:
    """The source stays warm behind what leads the clients."""
    yield from _stage(tmp_path_factory, patched, extra=False)


@pytest.fixture(scope="module")
def stops(tmp_path_factory: pytest.TempPathFactory, patched: pytest.MonkeyPatch) -> Iterator[Stage]:
    """The source is stopped for the last copy of what it writes."""
    yield from _stage(tmp_path_factory, patched, extra=True)


def _stage(factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch, *, extra: bool) -> Iterator[Stage]:
    try:
        found = model_play.trunk(factory.mktemp("model") / "hosts", patch, extra=extra)
    except NoNamespace as error:
        pytest.skip(str(error))
    yield found
    found.world.close()


def at_home(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("XDG_STATE_HOME", str(stage.world.stage / "state"))


@pytest.mark.parametrize("cell", played(), ids=str)
def test_a_migration_that_is_disturbed_ends_on_one_host_with_nothing_left(
    warm: Stage, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(warm, monkeypatch)
    wrong = model_play.play(warm, cell)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("cell", [cell for cell in cells() if cell.step in DIFFERENT][1::EVERY], ids=str)
def test_so_does_one_that_stops_its_source_for_the_last_copy(
    stops: Stage, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(stops, monkeypatch)
    wrong = model_play.play(stops, cell)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("cell", [killed(step)[at % 3] for at, step in enumerate(NAMES)], ids=str)
def test_a_new_process_brings_the_source_back_while_the_target_is_dead(
    warm: Stage, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(warm, monkeypatch)
    wrong = model_play.bereft(warm, cell)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("step", ["copy", "drain", "switch", LAST])
def test_a_new_process_that_does_not_reach_the_source_takes_nothing_from_clients(
    warm: Stage, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(warm, monkeypatch)
    wrong = model_play.orphaned(warm, killed(step)[-1])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("way", ["rollback", "resume"])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_way_back_that_is_cut_at_any_command_can_be_gone_to_its_end_or_turned_round(
    warm: Stage, part: int, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(warm, monkeypatch)
    for number in range(part + 1, warm.commands["back"] + 1, PARTS * EVERY):
        wrong = model_play.cut_back(warm, number, way)
        assert not wrong, "\n".join([f"before command {number}:", *wrong])


@pytest.mark.parametrize("step", [one.name for one in steps.STEPS if one.window])
def test_whatever_is_pushed_while_the_source_is_brought_back_it_serves_at_the_end(
    warm: Stage, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(warm, monkeypatch)
    wrong = model_play.pushed(warm, step)
    assert not wrong, "\n".join(wrong)


def test_whatever_is_pushed_in_a_rollback_the_source_serves_before_it_ends(
    warm: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(warm, monkeypatch)
    wrong = model_play.pushed_back(warm)
    assert not wrong, "\n".join(wrong)


def test_every_step_meets_every_fault_or_it_is_said_why_not() -> None:
    met = {(cell.step, cell.fault.name) for cell in cells()}
    assert {step for step, _ in met} == set(NAMES) == {*steps.NAMES, LAST}
    assert met | left_out().keys() == {(step, fault.name) for step in NAMES for fault in FAULTS}
    assert not met & left_out().keys()
    assert all(left_out().values())


def test_a_sample_meets_every_step_and_every_fault() -> None:
    sample = played()
    assert {cell.step for cell in sample} == set(NAMES)
    assert {cell.fault.name for cell in sample} == {fault.name for fault in FAULTS}


def test_the_programs_of_the_model_are_asked_all_that_they_answer_and_nothing_else(
    stops: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(stops, monkeypatch)
    world = stops.world
    world.back_to("end")
    controller = Controller(world)
    assert controller.command("finalize") == 0, controller.said
    controller.close()
    assert model_laws.serving(world) == ["target"]
    assert not world.at("source", "guest", f"/etc/systemd/system/{model_doubles.UNIT}").exists()
    asked = set((world.stage / "asked").read_text().split())
    assert model_doubles.ANSWERS - asked == model_doubles.ONLY_IN_TROUBLE
    assert (world.stage / "unasked").read_text() == ""


def test_the_laws_see_what_they_are_for(warm: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home(warm, monkeypatch)
    world = warm.world
    spoiled = {
        "led to source": lambda: (world.stage / "traffic").write_text("source\n"),
        "the unit is up on the source too": lambda: world.at(
            "source", "guest", f"/run/double/{model_doubles.UNIT}.up"
        ).write_text("x\n"),
        "authorized_keys of somebody else": lambda: world.at(
            "target", "host", "/root/.ssh/authorized_keys"
        ).write_text("other\n"),
        "is not the source's": lambda: world.at(
            "target", "host", f"{world.model('target')}/model-1.safetensors"
        ).write_text("other\n"),
        "/run/kpro-migrate is left": lambda: world.at("target", "host", "/run/kpro-migrate").mkdir(),
        "etc/hosts is another": lambda: world.at("source", "host", "/etc/hosts").write_text("other\n"),
        "its state file says none": lambda: world.at(
            "source", "host", "/var/lib/kpro/migrations/chat.json"
        ).unlink(),
    }
    for said, spoil in spoiled.items():
        world.back_to("end")
        assert list(model_laws.breaches(world, warm.before, "moved")) == []
        spoil()
        assert any(said in line for line in model_laws.breaches(world, warm.before, "moved")), said
    assert tuple(world.ends) == ROLES
