"""Who is to serve: the service's own profile, its candidate, or what runs already. Pure.

A candidate becomes the service only by a verdict for exactly its digest. One that was refused is remembered, with what
it was held to, and tried again when either changes. One that was accepted stays until the inventory takes it out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

from provision.data import noise
from provision.spec import Candidate, Service
from provision.stack import sameness, trials
from provision.stack.desired import DesiredService, sha256
from provision.stack.held import Held
from provision.stack.standing import Standing


@dataclass(frozen=True)
class Choice:
    """``serve``: the profile that is to serve; None: what was last seen well stays, and the inventory has it no longer.
    ``due``: the candidate that is to be tried once that serves. ``blocked``: why what the inventory says cannot be put
    into force: what was seen, why it matters, the next step."""

    serve: DesiredService | None
    due: DesiredService | None = None
    notes: tuple[str, ...] = ()
    blocked: tuple[str, str, str] | None = None

    @property
    def profiles(self) -> tuple[DesiredService, ...]:
        """Those that engines and model files are needed for."""
        return tuple(one for one in (self.serve, self.due) if one is not None)


def choose(own: DesiredService, held: Held | None, again: str = "") -> Choice:
    """``held``: what the guest says, None while it cannot be asked. ``again``: how a shell is got in the guest, for the
    note that says how a verdict is taken away.

    What was last seen generating and green stays in service, or is started again, until something else has been proven
    against it; no unreadable file, killed cut-over or stopped unit changes that.
    """
    promoted = own.candidate
    if promoted is not None and promoted.digest == own.digest:
        promoted = None
    if held is None:
        return Choice(own, promoted)
    notes, stands = held.unread, held.stands
    if promoted is None:
        return _own(own, held, notes, again)
    if _is_candidate(own, held, promoted):
        # The candidate is the service already, and something beside it changed: environment, key, address, model.
        if _was_refused(held.verdict, promoted, asked(own.service)):
            return _unchanged(own, held, held.verdict, notes, again)
        return Choice(promoted, None, notes)
    stays = _earlier(own, promoted, held)
    if held.allows(promoted.digest) and not stays:
        return Choice(promoted, None, notes)
    if stands == promoted.digest:
        return Choice(promoted, None, (*notes, _without_verdict(own)))
    found = Choice(None, None, (*notes, stays)) if stays else _own(own, held, notes, again)
    if _candidate_was_refused(held.verdict, own):
        blocked = _not_in_force(own, held) if stays else found.blocked
        return replace(found, notes=(*found.notes, _refused(own, held.verdict, again)), blocked=blocked)
    return replace(found, due=promoted, blocked=None)


def _own(own: DesiredService, held: Held, notes: tuple[str, ...], again: str) -> Choice:
    """The service's own profile; what stands where that was refused in its place already."""
    last = held.last
    if (
        held.stands in ("", own.digest)
        or not held.can_stand
        or not _was_refused(last, own, asked_of_own(own.service))
    ):
        return Choice(own, None, notes)
    return _unchanged(own, held, last, notes, again)


_KEY = ", and a key that was given up still opens it"


def _unchanged(
    own: DesiredService, held: Held, refused: trials.Trial, notes: tuple[str, ...], again: str
) -> Choice:
    """What stands, where what the inventory says of the service was refused: it is not in force, so not in sync."""
    known = next((one.beside for one in held.verdicts if one.digest == held.stands and one.beside), "")
    other = sameness.other(known, own) if known else ""
    blocked = (
        f"{own.name} runs as it was before: what the inventory says of it was refused, and is not in force"
        + (f" (another {other})" if other else ""),
        "a key or an address that was given up still counts",
        "change it in the inventory, or have it tried again as the note says",
    )
    return Choice(None, None, (*notes, _changed_refused(own, refused, again)), blocked)


def _was_refused(
    verdict: trials.Trial | None, profile: DesiredService, held_to: str
) -> TypeGuard[trials.Trial]:
    """Exactly this profile, and held to what it would be held to today."""
    return (
        verdict is not None
        and not verdict.accepted
        and (verdict.digest, verdict.asked) == (profile.digest, held_to)
    )


def _candidate_was_refused(verdict: trials.Trial | None, own: DesiredService) -> TypeGuard[trials.Trial]:
    """This candidate, held to the same, whatever the service says beside it: another key tries nothing again."""
    if verdict is None or verdict.accepted or verdict.asked != asked(own.service):
        return False
    return verdict.digest == (own.candidate or own).digest or verdict.of == identity(own)


def _is_candidate(own: DesiredService, held: Held, promoted: DesiredService) -> bool:
    """Is what stands the candidate of the inventory, accepted, and only what the service says beside it another?"""
    if held.stands in ("", own.digest, promoted.digest) or not held.can_stand:
        return False
    known = held.record(held.stands)
    return known is not None and known.accepted and known.of == identity(own)


def _earlier(own: DesiredService, promoted: DesiredService, held: Held) -> str | None:
    """Why what stands is left as it is: it was accepted as a candidate, or may have been, and is neither the one of
    today nor the own."""
    if held.stands in ("", own.digest, promoted.digest) or not held.can_stand:
        return None
    if held.allows(held.stands):
        return (
            f"{own.name} runs a candidate that was accepted earlier and that the inventory no longer has; it stays "
            "while there is another candidate. Without one, the service's own profile comes back. Environment, key and "
            "address are those that it was started with"
        )
    if held.torn:
        return (
            f"{own.name} runs {held.stands[:12]}, which was seen well there and is not in the inventory; whether it "
            "was a candidate that was accepted cannot be read, so it stays"
        )
    return None


def _not_in_force(own: DesiredService, held: Held) -> tuple[str, str, str] | None:
    """What stands is a candidate of an earlier inventory: what the service says now cannot be given to it."""
    known = held.record(held.stands)
    other = sameness.other(known.beside, own) if known is not None and known.beside else ""
    if not other:
        return None
    return (
        f"{own.name} runs a candidate that the inventory no longer has, the candidate of today was refused, and of the "
        f"service the inventory says another {other} than the one that runs was started with",
        "that is not in force" + (_KEY if "key" in other else ""),
        "write the candidate that runs into the inventory again, or take the candidate out, so that the service's own "
        "profile comes back with them",
    )


def asked(service: Service) -> str:
    """What a candidate is held to, in words that are kept with its verdict."""
    candidate = service.candidate
    if candidate is None:
        return ""
    limits = service.thresholds | candidate.thresholds
    return " ".join([f"beats={beats(candidate):g}", *_limits(limits)])


def asked_of_own(service: Service) -> str:
    """The same of the service's own profile."""
    return " ".join(_limits(service.thresholds))


def _limits(limits: dict[str, float]) -> list[str]:
    return [f"{name}={n:g}" for name, n in sorted(limits.items())]


def identity(own: DesiredService) -> str:
    """Twelve hex digits of the candidate, and of nothing that the service says beside it: the candidate that serves
    stays the same one when a key or an address changes. How it is tried is no part of it. Empty without one."""
    spec, promoted = own.service.candidate, own.candidate
    if spec is None or promoted is None:
        return ""
    drafters = [model.manifest or "" for model in promoted.models if model.role == "drafter"]
    said = spec.model_dump_json(exclude={"mode", "beats"})
    return sha256("\0".join([said, promoted.engine.digest, *drafters]))[:12]


def beats(candidate: Candidate) -> float:
    """How many times the decode speed of what runs it must reach."""
    return candidate.beats if candidate.beats is not None else noise.ratio("tok_s")


def name_of(desired: DesiredService) -> str:
    """A profile as an operator knows it: ``vllm 0.20.1 vllm-dflash (3fa9c1)``. The digits are its digest's: two that
    differ by flags alone have one name."""
    if isinstance(desired, Standing):
        return f"the last good profile ({desired.digest[:6]})"
    service = desired.service
    return f"{service.engine.kind} {service.engine.version} {service.profile} ({desired.digest[:6]})"


def _refused(own: DesiredService, verdict: trials.Trial, again: str) -> str:
    what = name_of(own.candidate) if own.candidate else "the candidate"
    return _note(own, f"the candidate {what}", "without it", verdict, f"{again}rm {trials.path(own.name)}")


def _changed_refused(own: DesiredService, verdict: trials.Trial, again: str) -> str:
    path = trials.path(own.name) if verdict.of else trials.service_path(own.name)
    return _note(own, "its changed profile", "as it was before", verdict, f"{again}rm {path}")


def _note(own: DesiredService, what: str, goes_on: str, verdict: trials.Trial, again: str) -> str:
    lines = verdict.why.strip().splitlines()
    # What was measured, and what that means where the diagnosis knows it.
    cause = lines[:1] + [line for line in lines[1:2] if line.startswith("diagnosis: ")]
    return (
        f"{own.name}: {what} was refused on {verdict.when or 'an unknown day'}"
        + (f" (run {verdict.run})" if verdict.run else "")
        + f": {'; '.join(cause) or 'the cause was not kept'}. {own.name} goes on {goes_on}. It is tried again "
        f"when it changes in the inventory, or after: {again}"
    )


def _without_verdict(own: DesiredService) -> str:
    return (
        f"{own.name} runs its candidate, which was seen well there, and the verdict of its trial is gone: "
        "it stays as it is"
    )
