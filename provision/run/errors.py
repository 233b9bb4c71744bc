"""Why a run ends early.

RunError                 something went wrong, exit 1
|-- Refused              nothing was touched, exit 3; carries every reason
|-- Locked               another run holds the machine, exit 4; carries its owner
|-- HostChanged          the machine is no longer as it was when the plan was shown
|-- ActFailed            a change did not succeed
`-- RebootPending        what was done needs a reboot that is not allowed, exit 10
"""

from __future__ import annotations

from collections.abc import Sequence

from provision.plan import Refusal

EXIT_DONE, EXIT_ERROR, EXIT_USAGE, EXIT_REFUSED, EXIT_LOCKED, EXIT_PENDING = 0, 1, 2, 3, 4, 10


class RunError(Exception):
    """Base: the message is for the operator."""

    exit_code = EXIT_ERROR


class Refused(RunError):
    exit_code = EXIT_REFUSED

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(
            "refused, nothing was touched:\n" + "\n".join(f"  - {refusal}" for refusal in refusals)
        )


class Locked(RunError):
    exit_code = EXIT_LOCKED


class HostChanged(RunError):
    pass


class ActFailed(RunError):
    pass


class RebootPending(RunError):
    exit_code = EXIT_PENDING
