"""The page of ``docs/`` about the preflight of a migration; its tables are the rules and rows that decide. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from provision.data.migrating import BROKEN, GIB, LEAST_RSYNC, LIMITS, MIB
from provision.migrate import rules_copy, rules_machine, rules_pair, rules_service, rules_way
from provision.migrate.case import Rule
from provision.migrate.moves import STAYS

_PAGE = """\
# What is asked before a service moves

`provision migrate SOURCE TARGET` looks at both machines and at the service's container on each, one read-only
script each, before anything is touched. All that speaks against the move is listed at once, each with what was
seen, why it matters and the next step; then it ends with 3. `--dry-run` shows the same and what would be done,
and ends there. What could not be looked at is refused too: it is never taken for good. The tables are the rules
themselves, made by `scripts/make-docs`.

One cause is one reason. Where an earlier migration of the service is open, can still go back, or gave the source
up, that is told once, with the command that goes on from there, and not what only follows from it (the source does
not serve, the target does, a fence lies there). A move that was finalized is history to the one that brings the
service back. Where the target serves and the source does not, the order of the two may be wrong, and that is said.

The looks change nothing and write nothing. The source's service is asked for eight tokens, with the key of its
own process, which stands in no argument and no output.

@groups@
## Limits

@limits@
rsync older than @least@ is refused on both ends. Versions that are known to fail:

@rsync@
## What is told, and not refused

Another engine version, profile, drafter, quantisation, context length or tensor parallel size; flags and names
of variables that only one side has (never their values); GPUs of another kind or another driver; folders that
only the source's container shows; a clock that no NTP sets; one SSH host key on both machines; an rrsync that
the key's holder could lead out of its folder; a copy through the controller; a gate that could not be asked
before the target has the engine.

A source that somebody set up by hand moves too, as `provision init` wrote it down (`managed=False`, `found=…`):
its unit, its process and its model folder are compared with the inventory, links of the hub's cache are
followed. The target's container is always one that kpro may change.

With `--cold` the source must not answer anywhere ([migration.md](migration.md)): what its inventory says is
brought up on the target, from the hub, the controller or a folder of the target.

## What moves

@moves@
A file that a flag or a variable names and that lies in the source's container must be an extra path, or lie on a
folder that the target mounts: the engine would not find it else.

## What does not move

@stays@
Other services of the source, and a candidate with its verdicts, stay as well.

## How long

The time of the copy is the bytes by the rate that the way was measured with, or by the bandwidth limit; where
neither is known that is said. The downtime counts the time that requests under way have to end and, only where
extra paths move, one start of the target, from the last start that was measured of this very service.
"""

_MOVES = (
    (
        "model",
        "copied host to host, verified by a manifest, renamed into place; not where the same files lie already",
        "the source's folder of the commit that both inventories name",
    ),
    (
        "drafter",
        "the same, where the source serves with that very one",
        "else by the target's inventory: hub, folder",
    ),
    (
        "engine environment",
        "built anew from the target's lock",
        "an environment holds paths and libraries of its machine",
    ),
    (
        "unit",
        "written anew",
        "the target's inventory",
    ),
    (
        "variables",
        "written anew, mode 0600",
        "the target's inventory",
    ),
    (
        "secret",
        "by standard input, mode 0600, in no argument and no journal",
        "the controller's file (`api_key_file`)",
    ),
    (
        "baseline",
        "compared with: the target is held against the source's reading, and keeps its own",
        "`/var/lib/kpro/baselines` of the source; the inventory's figure is written anew",
    ),
    (
        "container",
        "translated: GPUs, device nodes, folders, network, memory are those of the target's inventory",
        "shown side by side",
    ),
    (
        "extra path",
        "copied while the source serves, and once more when it has stopped",
        "`Migration(extra_paths=[ExtraPath(path=…, why=…)])`",
    ),
)

_GROUPS: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("The pair of inventories", rules_pair.RULES),
    ("The machines", rules_machine.RULES),
    ("The way of the copy", rules_way.RULES),
    ("The service", rules_service.RULES),
    ("The files", rules_copy.RULES),
)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)
    return "\n".join(
        [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {row} |" for row in cells), ""]
    )


def _figure(value: float, unit: str) -> str:
    if unit != "bytes":
        return f"{value:g} {unit}"
    return f"{value / GIB:g} GiB" if value >= GIB else f"{value / MIB:g} MiB"


def _said(rule: Rule) -> tuple[str, str]:
    return rule.id, f"{rule.text} ({rule.source})" if rule.source else rule.text


def migration_page() -> str:
    """docs/migration-preflight.md"""
    groups = "\n".join(
        f"## {title}\n\n{_table(('id', 'refused where'), map(_said, rules))}" for title, rules in _GROUPS
    )
    limits = _table(
        ("limit", "value", "why", "source"),
        ((row.name, _figure(row.value, row.unit), row.why, row.source) for row in LIMITS),
    )
    rsync = _table(
        ("versions", "end", "what happens", "refused", "source"),
        (
            (
                row.named,
                "target" if row.receiver else "both",
                row.text,
                "yes" if row.refuse else "told",
                row.source,
            )
            for row in BROKEN
        ),
    )
    stays = _table(("what", "why"), ((row.what, row.why) for row in STAYS))
    page = _PAGE
    for mark, text in (
        ("groups", groups),
        ("limits", limits),
        ("least", ".".join(map(str, LEAST_RSYNC))),
        ("rsync", rsync),
        ("moves", _table(("what", "how", "where it comes from"), _MOVES)),
        ("stays", stays),
    ):
        page = page.replace(f"@{mark}@", text)
    return page
