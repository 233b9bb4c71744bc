"""The chain: ten steps from a locked machine to an answering service, in the order of the runbook.

Each function declares one step's operations, on the metal and in the guests alike: pyinfra keeps the order of
operations only among hosts that share them. An operation that has no item for its host does nothing there. What a
step does is decided from the snapshot, in the areas' ``decide``.
"""

from __future__ import annotations

from pyinfra import context

from provision import operations, operations_trial
from provision.host.reboot import parse_permission
from provision.plan import PHASES, Step, parse_phases
from provision.run.errors import Refused, RunError
from provision.run.session import Session


def _wanted(step: Step) -> bool:
    return step.phase in Session.of(context.state).phases


def _carry_out(step: Step, kind: str, what: str) -> None:
    if _wanted(step):
        operations.carry_out(kind=kind, name=f"{int(step)} {step.title}: {what}")


def inspect() -> None:
    """1. Look at the machine, show what would be done, refuse with all reasons; take the lock in execute."""
    session, host = Session.of(context.state), context.host
    phases = host.data.get("phases")
    session.reboot = session.reboot or host.data.get("reboot") == "allowed"
    try:
        if phases is not None:
            session.phases = parse_phases(phases)
        parse_permission(host.data.get("reboot"))
    except ValueError as error:
        session.usage = RunError(str(error))
        session.say(f"error: {error}")
    try:
        plan = session.show(host.data.machine)
        if plan.refusals and session.first_word(host.data.machine):
            session.say(f"{host.name}: {Refused(plan.refusals)}")
    except RunError as error:
        # The operation below meets the same trouble and fails this host alone.
        session.say(f"{host.name}: {error}")
    operations.inspect(name="1 inspect")


def release() -> None:
    """2. The boot configuration lets go of the GPUs, what is made from it is made anew, GPUs leave their drivers; those
    that are assigned to virtual machines go to vfio-pci."""
    _carry_out(Step.RELEASE, "assign.record", "which GPUs virtual machines have")
    _carry_out(Step.RELEASE, "assign.unlist", "virtual machines forget the GPUs that leave them")
    _carry_out(Step.RELEASE, "assign.wake", "containers that get their GPUs back start at boot")
    _carry_out(Step.RELEASE, "assign.rest", "containers rest whose GPUs virtual machines have")
    _carry_out(Step.RELEASE, "release.files", "clean the boot configuration")
    _carry_out(Step.RELEASE, "release.regenerate", "initramfs and boot loader")
    _carry_out(Step.RELEASE, "release.online", "take the GPUs from vfio-pci")
    _carry_out(Step.RELEASE, "assign.give", "hand GPUs over to vfio-pci")
    _carry_out(Step.RELEASE, "assign.list", "virtual machines learn of the GPUs that they get")


def driver() -> None:
    """3. The pinned driver is installed, loaded, and bound to each GPU."""
    _carry_out(Step.DRIVER, "kernel.hold", "stay with the kernel that has a driver")
    _carry_out(Step.DRIVER, "driver.repository", "add its archive")
    _carry_out(Step.DRIVER, "driver.install", "install")
    _carry_out(Step.DRIVER, "driver.hold", "hold its packages")
    _carry_out(Step.DRIVER, "kernel.release", "the boot loader chooses the kernel again")
    _carry_out(Step.DRIVER, "guests.stop", "stop the guests that use another one")
    _carry_out(Step.DRIVER, "driver.load", "load and bind")


def reboot() -> None:
    """4. The machine boots, if it has to and may. What its boot has to do for the GPUs is put there before."""
    _carry_out(Step.DEVICE_NODES, "nodes.unit", "what every boot does for the GPUs")
    if _wanted(Step.REBOOT):
        operations.reboot(name="4 reboot")


def device_nodes() -> None:
    """5. The device nodes are there; the metal is proven, and a boot of this chain confirmed."""
    _carry_out(Step.DEVICE_NODES, "nodes.make", "make them")
    if _wanted(Step.DEVICE_NODES):
        operations.prove_metal(name="5 device nodes: the metal is as wanted")
        operations.confirm(name="5 device nodes: confirm the boot")


def container() -> None:
    """6. The container exists, is configured, runs."""
    _carry_out(Step.CONTAINER, "container.ids", "ids of its own")
    _carry_out(Step.CONTAINER, "container.create", "create")
    _carry_out(Step.CONTAINER, "container.configure", "configure")
    _carry_out(Step.CONTAINER, "container.start", "start")


def user_space() -> None:
    """7. The driver's user space in the guest equals the machine's module to the last digit."""
    _carry_out(Step.USER_SPACE, "userspace.host", "of the machine")
    _carry_out(Step.USER_SPACE, "userspace.guest", "in the guest")
    _carry_out(Step.USER_SPACE, "userspace.own", "the guest's own")


def stack() -> None:
    """8. User and folders, the gate, the engine environment, model files, the staged unit."""
    _carry_out(Step.STACK, "stack.base", "user and folders")
    _carry_out(Step.STACK, "stack.provcheck", "put provcheck")
    _carry_out(Step.STACK, "stack.uv", "put uv")
    _carry_out(Step.STACK, "stack.engine", "build the engine environment")
    _carry_out(Step.STACK, "stack.model", "put the model")
    _carry_out(Step.STACK, "stack.fetch", "fetch the model")
    _carry_out(Step.STACK, "stack.stated", "put the inventory's baseline")
    _carry_out(Step.STACK, "stack.stage", "stage and verify the unit")


def gate() -> None:
    """9. Nothing goes into service before its data path is proven."""
    if _wanted(Step.GATE):
        operations.gate(name="9 gate")


def service() -> None:
    """10. The cut-over: the staged unit takes over, generates, or the last good one comes back. Then the candidate is
    tried, and becomes the service if it proves to be better."""
    _carry_out(Step.SERVICE, "container.restart", "restart the container")
    if _wanted(Step.SERVICE):
        operations.gate(restarted=True, name="10 service: the gate after a restart")
    if _wanted(Step.SERVICE):
        operations_trial.cut_over(kind="service.cutover", again=True, name="10 service: start again")
        operations_trial.cut_over(kind="service.measure", name="10 service: measure what runs")
        operations_trial.cut_over(kind="service.cutover", again=False, name="10 service: put into service")
        operations_trial.cut_over(kind="service.candidate", name="10 service: try the candidate")
    if _wanted(Step.SERVICE):
        operations.prove(name="10 service: generates")
        operations.exchange_over(name="10 service: what was stopped for another driver is back")
        operations_trial.verdicts(name="10 service: what came of candidates")


__all__ = [
    "PHASES",
    "container",
    "device_nodes",
    "driver",
    "gate",
    "inspect",
    "reboot",
    "release",
    "service",
    "stack",
    "user_space",
]
