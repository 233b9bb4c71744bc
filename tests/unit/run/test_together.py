"""What is wrong with two arguments of a command is told at once; what is wrong with one keeps its own error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner

from provision.cli import main
from provision.inventory import InventoryRefused
from provision.run.together import together


def wrong(*reasons: str) -> Callable[[], str]:
    def ask() -> str:
        if len(reasons) == 1:
            raise ValueError(reasons[0])
        raise InventoryRefused(reasons)

    return ask


def test_both_mistakes_are_told_each_once() -> None:
    with pytest.raises(InventoryRefused) as refused:
        together(wrong("a"), wrong("b", "a", "c"))
    assert refused.value.reasons == ["a", "b", "c"]


def test_one_mistake_keeps_its_error_and_two_answers_are_given() -> None:
    with pytest.raises(ValueError, match=r"^a$"):
        together(wrong("a"), lambda: 1)
    with pytest.raises(InventoryRefused):
        together(lambda: 1, wrong("a", "b"))
    assert together(lambda: 1, lambda: "b") == (1, "b")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--remove-models", "--source-is-off", "--models-from", "x"), 3),
        (("--resume", "--rollback", "--remove-models"), 2),
        (("--resume", "--rollback"), 1),
    ],
)
def test_contradictions_of_a_migration_are_told_at_once(args: tuple[str, ...], said: int) -> None:
    done = CliRunner().invoke(main, ["migrate", "a", "b", *args])
    assert done.exit_code == 2
    # Beside them that there are no such inventories.
    assert done.output.count("Error: ") == said + 2
