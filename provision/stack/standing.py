"""The last good profile of a service where the inventory does not have it: started again from its own files. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields

from provision.stack.desired import DesiredService


@dataclass(frozen=True)
class Standing(DesiredService):
    """Only ``digest``, name and address are its own: unit and environment file are what lies in place in the guest, and
    are not written by the controller."""

    @property
    def staged_unit(self) -> str:
        return self.unit_path

    @property
    def staged_environment(self) -> str:
        return self.environment_path


def standing(own: DesiredService, digest: str) -> Standing:
    """``digest``: of the profile that was last seen generating and green."""
    facts = {field.name: getattr(own, field.name) for field in fields(DesiredService)}
    return Standing(**facts | {"digest": digest, "trial": None, "candidate": None, "staging": "standing"})
