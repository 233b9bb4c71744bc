"""``provision rollback --service``: which profile served before what serves now, and what is remembered of the one that
gives way. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from provision.data.engines import KEY_VARIABLES
from provision.data.launch import Launch
from provision.stack import candidate, sameness, trials
from provision.stack.cutover import TakenBack
from provision.stack.desired import DesiredService
from provision.stack.held import Held
from provision.stack.staged import variables_of
from provision.stack.trials import Trial

FOLDERS = ("/var/lib/kpro/last-good", "/var/lib/kpro/before")
"""Where a cut-over keeps what served. After one that was refused the first holds what serves now, and the second what
served before that."""

PARTS = ("unit", "env", "url")
WHY = "it served, and was taken back by hand (provision rollback)"


def paths(name: str) -> list[str]:
    """The files that are kept of a service."""
    return [f"{folder}/{name}/{part}" for folder in FOLDERS for part in PARTS]


def profile_before(
    own: DesiredService, held: Held, files: Mapping[str, str]
) -> tuple[DesiredService | None, str]:
    """``files``: text by path, of ``paths``, as far as they are there. The profile that served before, or why there is
    none."""
    said = f"{own.name}: no profile served before the one that serves now"
    for folder in FOLDERS:
        parts = [files.get(f"{folder}/{own.name}/{part}") for part in PARTS]
        unit, environment, url = parts
        if unit is None or environment is None or url is None:
            continue
        found, why = _kept(own, held, unit, environment, url.strip(), f"{folder}/{own.name}")
        if found is not None:
            return found, ""
        said = why or said
    return None, said


def _kept(
    own: DesiredService, held: Held, unit: str, environment: str, url: str, folder: str
) -> tuple[DesiredService | None, str]:
    digest = re.search(r"^Environment=KPRO_DIGEST=([0-9a-f]{64})$", unit, re.MULTILINE)
    if digest is None:
        return None, f"{own.name}: what is kept in {folder} is no unit of kpro's; it is left alone"
    if digest[1] == held.stands:
        return None, ""
    for one in held.verdicts:
        if (one.digest, one.accepted) == (digest[1], False):
            return None, f"{own.name}: what served before was taken back already ({one.when})"
    if url != own.url:
        return None, (
            f"{own.name}: what served before did so at {url}, and the inventory says {own.url}: put its port and "
            "address back there, then go back"
        )
    # Its key is the one that it served with: the operator's file may hold another one by now, or lie elsewhere.
    variables = variables_of(environment)
    key = next((variables[name] for name in KEY_VARIABLES if variables.get(name)), None)
    kept = replace(own, unit=unit, environment=environment, key=key, digest=digest[1], launch=Launch())
    return replace(kept, trial=None, candidate=None, staging="back"), ""


def taken_back(own: DesiredService, held: Held, when: str, run: str) -> TakenBack | None:
    """The verdict on what gives way: without it the next run would put it into service again. None where the inventory
    does not have it and nothing was remembered of it."""
    was, name, promoted = held.stands, own.name, own.candidate
    as_candidate = (trials.path(name), trials.accepted_path(name))
    as_own = (trials.service_path(name), trials.service_accepted_path(name))
    if not was:
        return None
    refused = Trial(was, "refused", why=WHY, when=when, run=run, beside=sameness.beside(own))
    if was == own.digest:
        return TakenBack(replace(refused, asked=candidate.asked_of_own(own.service)), *as_own)
    if promoted is not None and was == promoted.digest:
        asked, of = candidate.asked(own.service), candidate.identity(own)
        return TakenBack(replace(refused, asked=asked, of=of), *as_candidate)
    for known, (path, keep), first in (
        (held.verdict, as_candidate, True),
        (held.accepted, as_candidate, False),
        (held.last, as_own, True),
        (held.before, as_own, False),
    ):
        if known is not None and known.digest == was:
            told = replace(refused, asked=known.asked, of=known.of, beside=known.beside)
            # The verdict on what the inventory has now stays where it is.
            return TakenBack(told, path if first else keep, keep)
    return None
