"""The page of ``docs/`` about engine environments; its tables are the rows that decide. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from provision.data import engine_builds, engines

_PAGE = """\
# Engines

An engine environment is a folder of the guest, `/opt/kpro/envs/<engine>-<version>-<digest12>`. The digest
covers all that goes in: version, source, wheels, commit, lock, patches. Another content is another folder;
what is there is never changed or removed by kpro, so the way back needs no index. The plan says what is
built, from where, with which lock and patches, and how many earlier environments are kept. The tables are
rows of `provision/data/`, made by `scripts/make-docs`.

An earlier environment (`NAME` in `/opt/kpro/envs`) that no service was good with, and that no process runs from, can
go. In the guest: `grep -l /opt/kpro/envs/NAME/ /etc/systemd/system/kpro-*.service /var/lib/kpro/*/*/unit
/proc/[0-9]*/cmdline`; where that finds nothing, `rm -r /opt/kpro/envs/NAME`.

## Sources

@sources@

`uv` builds the first three with the guest's own Python and downloads none. It reads no `pip.conf`: what the
guest's pip is told by `/etc/pip.conf`, `/etc/xdg/pip/pip.conf`, the files of root, `/etc/environment` or
`PIP_*` (index, extra indexes, find-links, constraints, certificates, trusted hosts, proxy, no-index) is
handed to it for that one command. An address, which may hold a password, is written down nowhere: not in the
lock, the marker, a log or an argument. With extra indexes the best version of all of them is taken, as pip
does.

A **tree** is used as it lies there; nothing is installed. Its environment holds programs that run that
interpreter with the folders as module path, the first one first, and `kpro-env.json`. The engine must be
importable from these folders, in the version that the inventory names (`*.dist-info`). The RECORDs of its
packages, the sizes of the engine's files and the version of the interpreter are summed at each plan: a tree
that has changed since it was verified is imported anew, and the service is started and seen generating again.

## Locks

The first build settles every package with version and hashes; from then on the same environment is installed
with `--require-hashes`, on every machine of this controller. The lock lies beside the environment
(`kpro-lock.txt`) and in `$XDG_STATE_HOME/kpro/locks/<environment>.txt`. `lock="vllm.lock"` in the inventory
pins it across controllers and is part of the digest: copy a kept one. A lock that is given is the whole of
what is installed; dependencies that it does not name are not. A wheelhouse may bring its own `engine.lock`
(NAME==VERSION is enough: the wheels beside it give the hashes). Of a commit everything but the engine itself
is locked; the commit pins that.

## Patches

    engine=Engine(
        kind="vllm", version="0.20.1", source="wheel", wheelhouse="wheels/",
        patches=[Patch(file="patches/dflash-layer-ids.patch", why="vllm#40727 is in 0.22.0 only", without=["tests/"])],
    )

A patch is a unified diff with `a/` and `b/` paths, as a pull request's `.diff`: of an installed engine
relative to its packages (a leading `python/` of SGLang's repository is left out), of a commit relative to the
repository. `without` names folders that are not installed. Patches are applied in their order, all hunks or
none: every line of a hunk must stand there word for word, at the line that it names or at exactly one other
place. Nothing is guessed. What does not apply is refused with file, hunk and the line that stands there
instead; a change that the release has already is told apart, and belongs out of the list. Against a
wheelhouse this is tried on the controller before anything is touched; against an index or a commit in the new
environment, which does not count until every patch is in and the engine can be imported. RECORD is made anew,
compiled leftovers go, and the patches with their hashes and reasons stand in `kpro-env.json`.

## What is looked at first

Every reason at once, before anything is touched: the release's Python, the guest's glibc against the wheel's
tag, the driver against torch's CUDA ([drivers.md](drivers.md)), libraries that the engine links, room on the
disk; for a build from a commit also git, compilers, an nvcc of torch's CUDA major, memory. `MAX_JOBS` is as
many as memory and processors allow.
"""

_SOURCES = (
    (
        "`index`",
        '`Engine(kind="vllm", version="0.33.0")`',
        "Python, and an index that its pip or uv is set up with",
    ),
    (
        "`wheel`",
        '`wheelhouse="wheels/"`, a folder of the controller with every wheel '
        "(`pip download --dest wheels vllm==0.33.0`)",
        "Python; nothing is asked of a network",
    ),
    (
        "`git`",
        '`repository="https://…", commit="<40 hex digits>"`',
        "git, and for compiled engines compilers, cmake, ninja, nvcc, memory",
    ),
    (
        "`tree`",
        '`interpreter="/usr/bin/python3.12", folders=["/opt/site", "/opt/torch/site-packages"]`',
        "those, bound in from the machine for instance",
    ),
)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows),
        "",
    ]


def engines_page() -> str:
    lines = ["## Releases that are known", ""]
    lines += _table(
        ("engine", "version", "Python", "torch", "CUDA", "glibc", "disk", "left out", "source"),
        (
            (
                row.kind,
                row.version,
                row.python,
                row.torch or "",
                row.cuda or "none",
                ".".join(map(str, row.glibc)) if row.glibc else "its packages'",
                f"{room.gib:g} GiB, {room.cache:g} of cache ({room.source})"
                if (room := engine_builds.room(row.kind, row.version))
                else "",
                ", ".join(engine_builds.left_out(row.kind, row.version)),
                row.source,
            )
            for row in engines.RELEASES
        ),
    )
    lines += ["## Builds from a commit", ""]
    lines += _table(
        ("engine", "GiB a compiler", "GiB at least", "programs", "source"),
        (
            (
                row.kind,
                f"{row.gib_per_job:g}",
                f"{row.gib_least:g}",
                ", ".join(tool for tool, _ in row.tools),
                row.source,
            )
            for row in engine_builds.SOURCE_BUILDS
        ),
    )
    sources = "\n".join(_table(("source", "what it takes", "what it needs in the guest"), _SOURCES)).rstrip()
    return "\n".join([_PAGE.replace("@sources@", sources), *lines]).rstrip() + "\n"
