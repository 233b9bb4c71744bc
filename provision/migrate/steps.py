"""The runbook of a migration, one row a step: what it does, by what it is seen done, how it is undone.

The names are the words of the journals. Every action may be repeated, and its proof is looked at, never remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from provision.migrate import cut, on_files, on_proof, on_target
from provision.migrate.moving import Moving


def nothing(m: Moving) -> str:
    """There is nothing to undo, or nothing that is needed first."""
    return ""


def _never(m: Moving) -> bool:
    return False


@dataclass(frozen=True)
class Step:
    """``does``: acts, and gives one sentence of what was proven. ``holds``: is it done already, as it is looked at now?
    ``needs``: empty, or why it cannot begin. ``undo``: takes it back, whether it was done or only begun.

    ``window``: from here on requests are kept off the source, and a red step is taken back at once. ``passed``: where
    it holds, have all before it passed, also those that are ``fleeting`` (nothing is left of their proof to look at,
    and a later step stands for it)? ``cold``: is it part of a migration without a source? ``text``, ``proof``,
    ``way_back``: for people.
    """

    name: str
    text: str
    proof: str
    way_back: str
    does: Callable[[Moving], str]
    holds: Callable[[Moving], bool] = _never
    undo: Callable[[Moving], str] = nothing
    needs: Callable[[Moving], str] = nothing
    window: bool = False
    passed: Callable[[Moving], bool] = _never
    cold: bool = True
    fleeting: bool = False


def _in_sync(phase: str) -> Callable[[Moving], bool]:
    return lambda m: on_target.in_sync(m, phase)


STEPS: tuple[Step, ...] = (
    Step(
        "install",
        "steps 1 to 5 of the chain on the target: driver, device nodes",
        "the chain finds nothing left to do there",
        "stays: the machine is ready for a service",
        on_target.install,
        _in_sync("install"),
    ),
    Step(
        "copy",
        "model files, host to host, while the source serves",
        "every file equal by its checksum, in its place by one rename",
        "what this run brought is removed, and its key",
        on_files.copy,
        on_files.is_copied,
        on_files.uncopy,
    ),
    Step(
        "configure",
        "steps 6 to 8 on the target: container, engine environment, staged unit",
        "the chain finds nothing left to do there",
        "container and environment stay; the staged unit goes",
        on_target.configure,
        _in_sync("configure"),
        on_target.unstage,
    ),
    Step(
        "warm",
        "steps 9 and 10 on the target: gates, the unit started at its own address",
        "it generates; no request of a client goes there",
        "its unit is stopped and removed",
        on_target.warm,
        on_target.is_warm,
        on_target.cool,
    ),
    Step(
        "answers",
        "tokenizer, chat template and answers beside the source's",
        "byte-equal and within the tolerance",
        "nothing to undo",
        on_proof.answers,
        on_proof.answers_hold,
        cold=False,
        fleeting=True,
    ),
    Step(
        "speed",
        "tokens a second against the source's baseline",
        "not below the limit",
        "nothing to undo",
        on_proof.speed,
        on_proof.speed_holds,
        fleeting=True,
    ),
    Step(
        "drain",
        "no new request to the source, those in flight end, the fence keeps it from starting",
        "the fence holds, and nobody gets requests",
        "the source serves again, first of all",
        cut.drain,
        cut.is_drained,
        needs=cut.may_drain,
        window=True,
        passed=lambda m: True,
        cold=False,
    ),
    Step(
        "delta",
        "what the source wrote since is copied once more",
        "equal by checksum",
        "what it brought is removed",
        on_files.delta,
        undo=on_files.undelta,
        window=True,
        cold=False,
        fleeting=True,
    ),
    Step(
        "verify",
        "files, unit and environment on the target once more",
        "nothing differs",
        "nothing to undo",
        on_files.verify,
        window=True,
        fleeting=True,
    ),
    Step(
        "activate",
        "the unit starts at boot; restarted only where the last copy changed what it reads",
        "enabled, and it generates",
        "goes with the unit",
        on_target.activate,
        on_target.is_activated,
        window=True,
    ),
    Step(
        "gate",
        "the gate and a generated token, of the very process",
        "green",
        "nothing to undo",
        on_target.gate,
        window=True,
        fleeting=True,
    ),
    Step(
        "switch",
        "requests go to the target",
        "it is asked who gets them, and the target answers",
        "requests go to the source again",
        cut.switch,
        cut.is_switched,
        needs=cut.may_switch,
        window=True,
        passed=lambda m: m.traffic is not None,
    ),
    Step(
        "watch",
        "the target is watched for the stated time",
        "it generates all the time",
        "nothing to undo",
        cut.watch,
        window=True,
        fleeting=True,
    ),
    Step(
        "stop",
        "the source is stopped, intact",
        "stopped, and the fence holds",
        "the source is started again",
        cut.stop,
        cut.is_stopped,
        window=True,
        passed=lambda m: not m.stops,
        cold=False,
    ),
)

NAMES: tuple[str, ...] = ("lock", "preflight", *(step.name for step in STEPS))
"""Every word that a journal or a state file can have for a step, in order."""

Ended = Literal["moved", "rolled_back"]


def of(m: Moving) -> tuple[Step, ...]:
    """The steps of this migration."""
    return tuple(step for step in STEPS if step.cold or not m.cold)


def at_or_after(step: str, other: str) -> bool:
    """Has a migration at ``step`` begun ``other``? An unknown word, of another version, has begun everything."""
    if step not in NAMES:
        return True
    return NAMES.index(step) >= NAMES.index(other)
