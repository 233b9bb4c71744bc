"""The page of ``docs/`` about profiles, made from the rows that start engines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from provision.data import engine_settings, engines, hardening, listens, nccl, profiles
from provision.data.profile_form import Flag, Profile, Setting

_HEAD = """\
# Profiles

How `kpro` starts an engine: flags, variables, and the walls of the unit. Made by `scripts/make-docs` from the rows in
`provision/data/`: correct the rows, not this page. Every flag is held against the parser of each version in the table
(`provcheck flags`, `tests/unit/flags/test_own_profiles.py`).

    Service(name="chat", engine=Engine(kind="vllm", version="0.33.0"), profile="vllm-dflash", drafter=Model(...), ...)

**The operator's flags win.** A flag in `flags=(...)` replaces the profile's own, under any spelling that the version
knows; of vLLM's `--speculative-config` single keys are replaced (`--speculative-config.num_speculative_tokens`). The
plan says what was replaced, and where it speaks against the drafter's own config.

**What a drafter decides.** `{block}` is the block size in the drafter's own `config.json`, `{drafts}` one less (the
anchor is not drafted). It is read on the controller, or where the files lie; before it can be read the plan says so and
the unit is not written, and a config without one block size is refused: both engines would draft by a default that the
drafter was not trained for.

**Several GPUs.** Unless the flags say how the model is spread, it is spread over all GPUs of the guest (tensor
parallel). Heads that do not divide are refused before anything is touched.
"""

_NCCL = """\
Nothing is set that was not measured. `provcheck nccl`, the gate of step 9, keeps its report in the guest
(`{file}`); the next plan reads it:

- `{off}=1` only where peer access is proven broken: data arrived wrong in a direct copy, or ranks hang or sum wrongly
  with peer access and are right in the same run without it. What the driver reports proves neither.
- only while driver and GPUs are those that were measured. After a repair remove the file; the next run measures again.
- one GPU: nothing is set.

These variables are passed on where the machine's own environment sets them for everybody (`/etc/environment`, or that
of the user who connects): {names}.

Ranks share memory through /dev/shm: `Guest(shm_mib=...)` sets its size, at least 1024 for several GPUs.
"""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [*lines, ""]


def _words(flag: Flag) -> str:
    return f"`{' '.join(flag.words)}`"


def _profile(profile: Profile) -> Iterator[str]:
    known = [row.version for row in engines.RELEASES if row.kind == profile.engine]
    can = [version for version in known if profile.fits(version)]
    yield f"### {profile.name} ({profile.engine})"
    yield ""
    needs = "; needs `drafter=`" if profile.drafter else ""
    yield f"{profile.text[0].upper()}{profile.text[1:]}{needs}. Versions: {', '.join(can)}. Source: {profile.source}."
    yield ""
    if profile.flags:
        yield from _table(
            ("flag", "versions", "why", "source"),
            ((_words(row), row.versions or "all", row.why, row.source) for row in profile.flags),
        )
    if profile.settings:
        yield from _settings(profile.settings)


def _settings(rows: Iterable[Setting]) -> list[str]:
    return _table(
        ("variable", "versions", "why", "source"),
        ((f"`{row.name}={row.value}`", row.versions or "all", row.why, row.source) for row in rows),
    )


def profiles_page() -> str:
    """docs/profiles.md"""
    lines = [_HEAD]
    for kind in engines.KINDS:
        lines += [f"## {kind.kind}", ""]
        lines += [f"Variables of every {kind.kind} service (`{{cache}}`: its own compile cache):", ""]
        lines += _settings(kind.environment) if kind.environment else ["none", ""]
        for profile in profiles.PROFILES:
            if profile.engine == kind.kind:
                lines += _profile(profile)
    several = engine_settings.NCCL_LOOPBACK
    lines += ["## NCCL", ""]
    names = ", ".join(f"`{name}` ({source})" for name, source in nccl.MULTICAST.items())
    lines += [_NCCL.format(file=nccl.FILE, off=nccl.OFF, names=names)]
    lines += ["With several GPUs:", "", *_settings((several,))]
    lines += ["## What is opened besides the service's address", ""]
    lines += _table(
        ("engine", "what", "where", "kept away from others by", "versions", "source"),
        ((row.engine, row.what, row.where, row.kept, row.versions, row.source) for row in listens.LISTENS),
    )
    lines += ["## The unit", "", "An empty value takes everything away.", ""]
    lines += _table(
        ("directive", "why", "source"),
        (
            (f"`{wall.name}={wall.value}`{', on loopback' if wall.loopback else ''}", wall.why, wall.source)
            for wall in hardening.WALLS
        ),
    )
    lines += ["Not set, because an engine on GPUs would not bear it:", ""]
    lines += _table(
        ("directive", "why not", "source"), ((row.name, row.why, row.source) for row in hardening.LEFT_OFF)
    )
    lines += [
        "A start is preceded by the gate (`provcheck gpus --gate`): red, no engine is started. After "
        f"{hardening.BURST} starts within a time that also counts engines which die just before they are ready, the "
        "unit stays down, and the journal has the reason. Exit codes that no restart mends "
        f"({hardening.NEVER_AGAIN}) end it at once. With systemd 254 and newer the waits grow from "
        f"{hardening.DELAY} to {hardening.LONGEST} s.",
        "",
        "## The compile cache",
        "",
        "`/var/cache/kpro/<digest>` belongs to one profile: engine with sources, lock and patches, model, drafter with "
        "what their configs say, flags, variables, GPUs, driver. A config that is corrected gets a new folder, so a "
        "graph of the old one is never taken for it. After a cut-over, folders that no unit refers to any more are "
        "removed.",
    ]
    return "\n".join(lines).rstrip("\n") + "\n"
