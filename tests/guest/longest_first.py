"""Which file of the tier a free worker gets: the one that takes longest, so that none is left for the end."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SECONDS: dict[str, float] = {
    "test_faults.py": 600,
    "test_chain.py": 400,
    "test_init.py": 170,
    "test_candidate.py": 130,
    "test_migrate.py": 110,
    "test_cutover_power.py": 90,
    "test_hub_chain.py": 110,
    "test_chain_kills.py": 80,
    "test_preflight.py": 80,
    "test_haproxy.py": 70,
    "test_fleet.py": 60,
    "test_unprivileged.py": 60,
    "test_driver_routes.py": 60,
    "test_cutover.py": 60,
    "test_copy.py": 55,
    "test_gates.py": 50,
    "test_demo.py": 50,
    "test_connector_runs.py": 50,
    "test_hub.py": 50,
    "test_connector.py": 50,
    "test_connector_proxmox.py": 50,
    "test_connector_controllers.py": 40,
    "test_foreign.py": 50,
    "test_answers.py": 40,
    "test_copy_cuts.py": 40,
    "test_engines.py": 30,
    "test_copy_containers.py": 10,
    "test_single_file.py": 10,
}
"""What a file took on two processors with three workers; one that is not here counts as long."""


class LongestFirst(LoadFileScheduling):
    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = max(self.workqueue, key=lambda scope: SECONDS.get(scope.rpartition("/")[2], 1e9))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
