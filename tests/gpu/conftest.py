"""A line for each test in the file that KPRO_CLAIMS names, as soon as it ends: a run that is cut leaves what it had."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    path = os.environ.get("KPRO_CLAIMS")
    if path and (report.when == "call" or report.outcome != "passed"):
        told = "; ".join(f"{name}: {value}" for name, value in report.user_properties)
        why = (
            ""
            if report.passed
            else " | " + str(call.excinfo.value if call.excinfo else "")[:400].replace("\n", " ")
        )
        with Path(path).open("a") as file:
            file.write(f"{report.outcome:8} {call.duration:7.2f} s  {item.name}  {told}{why}\n")
    return report
