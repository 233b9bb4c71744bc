"""What apt says about installing a driver, asked before anything is touched. Pure: the question is a request."""

from __future__ import annotations

import json
import re

from checks.snapshot import CouldNotLook, Snapshot
from provision.data.driver_packages import PARTS
from provision.data.run_installer import Place
from provision.host import apt_question
from provision.host.apt_question import NO_REPOSITORY
from provision.plan import Refusal
from provision.spec import Driver

NAME, AUDIT = "apt-driver", "dpkg-audit"
MANIFEST = "/var/lib/kpro/manifest.json"
DEBIANS = frozenset(part.package for part in PARTS)


def requests(driver: Driver, place: Place = "host") -> list[str]:
    return [
        f"file:{MANIFEST}",
        f"cmd:{NAME}:{apt_question.question(driver, place)}",
        f"cmd:{AUDIT}:dpkg --audit",
    ]


def refusals(snapshot: Snapshot, driver: Driver, place: Place = "host") -> list[Refusal]:
    """Why apt would not install the driver; empty where it would, and where it does not know the vendor's repository
    yet. Raises CouldNotLook when it did not answer."""
    broken = _half_configured(snapshot)
    if broken:
        return broken
    code, output = snapshot.command(NAME)
    if code == 127:
        raise CouldNotLook(f"apt is not there, and route {driver.route!r} needs it")
    return [
        Refusal("machine.driver", seen, "found before anything was touched, instead of half-way", next_step)
        for seen, next_step in why_not(driver, code, output, _ours(snapshot, driver, place), place)
    ]


def _ours(snapshot: Snapshot, driver: Driver, place: Place) -> frozenset[str]:
    if place == "guest":
        return frozenset(part.package for part in apt_question.user_space(driver))
    return held_by_kpro(snapshot)


def held_by_kpro(snapshot: Snapshot) -> frozenset[str]:
    """The packages that kpro itself put on hold: with a new pin it may change them. Raises CouldNotLook."""
    return named_in_manifest(snapshot, ("hold",))


def named_in_manifest(snapshot: Snapshot, kinds: tuple[str, ...]) -> frozenset[str]:
    """The packages that kpro's changes of these kinds are about. Raises CouldNotLook."""
    text = snapshot.text(MANIFEST) if ("file", MANIFEST) in snapshot.sections else None
    try:
        changes = json.loads(text)["changes"] if text else []
        return frozenset(name for change in changes if change["kind"] in kinds for name in change["names"])
    except (ValueError, TypeError, KeyError) as error:
        raise CouldNotLook(f"{MANIFEST} is not readable: {error}") from error


def repository_is_unknown(snapshot: Snapshot) -> bool:
    """Does apt not know the vendor's repository yet? Raises CouldNotLook when it did not answer."""
    return NO_REPOSITORY in snapshot.command(NAME)[1].splitlines()


def why_not(
    driver: Driver,
    code: int,
    output: str,
    ours: frozenset[str] = frozenset(),
    place: Place = "host",
) -> list[tuple[str, str]]:
    """What speaks against the install that apt simulated (``apt-get -s``), with the next step; empty: nothing. ``ours``
    are the packages that kpro itself holds."""
    if code != 0:
        what = f"apt would not install driver {driver.version}"
        return [(f"{what}: {seen}", next_step) for seen, next_step in explain(output)]
    # apt simulates a change of held packages without a word of protest, and ends with an error when it is real.
    block = re.search(r"^The following held packages will be changed:\n((?: +.*\n)+)", output, re.MULTILINE)
    held = [name for name in (block[1].split() if block else []) if name not in ours]
    if held:
        return [
            (
                f"packages on hold are in the way of driver {driver.version}: {', '.join(held)}; somebody wants them "
                "as they are",
                f"apt-mark unhold {' '.join(held)}, where they may change (apt-mark showhold lists them)",
            )
        ]
    removed = re.findall(r"^Remv (\S+)", output, re.MULTILINE)
    if removed:
        return [
            (
                f"apt would remove {', '.join(removed)} to install driver {driver.version}; what somebody installed is "
                "not removed in passing",
                f"apt-get purge {' '.join(removed)}, where nobody needs them; else use route='prebuilt'",
            )
        ]
    compiled = [name for name in _new(output) if name.endswith("-dkms") or name.startswith("nvidia-dkms")]
    if place == "guest" and compiled:
        return [
            (
                f"apt would bring a kernel module into the container: {', '.join(compiled)}; the module is the host's",
                "set userspace='bind' or 'run' for this guest",
            )
        ]
    if driver.route == "ubuntu" and compiled:
        return [
            (
                f"apt would compile the driver ({', '.join(compiled)}) instead of taking Ubuntu's signed modules",
                "apt-get update; if it stays so, Ubuntu has no modules of this driver for the kernel: pin what "
                "apt-cache search linux-modules-nvidia lists",
            )
        ]
    mixed = [
        name
        for name, origins in _new(output).items()
        if driver.route == "nvidia" and _is_mixed(name, origins)
    ]
    if mixed:
        return [
            (
                f"apt would take {', '.join(mixed)} from Debian beside NVIDIA's packages of driver {driver.version}",
                "apt-cache policy says why; release the pin that prefers Debian's",
            )
        ]
    return []


def _new(output: str) -> dict[str, str]:
    """What apt-get -s would install: ``Inst NAME [OLD] (VERSION LABEL:VERSION/SUITE, ... [ARCHITECTURE])``, where the
    label is the archive's, and its host stands for a suite that it does not name (apt, RelStr)."""
    return dict(re.findall(r"^Inst (\S+) (?:\[\S+\] )?\(\S+ ([^)]*)\)", output, re.MULTILINE))


def _is_mixed(name: str, labels: str) -> bool:
    """Debian's archives are labelled Debian, Debian-Security, Debian Backports."""
    return name in DEBIANS and all(label.startswith("Debian") for label in labels.split(", "))


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
    headers = re.findall(
        r"Unable to locate package ((?:linux|proxmox|pve)-headers-\S+|proxmox-default-headers)", output
    )
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
