"""Does NVIDIA still look after the pinned branch? A driver that works is not refused for its age. Pure."""

from __future__ import annotations

from provision.data import drivers
from provision.host.driver_checks.scene import Said, Scene
from provision.host.fitting import ended


def judge(scene: Scene) -> Said:
    row = drivers.branch_of(scene.driver.version) if scene.driver else None
    if row is not None and not row.supported(scene.month):
        yield f"driver {scene.machine.driver and scene.machine.driver.version}: {ended(row)} ({row.source})"
