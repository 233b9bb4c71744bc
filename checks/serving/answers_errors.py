"""Why a question has no answer."""

from __future__ import annotations


class Unreachable(Exception):
    """Nothing could be looked at: nothing listens, or the key was refused."""


class Broken(Exception):
    """The server took the question and failed: a status of 500, a stream cut off, nothing in time, not what was asked
    for."""


class Refused(Exception):
    """The server says no (4xx): it has no such path, or does not take such a question."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"{status} {said}".strip())
        self.status = status
