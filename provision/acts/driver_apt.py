"""Routes that end in packages: apt is asked, what was there is kept, packages come, modules are compiled or checked for
every kernel, and the driver's packages are held. Nothing is loaded."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from pyinfra.api.host import Host

from provision.acts import driver_hold, driver_trial, shell
from provision.acts.voice import Voice
from provision.data import driver_routes
from provision.data.kernels import known_failure
from provision.data.run_installer import Place
from provision.driver.makelog import first_error
from provision.host import apt_asked, apt_question, keeping, transport
from provision.host.driver import Install
from provision.run.errors import ActFailed
from provision.spec import Driver

# What others hold was asked about before; what kpro holds itself a new pin may change.
OPTIONS = (
    "-q -y --no-install-recommends --allow-downgrades --allow-change-held-packages -o DPkg::Lock::Timeout=120 "
    "-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold"
)
PREFERENCES = "/etc/apt/preferences.d/kpro-nvidia.pref"

INSTALL = """
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
set --; missing=
{packages}
[ -z "$missing" ] || exit 1
[ $# = 0 ] || apt-get {options} install "$@" 9>&- 2>&1 || {{ echo "kpro: apt-get ended with $?"; exit 1; }}
"""
# DKMS builds for the running and the newest kernel by itself; the others are built here.
BUILD = """
export LC_ALL=C
name=$(dkms status 2>/dev/null | grep -Eo '^nvidia[a-z0-9-]*(/|, ){version}' | head -n 1)
name=${{name%%[/,]*}}
[ -n "$name" ] || {{ echo "dkms knows no nvidia driver {version}"; exit 1; }}
for k in {kernels}; do
  said=$(dkms status -m "$name" -v {version} -k "$k")
  case $said in *": installed"*) ;; *) dkms install -m "$name" -v {version} -k "$k" 2>&1 || exit 1 ;; esac
  said=$(dkms status -m "$name" -v {version} -k "$k")
  case $said in *": installed"*) ;; *) echo "dkms status for $k: ${{said:-nothing}}"; exit 1 ;; esac
  file=$(find "/lib/modules/$k/updates" -name "$name.ko*" -o -name 'nvidia.ko*' | head -n 1)
  found=$(modinfo -F version "$file")
  [ "$found" = {version} ] || {{ echo "$file is version $found"; exit 1; }}
  file=${{file##*/}}
  grep -qF "/${{file%%.ko*}}.ko" "/lib/modules/$k/modules.dep" || depmod "$k" || exit 1
done
"""
_CHECK = """
export LC_ALL=C
for k in {kernels}; do
  found=$(modinfo -k "$k" -F version nvidia 2>&1)
  [ "$found" = {version} ] || {{ echo "the module for kernel $k is version $found, not {version}"; exit 1; }}
done
"""
_MAKE_LOG = (
    "cat $(ls -t /var/lib/dkms/*/{version}/build/make.log 2>/dev/null | head -n 1) </dev/null 2>/dev/null"
)


@dataclass(frozen=True)
class Coming:
    """What apt would put: packages that were absent, those of another version with the one they have, and all of them
    as NAME=VERSION."""

    new: tuple[str, ...]
    changed: tuple[tuple[str, str], ...]
    exact: tuple[str, ...]


def install(host: Host, wanted: Install, say: Voice) -> str:
    """What the compile said. Raises ActFailed; packages that came in a failed install are purged again."""
    driver = Driver(version=wanted.version, flavour=wanted.flavour, route=wanted.route)
    coming = ask(host, driver)
    driver_trial.compile_first(host, wanted, coming.exact, say)
    if coming.new:
        keeping.before_packages(host, say.run, coming.new)
    if driver.route == "nvidia":
        data = driver_routes.preferences(driver.version).encode()
        keeping.before_file(host, say.run, PREFERENCES, data)
    compiled = driver.route != "ubuntu"
    where = {"debian": "Debian", "nvidia": "NVIDIA's repository", "ubuntu": "Ubuntu"}[driver.route]
    say(
        f"driver {wanted.version}: {len(coming.new)} packages from {where}"
        + (", then DKMS compiles (minutes)" if compiled else "")
    )
    try:
        if driver.route == "nvidia":
            pin(host, driver)
        script = INSTALL.format(packages=apt_question.packages(driver), options=OPTIONS)
        shell.run(host, script, f"installing driver {wanted.version}")
        check = (BUILD if compiled else _CHECK).format(
            version=wanted.version, kernels=shlex.join(wanted.kernels)
        )
        what = f"{'compiling' if compiled else 'checking'} driver {wanted.version}"
        said = shell.run(host, check, what)
        driver_hold.hold_driver(host, driver, say)
    except ActFailed as error:
        cause = why(host, wanted) or _other_package(str(error)) or str(error)
        raise ActFailed(f"{cause}\n{take_back(host, coming.new)}") from error
    return said


def ask(host: Host, driver: Driver, place: Place = "host") -> Coming:
    """Asks apt on the host what it would do. Raises ActFailed when that is not what is wanted."""
    asked = transport.run(host, apt_question.simulated(driver, place))
    # In a guest, what is held of the driver kpro holds.
    parts = {part.package for part in apt_question.user_space(driver)} if place == "guest" else set()
    ours = frozenset(parts) if parts else _held_by_kpro(host)
    against = apt_asked.why_not(driver, asked.rc, asked.text, ours, place)
    if against:
        raise ActFailed(
            "nothing was changed: " + "; ".join(f"{seen}. Next: {next_step}" for seen, next_step in against)
        )
    changed = re.findall(r"^Inst (\S+) \[(\S+)\] \(", asked.text, re.MULTILINE)
    exact = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", asked.text, re.MULTILINE)
    return Coming(
        tuple(re.findall(r"^Inst (\S+) \(", asked.text, re.MULTILINE)),
        tuple(changed),
        tuple(f"{name}={version}" for name, version in exact),
    )


def _held_by_kpro(host: Host) -> frozenset[str]:
    changes = keeping.changes_on(host)
    return frozenset(name for change in changes if change.kind == "hold" for name in change.names)


def pin(host: Host, driver: Driver, place: Place = "host") -> None:
    """The pins first, then the vendor's own pinning package, then apt is asked again with both in place."""
    shell.put(host, PREFERENCES, driver_routes.preferences(driver.version).encode(), mode="644")
    script = INSTALL.format(packages=apt_question.pinning(driver), options=OPTIONS)
    shell.run(host, script, f"pinning driver {driver.version}")
    ask(host, driver, place)


def why(host: Host, wanted: Install) -> str | None:
    """The compiler's first error line, when the compile is what failed."""
    log = transport.run(host, _MAKE_LOG.format(version=shlex.quote(wanted.version))).text
    if not log.strip() or "error" not in log.lower():
        return None
    rows = [known_failure(wanted.version, kernel) for kernel in wanted.kernels]
    row = next((row for row in rows if row), None)
    cause = f" Known: {row.why} ({row.source}). Next: {row.instead}" if row else ""
    return f"driver {wanted.version} does not compile: {first_error(log)}.{cause}"


def _other_package(said: str) -> str | None:
    """dpkg's list of what failed, when none of it is the driver's."""
    listed = re.search(r"Errors were encountered while processing:\n((?:\s+[a-z0-9][a-z0-9+.:-]+\n)+)", said)
    names = listed[1].split() if listed else []
    if not names or any("nvidia" in name or name == "dkms" for name in names):
        return None
    return (
        f"the step of another package failed: {', '.join(names)}; the driver's own did not. Next: dpkg --configure -a "
        f"says why\n{said}"
    )


def take_back(host: Host, new: tuple[str, ...]) -> str:
    """Purges what came: a half-configured module package would also make every later apt call fail."""
    if not new:
        return "no package was new: nothing is taken back"
    script = (
        "export LC_ALL=C DEBIAN_FRONTEND=noninteractive\n"
        f"set --; for p in {shlex.join(new)}; do "
        '! dpkg-query -W "$p" >/dev/null 2>&1 || set -- "$@" "$p"; done\n'
        '[ $# = 0 ] || { apt-mark -qq unhold "$@" >/dev/null; dpkg --purge "$@" 9>&- 2>&1; }'
    )
    try:
        shell.run(host, script, "taking the packages back")
    except ActFailed as error:
        return f"the packages could not all be taken back: {error}"
    return f"the {len(new)} packages that came with it are purged again"
