"""The page about drivers is that of the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision import pages
from provision.data import drivers, kernels
from provision.host.driver_checks.judge import JUDGES


@pytest.mark.parametrize("name", pages.DOCUMENTS)
def test_a_committed_page_is_that_of_the_rows(name: str, repo_root: Path) -> None:
    assert (repo_root / f"docs/{name}.md").read_text() == pages.DOCUMENTS[name](), "run scripts/make-docs"


def test_every_branch_kernel_cuda_and_question_stands_on_the_page() -> None:
    page = pages.drivers_page()
    for text in (
        *(f"| {row.branch} |" for row in drivers.BRANCHES),
        *(f"| {row.kernel} |" for row in (*kernels.BUILDS, *kernels.DOES_NOT_BUILD)),
        *(row.driver for row in drivers.CUDA_DRIVERS),
        *(row.question for row in JUDGES),
        *(row.source for row in kernels.DOES_NOT_BUILD),
    ):
        assert text in page, text
    tables = [line for line in page.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)
