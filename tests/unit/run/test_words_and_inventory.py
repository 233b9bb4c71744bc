"""A mistyped word keeps nobody from what is wrong in the inventory, and the other way round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from provision.inventory import InventoryRefused
from provision.run import commands
from provision.run.assign import Asked, assign
from provision.run.together import together

_WRONG = "from provision.spec import Machine\nmachine = Machine(name='m1', gpus='x')\n"


def plan(path: str, phases: str) -> int:
    return commands.plan(path, (), phases, None, False)


def apply(path: str, phases: str) -> int:
    return commands.apply(path, (), phases, True, False)


def hand_over(path: str, bdf: str) -> int:
    return assign(Asked(path, bdf, "vm", "7", (), True, False, False))


@pytest.mark.parametrize(
    ("run", "word", "said"),
    [
        (plan, "instal", "instal"),
        (apply, "instal", "instal"),
        (hand_over, "42:00.0", "--vmid 7: a Proxmox vmid"),
    ],
)
def test_both_are_told_at_once_and_each_alone(
    run: Callable[[str, str], int], word: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m1.py"
    path.write_text(_WRONG)
    assert run(str(path), word) == 2
    both = capsys.readouterr().err
    assert said in both
    assert "gpus" in both
    assert both.index(said) < both.index("gpus")
    assert run(str(tmp_path / "m2.py"), word) == 2
    assert "m2.py does not exist" in capsys.readouterr().err
    if run is not hand_over:
        assert run(str(path), "install") == 2
        alone = capsys.readouterr().err
        assert "gpus" in alone
        assert said not in alone


def test_a_sound_inventory_leaves_the_word_alone() -> None:
    def wrong() -> str:
        raise ValueError("no such phase")

    with pytest.raises(ValueError, match="no such phase") as error:
        together(wrong, lambda: None)  # type: ignore[arg-type,return-value]
    assert not isinstance(error.value, InventoryRefused)
    assert together(lambda: "install", lambda: None) == ("install", None)  # type: ignore[arg-type,return-value]
