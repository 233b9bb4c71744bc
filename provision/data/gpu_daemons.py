"""Services of a machine that keep NVIDIA's device files open and serve no work of their own: they are stopped for an
exchange of the driver and started after it. Rows with a source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Daemon:
    """A systemd unit, in the order in which they are stopped; they start in the opposite one."""

    unit: str
    source: str


_PERSISTENCE = "NVIDIA driver README, 'Persistence daemon'; kubevirt/kubevirt#8549"
_DCGM = "NVIDIA DCGM user guide, 'Getting started'; NVIDIA/k8s-driver-manager, clients it stops"
_FABRIC = "NVIDIA fabric manager user guide, 'Starting the service'"

DAEMONS = (
    Daemon("dcgm-exporter.service", _DCGM),
    Daemon("nvidia-dcgm-exporter.service", _DCGM),
    Daemon("nvidia-dcgm.service", _DCGM),
    Daemon("dcgm.service", _DCGM),
    Daemon("nvidia-fabricmanager.service", _FABRIC),
    Daemon("nvidia-persistenced.service", _PERSISTENCE),
)

UNITS = tuple(row.unit for row in DAEMONS)
