"""Who is to serve: the service's own profile, its candidate, or what runs already. Pure.

A candidate becomes the service only by a verdict for exactly its digest. One that was refused is remembered, with what
it was held to, and tried again when either changes. One that was accepted stays until the inventory takes it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from provision.data import noise
from provision.spec import Candidate, Service
from provision.stack import trials
from provision.stack.desired import DesiredService
from provision.stack.held import Held


@dataclass(frozen=True)
class Choice:
    """``serve``: the profile that is to serve; None: what runs now stays, an earlier candidate that was accepted.
    ``due``: the candidate that is to be tried once that serves."""

    serve: DesiredService | None
    due: DesiredService | None = None
    notes: tuple[str, ...] = ()

    @property
    def profiles(self) -> tuple[DesiredService, ...]:
        """Those that engines and model files are needed for."""
        return tuple(one for one in (self.serve, self.due) if one is not None)


def choose(own: DesiredService, held: Held | None, again: str = "") -> Choice:
    """``held``: what the guest says, None while it cannot be asked. ``again``: how a shell is got in the guest, for the
    note that says how a verdict is taken away."""
    promoted = own.candidate
    if promoted is None or promoted.digest == own.digest:
        return Choice(own)
    if held is None:
        return Choice(own, promoted)
    if held.allows(promoted.digest):
        return Choice(promoted, None, held.unread)
    if held.serving == promoted.digest:
        return Choice(promoted, None, (*held.unread, _without_verdict(own)))
    stays = _earlier(own, held)
    base = None if stays else own
    notes = (*held.unread, *([stays] if stays else []))
    verdict = held.verdict
    if verdict is None or verdict.digest != promoted.digest or verdict.asked != asked(own.service):
        return Choice(base, promoted, notes)
    return Choice(base, None, (*notes, _refused(own, verdict, again)))


def _earlier(own: DesiredService, held: Held) -> str | None:
    """Why what runs is left as it is: it was accepted as a candidate, and is neither the one of today nor the own."""
    if not held.serving or held.serving == own.digest or not held.allows(held.serving):
        return None
    return (
        f"{own.name} runs a candidate that was accepted earlier and that the inventory no longer has; it stays while "
        "there is another candidate. Without one, the service's own profile comes back"
    )


def asked(service: Service) -> str:
    """What a candidate is held to, in words that are kept with its verdict."""
    candidate = service.candidate
    if candidate is None:
        return ""
    limits = service.thresholds | candidate.thresholds
    return " ".join([f"beats={beats(candidate):g}", *(f"{name}={n:g}" for name, n in sorted(limits.items()))])


def beats(candidate: Candidate) -> float:
    """How many times the decode speed of what runs it must reach."""
    return candidate.beats if candidate.beats is not None else noise.ratio("tok_s")


def name_of(desired: DesiredService) -> str:
    """A profile as an operator knows it: ``vllm 0.20.1 vllm-dflash (3fa9c1)``. The digits are its digest's: two that
    differ by flags alone have one name."""
    service = desired.service
    return f"{service.engine.kind} {service.engine.version} {service.profile} ({desired.digest[:6]})"


def _refused(own: DesiredService, verdict: trials.Trial, again: str) -> str:
    what = name_of(own.candidate) if own.candidate else "the candidate"
    cause = verdict.why.strip().splitlines()
    return (
        f"{own.name}: the candidate {what} was refused on {verdict.when or 'an unknown day'}"
        + (f" (run {verdict.run})" if verdict.run else "")
        + f": {cause[0] if cause else 'the cause was not kept'}. {own.name} goes on without it. It is tried again "
        f"when it changes in the inventory, or after: {again}rm {trials.path(own.name)}"
    )


def _without_verdict(own: DesiredService) -> str:
    return (
        f"{own.name} runs its candidate, which was seen well there, and the verdict of its trial is gone: "
        "it stays as it is"
    )
