"""A running container whose configuration was just written is restarted, whoever started it and with what."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from provision.acts.container import MARK_DUE

NEW, OLD = "1" * 64, "0" * 64


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "configured"),  # started at boot, or by hand
        (NEW, "configured"),  # edited and started by hand, and put back now
        (OLD, OLD),  # started by us with the configuration before
    ],
)
def test_the_mark_of_a_start_is_never_that_of_a_configuration_it_did_not_start_with(
    before: str | None, after: str, tmp_path: Path
) -> None:
    mark = tmp_path / "marks" / "c1"
    if before is not None:
        mark.parent.mkdir()
        mark.write_text(f"{before}\n")
    script = MARK_DUE.format(marks=mark.parent, id="c1", digest=NEW)
    subprocess.run(["sh", "-c", script], check=True)
    assert mark.read_text() == f"{after}\n"
