"""The pages of ``docs/`` about drivers and profiles, made from the rows that decide. Pure.

``scripts/make-docs`` writes it; a test holds the file against this function.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence

from provision.data import archives, drivers, gpu_arch, kernels
from provision.host.driver_checks.judge import JUDGES
from provision.pages_engines import engines_page
from provision.pages_migration import migration_page
from provision.pages_profiles import profiles_page

_HEAD = f"""\
# Drivers

Which NVIDIA driver fits a machine, and what speaks against putting it there. The tables are the rows that
`provision plan` decides by (last compared with their sources on {drivers.CHECKED}), made by `scripts/make-docs`:
correct the rows in `provision/data/`, not this page. `provision inspect` gives the drivers that fit each GPU.

    driver=Driver(version="580.159.04", flavour="open", route="nvidia")

A pin is a version, never a branch: user space in the containers must equal the module to the last digit. A version
without a row is refused, since a mistyped pin would show itself only with the GPUs already released. What is refused
is refused before anything is touched, all reasons at once, each with the next step; a driver that works is not refused
for its age.
"""

_ROUTES = (
    (
        "debian",
        "Debian's packages, compiled by DKMS",
        "stock Debian kernels, Turing to Ada, engines up to CUDA 12",
    ),
    (
        "nvidia",
        "NVIDIA's repository, pinned and held, compiled by DKMS",
        "everything else on Debian, Proxmox, Ubuntu",
    ),
    (
        "ubuntu",
        "Ubuntu's own modules, signed, nothing compiled",
        "Ubuntu, Secure Boot without a key of one's own",
    ),
    ("run", "NVIDIA's .run installer with DKMS", "machines that reach no archive"),
    ("prebuilt", "an archive of `provision build-driver`, nothing compiled", "many machines with one kernel"),
)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows),
        "",
    ]


def _text(text: str) -> list[str]:
    return textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False)


def _branches() -> Iterable[Sequence[str]]:
    for row in drivers.BRANCHES:
        versions = [known.version for known in drivers.DRIVERS if known.branch == row.branch]
        state = f"until {row.until}" if row.supported() else f"ended{f' {row.until}' if row.until else ''}"
        yield row.branch, row.kind, state, row.successor or "", ", ".join(versions) or "none yet", row.source


def _gpus() -> Iterable[Sequence[str]]:
    for row in (*gpu_arch.ARCHITECTURES, gpu_arch.NEWER):
        if not row.flavours:
            flavours, branches = "none of the branches above", f"up to {row.last}"
        else:
            flavours = ", then ".join(row.flavours)
            span = (f"from {row.first}" if row.first else "", f"up to {row.last}" if row.last else "")
            branches = " ".join(filter(None, span)) or "all"
        yield row.name, flavours, branches, row.source


def _kernels() -> Iterable[Sequence[str]]:
    known: list[tuple[tuple[int, int, int], Sequence[str]]] = []
    for failure in kernels.DOES_NOT_BUILD:
        scope = "and later in its series" if failure.kernel.count(".") == 2 else "and every later kernel"
        span = failure.first if failure.first == failure.last else f"{failure.first} to {failure.last}"
        row = (
            failure.kernel,
            "fails",
            f"{span} ({scope})",
            f"{failure.why}; use {failure.instead}",
            failure.source,
        )
        known.append((kernels.release(failure.kernel) or (0, 0, 0), row))
    for built in kernels.BUILDS:
        last = " and newer" if built.last is None else f" and newer of branch {built.first.split('.')[0]}"
        note = "" if built.verified else "a floor that nobody reported: compiled on trial first"
        answer = "works" if built.verified else "unknown"
        row = (built.kernel, answer, f"{built.first}{last}", note, built.source)
        known.append((kernels.release(built.kernel) or (0, 0, 0), row))
    return [row for _, row in sorted(known, key=lambda pair: pair[0])]


def drivers_page() -> str:
    """docs/drivers.md"""
    lines = [
        _HEAD,
        "## Routes",
        "",
        *_table(("route", "what it brings", "for"), _ROUTES),
        "[driver-routes.md](driver-routes.md) has what each route does, and how it is taken back.",
        "",
        "## Branches",
        "",
        *_table(
            ("branch", "kind", "looked after", "successor", "versions with a row", "source"), _branches()
        ),
        "## GPUs",
        "",
        *_text(
            "The recommended module first; the other one can be pinned. GPUs that the inventory does not name (a "
            f"console card) have no say. The proprietary module ends with branch {gpu_arch.PROPRIETARY_LAST}. Old GPUs "
            "and Blackwell together have no driver."
        ),
        "",
        *_table(("architecture", "module", "branches", "source"), _gpus()),
        "## CUDA",
        "",
        *_text(
            "An engine is refused when the driver is older than the floor of its CUDA's major version; between the "
            "floor and the driver that its CUDA was made with it runs by minor-version compatibility, without "
            "compiling PTX."
        ),
        "",
        *_table(
            ("CUDA", "driver", "source"),
            [
                *((f"{row.major}.x, the floor", row.driver, row.source) for row in drivers.CUDA_FLOORS),
                *(
                    (f"{row.cuda}{f' update {row.update}' if row.update else ''}", row.driver, row.source)
                    for row in drivers.CUDA_DRIVERS
                ),
            ],
        ),
        "## Kernels",
        "",
        *_text(
            "A driver that a kernel broke is broken on later ones too; one that compiles on a kernel compiles on older "
            "ones. Where no row reaches, the driver is compiled on trial before anything is installed."
        ),
        "",
        *_table(("kernel", "answer", "drivers", "why", "source"), _kernels()),
        "## Archives",
        "",
        *_table(
            ("system", "codename", "NVIDIA's repository", "Debian's own driver"),
            (
                (
                    f"{row.id} {row.version}{f', Proxmox VE {row.proxmox}' if row.proxmox else ''}",
                    row.codename,
                    row.repository or "none",
                    ", ".join(
                        f"{own.version} ({own.source})" for own in drivers.DEBIAN if own.suite == row.codename
                    ),
                )
                for row in archives.SUITES
            ),
        ),
        "Debian's own packages are refused where they cannot serve:",
        "",
        *_table(
            ("text", "source"), ((limit.text, limit.source) for limit in archives.DEBIAN_LIMITS.values())
        ),
        "## What is asked before an install or a boot",
        "",
        *_table(
            ("question", "refused when", "only told when"),
            ((row.question, row.refused or "never", row.told or "never") for row in JUDGES),
        ),
        "What could not be looked at is refused where something is about to change, and told where nothing is.",
        "",
        *_text(
            "**Secure Boot.** The key of DKMS is enrolled once, by hand: `mokutil --import /var/lib/dkms/mok.pub` "
            "(Ubuntu: `/var/lib/shim-signed/mok/MOK.der`; it asks for a one-time password), `reboot`, and at that boot "
            "on the console (monitor or BMC) *Enroll MOK, Continue, Yes*, the password, *Reboot*. Ubuntu's signed "
            "modules need none of it."
        ),
        "",
        *_text(
            "**Another module that fails.** `dkms status` and `/var/lib/dkms/NAME/VERSION/build/make.log` say which. "
            "Mend or remove it (`dkms remove NAME/VERSION --all`), then `dkms autoinstall` and `dpkg --configure -a`; "
            "until then stay on the kernel that works: `proxmox-boot-tool kernel pin KERNEL`. A compiler that crashes "
            "points at memory or processor."
        ),
    ]
    return "\n".join(lines) + "\n"


DOCUMENTS: dict[str, Callable[[], str]] = {
    "drivers": drivers_page,
    "profiles": profiles_page,
    "engines": engines_page,
    "migration-preflight": migration_page,
}
"""Page -> what makes it. They lie in docs/ under these names."""
