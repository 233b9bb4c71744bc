"""Plots: axes with units, the baseline, a text alternative with every value, and nothing that is no number."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.report.plots import plots
from provision.report.svg import Series, bars, from_zero, lines, named, shades, short
from tests.unit.report.journals import KINDS
from tests.unit.report.pages import Page, report

sizes = st.floats(min_value=0, max_value=1e17, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (0.8512, "0.851"),
        (2.61, "2.61"),
        (96.1, "96.1"),
        (1234.5, "1,234"),
        (1e-12, "0"),
        (100, "100"),
    ],
)
def test_a_number_has_three_figures(value: float, said: str) -> None:
    assert short(value) == said


@given(st.lists(sizes, min_size=1, max_size=8))
def test_an_axis_begins_at_zero_and_holds_every_value_with_few_ticks(values: list[float]) -> None:
    axis = from_zero("x", values)
    assert axis.low == 0 == axis.ticks[0][0]
    assert axis.high >= max(values) * 0.999999
    assert 2 <= len(axis.ticks) <= 12


@given(st.lists(st.tuples(st.text(max_size=20), sizes, st.booleans()), min_size=1, max_size=9))
def test_bars_are_whole_markup_for_any_labels_and_values(rows: list[tuple[str, float, bool]]) -> None:
    shown = Page(bars("p0", "t", "d", "tok/s", [(label.replace("\x00", ""), v, b) for label, v, b in rows]))
    assert (shown.strange, shown.misplaced, shown.left_open) == ([], [], [])
    assert shown.elements.count("rect") == len(rows)


@given(st.lists(sizes, min_size=1, max_size=60), sizes)
def test_a_curve_stays_within_its_frame(values: list[float], other: float) -> None:
    points = tuple((float(n), value) for n, value in enumerate(values))
    drawn = lines("p0", "t", "d", named("x", [str(n) for n in range(len(values))]), from_zero("y", [other]),
                  [Series("a", points)])  # fmt: skip
    for found in re.findall(r'points="([^"]*)"', drawn):
        for pair in found.split():
            x, y = map(float, pair.split(","))
            assert 46 <= x <= 328
            assert 10 <= y <= 164
    assert not re.search(r"nan|inf", drawn)


def test_a_baseline_has_its_own_dashed_line_and_no_colour_of_the_others() -> None:
    drawn = bars("p0", "t", "d", "tok/s", [("before", 71.3, True), ("after", 96.1, False)])
    assert drawn.count('class="held"') == 1
    assert 'class="held"' not in bars("p0", "t", "d", "tok/s", [("after", 96.1, False)])
    given_ = [Series("a", (), True), Series("b", ()), Series("c", (), True), Series("d", ())]
    assert shades(given_) == ["base", "s0", "base", "s1"]


def test_every_plot_has_units_a_title_and_its_values_in_words() -> None:
    found = plots(report(KINDS["migrate"]()))
    assert [plot.title for plot in found] == [
        "chat: decode speed of one request",
        "chat: decode speed of each request, by how many there are",
        "chat: drafts accepted, by position",
        "chat: mean acceptance length",
        "copy: copied over time",
        "delta: copied over time",
    ]
    for plot, unit in zip(
        found, ("tok/s", "tok/s each", "share accepted", "tokens a step", "GiB", "GiB"), strict=True
    ):
        shown = Page(plot.svg)
        assert unit in shown.text
        assert plot.title in shown.text
        for value in plot.rows[-1][1:]:
            assert value in shown.text
    assert len({name for plot in found for name in re.findall(r'id="([^"]+)"', plot.svg)}) == 2 * len(found)


def test_without_a_reading_there_is_no_plot() -> None:
    assert plots(report(KINDS["red_gate"]())) == ()
