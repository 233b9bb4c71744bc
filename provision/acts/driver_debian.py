"""Route ``debian``: Debian's packages with DKMS, installed for every kernel of the machine. Nothing is loaded."""

from __future__ import annotations

import re
import shlex
from typing import cast

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.data.driver_packages import Flavour
from provision.data.kernels import known_failure
from provision.driver.makelog import first_error
from provision.host import apt_asked, keeping, transport
from provision.host.driver import Install
from provision.run.errors import ActFailed

_ASK = """
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
set --; missing=
{pinned}
{headers}
[ -z "$missing" ] || exit 1
"""
_OPTIONS = (
    "-q -y --no-install-recommends -o DPkg::Lock::Timeout=120 "
    "-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold"
)
_INSTALL = """
apt-get {options} install "$@" 9>&- 2>&1 || {{ echo "kpro: apt-get ended with $?"; exit 1; }}
"""
# DKMS builds for the running and the newest kernel by itself; the others are built here.
_BUILD = """
export LC_ALL=C
name=$(dkms status 2>/dev/null | grep -Eo '^nvidia-current(-open)?(/|, ){version}' | head -n 1)
name=${{name%%[/,]*}}
[ -n "$name" ] || {{ echo "dkms knows no nvidia driver {version}"; exit 1; }}
for k in {kernels}; do
  said=$(dkms status -m "$name" -v {version} -k "$k")
  case $said in *": installed"*) ;; *) dkms install -m "$name" -v {version} -k "$k" 2>&1 || exit 1 ;; esac
  said=$(dkms status -m "$name" -v {version} -k "$k")
  case $said in *": installed"*) ;; *) echo "dkms status for $k: ${{said:-nothing}}"; exit 1 ;; esac
  file=$(find "/lib/modules/$k/updates" -name "$name.ko*" | head -n 1)
  found=$(modinfo -F version "$file")
  [ "$found" = {version} ] || {{ echo "$file is version $found"; exit 1; }}
  grep -qF "/$name.ko" "/lib/modules/$k/modules.dep" || depmod "$k" || exit 1
done
grep -qsE '^install[[:space:]]+nvidia[[:space:]]' /etc/modprobe.d/*.conf ||
  for f in /etc/nvidia/nvidia-modprobe.conf "/etc/nvidia/${{name#nvidia-}}/nvidia-modprobe.conf"; do
    [ ! -e "$f" ] || {{ printf 'kpro aliases %s\\n' "$f"; break; }}
  done
"""
_ALIASES = "/etc/modprobe.d/kpro-nvidia-aliases.conf"
_MAKE_LOG = (
    "cat $(ls -t /var/lib/dkms/*/{version}/build/make.log 2>/dev/null | head -n 1) </dev/null 2>/dev/null"
)


def install(host: Host, wanted: Install, say: Voice) -> None:
    """Raises ActFailed; packages that came in a failed install are purged again."""
    ask = _ASK.format(
        pinned=apt_asked.pinned(wanted.version, cast(Flavour, wanted.flavour)),
        headers=apt_asked.HEADERS_FOR_ALL,
    )
    asked = transport.run(host, f'{ask}apt-get -s -q install --no-install-recommends "$@" 2>&1')
    if not asked.ok:
        raise ActFailed(
            f"apt would not install driver {wanted.version}, nothing was changed: "
            + "; ".join(f"{seen}. Next: {next_step}" for seen, next_step in apt_asked.explain(asked.text))
        )
    removed = re.findall(r"^Remv (\S+)", asked.text, re.MULTILINE)
    if removed:
        raise ActFailed(f"apt would now remove {', '.join(removed)}: nothing was changed")
    new = re.findall(r"^Inst (\S+) \(", asked.text, re.MULTILINE)
    if new:
        keeping.before_packages(host, say.run, new)
    say(f"driver {wanted.version}: {len(new)} packages from Debian, then DKMS compiles (minutes)")
    try:
        shell.run(host, ask + _INSTALL.format(options=_OPTIONS), f"installing driver {wanted.version}")
        build = _BUILD.format(version=wanted.version, kernels=shlex.join(wanted.kernels))
        said = shell.run(host, build, f"compiling driver {wanted.version}")
    except ActFailed as error:
        why = _why(host, wanted) or _other_package(str(error)) or str(error)
        raise ActFailed(f"{why}\n{_take_back(host, new)}") from error
    found = re.search(r"^kpro aliases (\S+)$", said, re.MULTILINE)
    if found:
        data = shell.run(host, f"cat {found[1]}", "reading Debian's module aliases").encode()
        keeping.before_file(host, say.run, _ALIASES, data)
        shell.put(host, _ALIASES, data, mode="644")


def _why(host: Host, wanted: Install) -> str | None:
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


def _take_back(host: Host, new: list[str]) -> str:
    """Purges what came: a half-configured module package would also make every later apt call fail."""
    if not new:
        return "no package was new: nothing is taken back"
    script = (
        "export LC_ALL=C DEBIAN_FRONTEND=noninteractive\n"
        f"set --; for p in {shlex.join(new)}; do "
        '! dpkg-query -W "$p" >/dev/null 2>&1 || set -- "$@" "$p"; done\n'
        '[ $# = 0 ] || dpkg --purge "$@" 9>&- 2>&1'
    )
    try:
        shell.run(host, script, "taking the packages back")
    except ActFailed as error:
        return f"the packages could not all be taken back: {error}"
    return f"the {len(new)} packages that came with it are purged again"
