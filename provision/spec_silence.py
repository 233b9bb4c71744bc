"""A finding of a service's gates that is known to be bad, as its owner answers for it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable

from pydantic import field_validator

from checks.data.catalogue import CATALOGUE
from provision.spec_base import Spec


class Silence(Spec):
    """``id`` of a finding (``provcheck explain --list``), its ``subject`` (None: any), who answers for it and why, and
    the last day on which it counts, like 2027-01-31. It takes the finding out of the verdict, never out of sight."""

    id: str
    owner: str
    reason: str
    until: str
    subject: str | None = None

    @field_validator("id")
    @classmethod
    def _is_a_finding(cls, value: str) -> str:
        if value not in CATALOGUE:
            raise ValueError(f"no finding is called {value!r}; 'provcheck explain --list' has all")
        return value

    @field_validator("owner", "reason")
    @classmethod
    def _says_something(cls, value: str) -> str:
        if not value:
            raise ValueError("is empty: a silence needs somebody who answers for it, and why")
        return value

    @field_validator("until")
    @classmethod
    def _is_a_day(cls, value: str) -> str:
        try:
            # Later Pythons read other spellings too; what runs in a guest may be an earlier one.
            good = datetime.date.fromisoformat(value).isoformat() == value
        except ValueError:
            good = False
        if not good:
            raise ValueError(f"{value!r} is no day like 2027-01-31")
        return value


def file_of(silences: Iterable[Silence]) -> bytes | None:
    """The file that ``provcheck --silences`` reads; None where nothing is silenced."""
    rows = [silence.model_dump(exclude_none=True) for silence in silences]
    return (json.dumps(rows, indent=1) + "\n").encode() if rows else None
