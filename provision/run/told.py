"""What the journal is told of pyinfra's own operations, and what pyinfra itself need not say."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from pyinfra.api.host import Host
from pyinfra.api.state import BaseStateCallback, State

if TYPE_CHECKING:
    from provision.run.session import Session


class Operations(BaseStateCallback):
    """Writes the beginning of every operation into the journal."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]
        name = ", ".join(sorted(state.get_op_meta(op_hash).names))
        self.session.tell_journal("operation", host=host.name, name=name)


def quiet() -> None:
    """How many commands an operation sent before it failed says nothing here: why it failed is told by the run."""
    logging.getLogger("pyinfra").addFilter(_says_something)


def _says_something(record: logging.LogRecord) -> bool:
    return re.search(r"executed \d+ commands", record.getMessage()) is None
