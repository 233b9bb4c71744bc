"""Why a run ends early.

RunError                 something went wrong, exit 1
|-- Refused              nothing was touched, exit 3; carries every reason
|-- Locked               another run holds the machine, exit 4; carries its owner
|-- Unreachable          a machine of the run does not answer
|-- HostChanged          the machine is no longer as it was when the plan was shown
|-- RebootPending        what came before is done, the machine has to boot and may not, exit 10; carries the reasons
|-- CandidateRefused     a candidate was tried and is not better; what served before does so again
`-- ActFailed            a change did not succeed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from provision.plan import Refusal

EXIT_DONE, EXIT_ERROR, EXIT_USAGE, EXIT_REFUSED, EXIT_LOCKED, EXIT_PENDING = 0, 1, 2, 3, 4, 10
EXIT_INTERRUPTED, EXIT_HUNG_UP, EXIT_TERMINATED = 130, 129, 143
"""As a shell has it: 128 and the number of SIGINT, SIGHUP, SIGTERM."""
EXITS_TOLD = (EXIT_INTERRUPTED, EXIT_HUNG_UP, EXIT_TERMINATED)
"""Of a run that was told to end from outside."""


class RunError(Exception):
    """Base: the message is for the operator."""

    exit_code = EXIT_ERROR

    @property
    def told(self) -> str:
        """What the operator reads."""
        return f"error: {self}"


class Refused(RunError):
    exit_code = EXIT_REFUSED

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(
            "refused, nothing was touched:\n" + "\n".join(f"  - {refusal}" for refusal in refusals)
        )


class Locked(RunError):
    exit_code = EXIT_LOCKED


@dataclass(frozen=True)
class Away:
    """A machine that is not reached. ``cause``: after its name; ``next_step``: what to try, and what to look at."""

    machine: str
    called: str
    cause: str
    next_step: str
    unresolved: bool = False
    """Is it the name that is wrong? Then no machine was asked anything."""

    @property
    def why(self) -> str:
        return f"{self.called} cannot be reached: {self.cause}"

    def __str__(self) -> str:
        return f"{self.why}. Next: {self.next_step}"


class Unreachable(RunError):
    """``machines``: each that is not reached, and why; a text may follow, which is told after them."""

    def __init__(self, machines: Sequence[Away], also: str = "") -> None:
        self.machines = tuple(machines)
        self.also = also
        if self.machines and all(one.unresolved for one in self.machines):
            # The same mistake as in an inventory that is judged before anything is connected to.
            self.exit_code = EXIT_USAGE
        super().__init__("\n".join([*map(str, machines), *([also] if also else [])]))

    @property
    def told(self) -> str:
        errors = [f"error: {one}" for one in self.machines]
        return "\n".join([*errors, *([self.also] if self.also else [])])


class HostChanged(RunError):
    pass


class RebootPending(RunError):
    exit_code = EXIT_PENDING

    def __init__(self, machine: str, reasons: Sequence[str], next_step: str) -> None:
        self.reasons = tuple(reasons)
        super().__init__(f"reboot pending: {machine}: {'; '.join(reasons)}. Next: {next_step}")


class ActFailed(RunError):
    pass


class CandidateRefused(RunError):
    """``host``: the guest's; ``cause``: lines, the headline first; ``later``: when it is looked at again."""

    def __init__(
        self,
        host: str,
        service: str,
        profile: str,
        cause: str,
        later: str = "It is tried again when it changes in the inventory (provision status shows the verdict)",
    ) -> None:
        self.host = host
        super().__init__(
            f"{service}: the candidate {profile} was refused, and {service} goes on without it:\n"
            + "\n".join(f"    {line}" for line in cause.splitlines())
            + f"\n    {later}"
        )
