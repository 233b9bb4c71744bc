"""Numbers on the command line: click's range of floats, without NaN, which is in no range and passes all of them."""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """As ``click.FloatRange``; a deadline of NaN seconds would be none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number.", param, ctx)
        return number
