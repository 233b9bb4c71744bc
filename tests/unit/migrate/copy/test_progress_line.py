"""How far a copy is, in a unit that says something also of a small one."""

from __future__ import annotations

import pytest

from provision.migrate.copy.model import Progress


@pytest.mark.parametrize(
    ("done", "total", "said"),
    [
        (2**30, 3 * 2**30, "1.00 of 3.00 GiB (33 %)"),
        (2**20, 4 * 2**20, "1.00 of 4.00 MiB (25 %)"),
        (512, 2048, "0.50 of 2.00 KiB (25 %)"),
        (7, 14, "7 of 14 bytes (50 %)"),
        (0, 0, "0 of 0 bytes (100 %)"),
    ],
)
def test_the_unit_follows_the_whole(done: int, total: int, said: str) -> None:
    assert said in Progress(done, total, None, None, "copying").line
