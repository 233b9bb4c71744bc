"""Which file of the tier a free worker gets: the one that takes longest, so that none is left for the end."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SECONDS: dict[str, float] = {}
"""What a file took on two processors with three workers; one that is not here counts as long."""


class LongestFirst(LoadFileScheduling):
    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = max(self.workqueue, key=lambda scope: SECONDS.get(scope.rpartition("/")[2], 1e9))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
