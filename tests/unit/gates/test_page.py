"""docs/gates.md names every gate, and the figures that the rows have."""

from __future__ import annotations

from provision.data.room import GIB, MARGINS
from provision.stack.gates import GATES
from provision.stack.measured import FOLDER, KEEPING
from tests.conftest import ROOT

PAGE = (ROOT / "docs/gates.md").read_text()


def test_the_page_has_every_gate_in_the_order_in_which_they_are_asked() -> None:
    rows = [line.split("|")[1].strip(" `") for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == ["gpus", *(gate.id for gate in GATES)]


def test_the_page_has_the_figures_of_the_rows() -> None:
    assert {row.days for row in KEEPING} == {30}
    assert "for 30 days" in PAGE
    assert FOLDER in PAGE
    for row in MARGINS:
        assert f"{row.bytes // GIB} GiB" in PAGE
        assert not row.share or f"{row.share:.0%}".replace("%", " %") in PAGE
