"""Exceptions that the command line turns into one clear line.

BadInput      the caller gave something wrong: exit 2
Unreachable   the machine named by --host could not be asked: a finding, exit 3
"""

from __future__ import annotations


class BadInput(Exception):
    """What was given, why that cannot work, and what to give instead, in one line; several mistakes a line each."""


class Unreachable(Exception):
    """The other machine gave no answer; ``cause`` and ``fix`` go into the finding."""

    def __init__(self, message: str, *, cause: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.fix = fix
