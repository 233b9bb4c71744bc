"""What apt says about installing a driver, asked before anything is touched. Pure: the question is a request."""

from __future__ import annotations

import re

from checks.snapshot import CouldNotLook, Snapshot
from provision.data.driver_packages import Flavour, parts
from provision.plan import Refusal

NAME, AUDIT = "apt-driver", "dpkg-audit"
HEADERS_FOR_ALL = (
    "for b in /boot/vmlinuz-*; do k=${b#/boot/vmlinuz-}; "
    '[ ! -d "/lib/modules/$k" ] || set -- "$@" "linux-headers-$k"; done; '
    '! dpkg-query -W linux-image-amd64 >/dev/null 2>&1 || set -- "$@" linux-headers-amd64'
)
"""Headers for every installed kernel, and the package that brings them for the next one."""


def pinned(version: str, flavour: Flavour) -> str:
    """Shell text that appends to ``$@`` the packages of a driver with their exact versions, as apt-get wants them."""
    known = "apt-cache madison \"$p\" | cut -d'|' -f2 | tr -d ' '"
    escaped = version.replace(".", "[.]")
    exact = " ".join(part.package for part in parts(flavour) if part.exact)
    other = " ".join(part.package for part in parts(flavour) if not part.exact)
    optional = " ".join(part.package for part in parts(flavour) if not part.needed)
    return (
        f"for p in {exact}; do v=$({known} | grep -Em1 '^([0-9]+:)?{escaped}-'); "
        f'if [ -n "$v" ]; then set -- "$@" "$p=$v"; else case " {optional} " in *" $p "*) ;; '
        f"*) printf 'kpro: no %s %s, there is: %s\\n' \"$p\" {version} "
        f"\"$({known} | sort -u | tr '\\n' ' ')\"; missing=1 ;; esac; fi; done; "
        f'set -- "$@" dkms {other}'
    )


def requests(version: str, flavour: Flavour) -> list[str]:
    """Asks apt only where the kernel module's package is not installed yet in this version (it takes seconds)."""
    kernel = next(part.package for part in parts(flavour) if part.what == "kernel")
    script = (
        f"have=$(dpkg-query -W -f '${{db:Status-Abbrev}}${{Version}}' {kernel} 2>/dev/null); "
        f'case $have in "ii "{version}-*|"ii "*:{version}-*) echo "kpro: installed"; exit 0 ;; esac; '
        f"set --; missing=; {pinned(version, flavour)}; {HEADERS_FOR_ALL}; "
        '[ -z "$missing" ] || exit 1; apt-get -s -q install --no-install-recommends "$@" 2>&1'
    )
    return [f"cmd:{NAME}:{script}", f"cmd:{AUDIT}:dpkg --audit"]


def refusals(snapshot: Snapshot, version: str) -> list[Refusal]:
    """Why apt would not install the driver; empty where it would. Raises CouldNotLook when it did not answer."""
    broken = _half_configured(snapshot)
    if broken:
        return broken
    code, output = snapshot.command(NAME)
    if code == 0:
        removed = re.findall(r"^Remv (\S+)", output, re.MULTILINE)
        if not removed:
            return []
        return [
            Refusal(
                "machine.driver",
                f"apt would remove {', '.join(removed)} to install driver {version}",
                "what somebody installed is not removed in passing",
                "remove them yourself, or use route='prebuilt'",
            )
        ]
    if code == 127:
        raise CouldNotLook("apt is not there, and route 'debian' needs it")
    found = explain(output)
    return [
        Refusal(
            "machine.driver",
            f"apt would not install driver {version}: {seen}",
            "found before anything was touched, instead of half-way",
            next_step,
        )
        for seen, next_step in found
    ]


def _half_configured(snapshot: Snapshot) -> list[Refusal]:
    """A package that somebody left half-configured makes every apt call fail (dpkg(1), --audit: names are indented by
    one space)."""
    code, output = snapshot.command(AUDIT)
    names = re.findall(r"^ (\S+)", output, re.MULTILINE)
    if code == 0 and not names:
        return []
    return [
        Refusal(
            "machine.driver",
            f"packages are half-configured: {', '.join(names) or output.strip()[:200]}",
            "every call of apt would fail on them, in the middle of the driver's install too",
            "dpkg --configure -a says why; repair what it names, then run again",
        )
    ]


def explain(output: str) -> list[tuple[str, str]]:
    """What apt's refusal means, and the next step, one for each cause."""
    causes: list[tuple[str, str]] = []
    gone = re.findall(r"^kpro: no (\S+) (\S+), there is: (.*)$", output, re.MULTILINE)
    if gone:
        names = ", ".join(name for name, _, _ in gone)
        there = sorted({version for _, _, text in gone for version in text.split()})
        causes.append(
            (
                f"its sources have no {names} of that version; they have {', '.join(there) or 'none at all'}",
                "pin what the suite carries, or use route='prebuilt'"
                if there
                else "add contrib, non-free and non-free-firmware to apt's sources, then apt-get update",
            )
        )
    headers = re.findall(r"Unable to locate package (linux-headers-\S+)", output)
    if headers:
        causes.append(
            (
                f"there are no {', '.join(headers)} any more, and without headers nothing compiles for that kernel",
                "apt-get update; if it stays so, install a newer kernel, boot it and remove the old one",
            )
        )
    skew = _skew(output)
    if skew:
        causes.append(
            (
                "versions of two archives do not fit together: " + "; ".join(skew),
                "wait until the suite's archives agree, leave one out of apt's sources, or use route='prebuilt'",
            )
        )
    held = re.search(r"you have held broken packages|held packages were changed", output)
    if held and not skew:
        causes.append(
            (
                "packages are held or broken",
                "apt-mark showhold; dpkg --audit; release or repair what they name",
            )
        )
    if not causes:
        lines = [line for line in output.splitlines() if line.startswith("E:")] or output.splitlines()[-2:]
        causes.append((" / ".join(lines) or "it gave no reason", "run apt-get update, look at apt's sources"))
    return causes


def _skew(output: str) -> list[str]:
    """``A : Depends: B (= 1) but 2 is to be installed`` in a few words."""
    pattern = r"^\s*(\S+) : (?:Pre-)?Depends: (\S+) \(= (\S+?)\) but (\S+) is to be installed"
    rows = re.findall(pattern, output, re.MULTILINE)
    return [f"{who} needs {what} {wanted}, apt would take {other}" for who, what, wanted, other in rows]
