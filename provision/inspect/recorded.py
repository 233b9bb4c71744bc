"""``provision inspect --sysroot``: a recorded tree, without a connection and without pyinfra."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provision.inspect.examine import examine
from provision.inspect.report import Report
from provision.inspect.requests import requests
from provision.printable import printable
from provision.spec import Machine


def inspect(inventory: str | None, limit: Sequence[str], root: Path, as_json: bool) -> int:
    """The exit code: 0, 1 when the tree cannot be read, 2 for a bad inventory."""
    from provision.host.tree import observe_tree
    from provision.inventory import InventoryRefused, load
    from provision.run.errors import EXIT_DONE, EXIT_ERROR, EXIT_USAGE, RunError

    try:
        machines: Sequence[Machine | None] = [None]
        if inventory is not None:
            machines = load(inventory, limit, files="none", names=False).selected(limit).machines
        reports = [
            examine(observe_tree(root, requests(machine, recorded=True)), machine, recorded=True)
            for machine in machines
        ]
    except InventoryRefused as error:
        return failed(error.reasons, EXIT_USAGE, as_json)
    except (RunError, OSError, ValueError) as error:
        return failed([str(error)], EXIT_ERROR, as_json)
    tell(reports, as_json)
    return EXIT_DONE


def failed(reasons: Sequence[str], code: int, as_json: bool) -> int:
    """Says why nothing could be looked at."""
    for reason in reasons:
        print(printable(f"error: {reason}"), file=sys.stderr)  # noqa: T201
    if as_json:
        document(code, {"error": "; ".join(reasons), "reasons": list(reasons)})
    return code


def tell(reports: Sequence[Report], as_json: bool) -> None:
    if as_json:
        document(0, {"machines": [report.as_dict() for report in reports]})
        return
    from provision.inspect.show import show

    show(reports)


def document(code: int, body: dict[str, Any]) -> None:
    whole = {"schema": "provision/1", "command": "inspect", "exit": code, **body}
    sys.stdout.write(json.dumps(whole, ensure_ascii=False) + "\n")
