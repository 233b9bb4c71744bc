"""The files that make other programs ask provcheck. They lie in ``templates/integrations``."""

from __future__ import annotations

from typing import NamedTuple


class Integration(NamedTuple):
    """``place`` is where its reader looks for it; ``source`` is whose form it has; ``needs`` what must be there besides
    the single file, and is easily forgotten."""

    file: str
    title: str
    place: str
    source: str
    needs: str = ""


SINGLE_FILE = "/opt/kpro/provcheck.pyz"
"""Where all of them look for provcheck."""

OPTIONS_FILE = "/etc/default/provcheck"
"""Where they have options of ``provcheck gpus`` from: PROVCHECK_OPTIONS."""

INTEGRATIONS = {
    "systemd": Integration(
        "systemd-gate.conf",
        "a service starts on healthy GPUs only (drop-in)",
        "/etc/systemd/system/NAME.service.d/50-provcheck.conf",
        "systemd.service(5), systemd.unit(5): StartLimitIntervalSec",
    ),
    "slurm": Integration(
        "slurm-healthcheck.sh",
        "drains a node with a reason, takes back only its own drain",
        "/opt/kpro/slurm-healthcheck.sh, HealthCheckProgram in slurm.conf",
        "slurm.conf(5): HealthCheckProgram is killed after 60 seconds; scontrol(1)",
    ),
    "node-exporter": Integration(
        "provcheck-textfile.service",
        "metrics for node_exporter's textfile collector (unit)",
        "/etc/systemd/system/provcheck-textfile.service",
        "node_exporter README, 'Textfile Collector'",
    ),
    "node-exporter-timer": Integration(
        "provcheck-textfile.timer",
        "the clock of that unit",
        "/etc/systemd/system/provcheck-textfile.timer",
        "systemd.timer(5)",
    ),
    "kubernetes": Integration(
        "kubernetes-init.yaml",
        "init containers before an engine",
        "your pod's manifest, which has its options too",
        "Kubernetes 'Init Containers'; NVSentinel preflight copies NCCL_* from the main container",
    ),
    "npd": Integration(
        "npd-provcheck.json",
        "a condition GPUProblem on the Kubernetes node (Node Problem Detector)",
        "/config/npd-provcheck.json, --config.custom-plugin-monitor",
        "node-problem-detector docs/custom_plugin_monitor.md: exit 0 ok, 1 not, 2 unknown; 80 characters",
        "python3 3.10, the single file and the driver's libnvidia-ml.so.1 where NPD runs: a service of the node, or an"
        " image of your own; the usual image has none of them",
    ),
    "options": Integration(
        "provcheck.default",
        "what the GPUs are meant to be (--expect 8, --mig ...), for all of these but kubernetes",
        OPTIONS_FILE,
        "systemd.exec(5): EnvironmentFile; sh(1)",
    ),
}

FOLDER = "integrations"
FILES = tuple(f"{FOLDER}/{row.file}" for row in INTEGRATIONS.values())
