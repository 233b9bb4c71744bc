"""A key that the engine asks for comes from a file, and stands in nothing that provcheck writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.rig import KEY, Engine, Measured, provcheck


def test_with_its_key_a_protected_service_passes_and_the_key_is_in_no_record(
    measured: dict[str, Measured],
) -> None:
    one = measured["plain"]
    assert one.ran.code == 0
    assert KEY not in one.record.read_text() + str(one.ran.report) + one.ran.said


@pytest.mark.parametrize("key", [None, "wrong"])
def test_without_the_right_key_nothing_is_green_and_the_key_is_named_as_the_reason(
    engines: dict[str, Engine], key: str | None, tmp_path: Path
) -> None:
    words: list[str | Path] = []
    if key is not None:
        file = tmp_path / "key"
        file.write_text(key)
        words += ["--api-key-file", file]
    ran = provcheck("serve", engines["plain"].url, *words, "--wait", "2")
    assert ran.code in (1, 2, 3)
    assert "key" in ran.said + str(ran.report)
    assert "pass" not in (ran.report or {}).get("verdict", "")
