"""``provision inspect INVENTORY``: one look at each machine, over the connection that a plan uses."""

from __future__ import annotations

from collections.abc import Sequence

from provision import inventory as inventories
from provision.host.observe import observe
from provision.inspect.examine import examine
from provision.inspect.record import LOCAL, connected
from provision.inspect.recorded import tell
from provision.inspect.report import Report
from provision.inspect.requests import requests
from provision.plan import PHASES
from provision.printable import say_on_stderr
from provision.run import runner
from provision.run.commands import Answer, finish
from provision.run.errors import EXIT_DONE


def inspect(inventory: str, limit: Sequence[str], as_json: bool) -> int:
    """The exit code: 0, 1 when a machine cannot be looked at, 2 for a bad inventory."""
    return finish(lambda: _inspect(inventory, limit, as_json), "inspect", as_json)


def _inspect(inventory: str, limit: Sequence[str], as_json: bool) -> Answer:
    if inventory == LOCAL or "@" in inventory:
        with connected(inventory, limit) as (run, bare, _):
            reports = [examine(observe(run.session.host(bare.host_name), requests()))]
    else:
        reports = _described(inventory, limit)
    if not as_json:
        tell(reports, as_json)
    return Answer(EXIT_DONE, {"machines": [report.as_dict() for report in reports]})


def _described(inventory: str, limit: Sequence[str]) -> list[Report]:
    loaded = inventories.load(inventory, limit, files="none")
    machines = loaded.selected(limit).machines
    with runner.connected(
        loaded.path,
        limit=[machine.host_name for machine in machines],
        phases=PHASES,
        reason=f"inspect {inventory}",
        say=say_on_stderr,
    ) as run:
        return [
            examine(observe(run.session.host(machine.host_name), requests(machine)), machine)
            for machine in machines
        ]
