"""A .run installer that the controller has, or has not: what is known of the file. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Installer:
    """The installer of one version at ``path`` of the controller. ``digest`` is the file's sha256, None where there is
    no file; ``expected`` the one that inventory or publisher give, None where nobody says it."""

    version: str
    path: str
    digest: str | None
    expected: str | None

    def wrong(self) -> list[tuple[str, str, str]]:
        """What keeps it from being used: what was seen, why it matters, the next step."""
        if self.digest is None:
            return [
                (
                    f"there is no {self.path} on this controller",
                    "route 'run' installs by NVIDIA's own installer, and kpro downloads none",
                    "download it from nvidia.com/drivers, put it there with its .sha256sum, or name it by "
                    "Driver(installer=…, sha256=…)",
                )
            ]
        if self.expected is None:
            return [
                (
                    f"nobody says which sha256 {self.path} must have",
                    "it is run as root on the machine",
                    f"compare with what NVIDIA publishes, then Driver(sha256={self.digest!r})",
                )
            ]
        if self.digest != self.expected:
            return [
                (
                    f"{self.path} has sha256 {self.digest}, wanted is {self.expected}",
                    "a damaged or foreign file would be run as root",
                    "download it again",
                )
            ]
        return []
