"""Many machines: a canary first."""

from __future__ import annotations

import pytest

from provision.run.batches import batches


@pytest.mark.parametrize(
    ("machines", "size", "expected"),
    [
        ("", None, []),
        ("a", None, ["a"]),
        ("abcd", None, ["a", "bcd"]),
        ("abcd", 2, ["a", "bc", "d"]),
        ("abcd", 10, ["a", "bcd"]),
        ("abcd", 1, ["a", "b", "c", "d"]),
    ],
)
def test_the_first_goes_alone_and_the_others_follow(
    machines: str, size: int | None, expected: list[str]
) -> None:
    assert list(batches(machines, size)) == expected
