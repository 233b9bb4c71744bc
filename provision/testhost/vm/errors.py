"""What can go wrong with the virtual test host, each said in one line with the next step."""

from __future__ import annotations


class TestHostError(Exception):
    """The virtual host cannot be built, booted or reached. The text says what was seen and what to do."""

    __test__ = False


class TestHostBusy(TestHostError):
    """Another test host runs; the text says whose."""
