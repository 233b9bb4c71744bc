"""Route ``run``: NVIDIA's own installer, with DKMS for every kernel. Nothing is loaded."""

from __future__ import annotations

import re
import shlex

from pyinfra.api.host import Host

from provision.acts import driver_apt, shell
from provision.acts.voice import Voice
from provision.data.run_installer import LOG, ROOM_MB, UNINSTALL, Place, file_name, flags
from provision.driver.installer import Installer
from provision.host import apt_question, keeping, transport
from provision.host.driver import Install
from provision.run.errors import ActFailed
from provision.spec import Driver

FOLDER = "/var/lib/kpro/prebuilt"

# The installer unpacks itself; a /tmp that runs nothing, or is too small, is passed by.
_RUN = """
set -u
export LC_ALL=C
fail() {{ printf '%s\\n' "$*" >&2; exit 1; }}
f={file}
sum=$(sha256sum <"$f") && [ "${{sum%% *}}" = {digest} ] || fail "$f has not the sha256 {digest}"
for d in /tmp /var/tmp {folder}; do
  t=$d/kpro-run.$$
  mkdir -m 700 "$t" 2>/dev/null || continue
  printf '#!/bin/sh\\n' >"$t/x" && chmod 700 "$t/x"
  room=$(df -Pk "$t" | sed -n '2s/^[^ ]* *[0-9]* *[0-9]* *\\([0-9]*\\).*/\\1/p')
  [ "${{room:-0}}" -lt {room} ] || ! "$t/x" 2>/dev/null || break
  rm -rf "$t" && t=
done
[ -n "${{t:-}}" ] || fail "neither /tmp nor /var/tmp nor {folder} can run programs and has {room_mb} MiB free"
trap 'trap "" HUP INT TERM; rm -rf "$t"' EXIT
trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 143' TERM
known=$(sh "$f" --tmpdir="$t" --advanced-options 2>&1) || fail "$f does not say its options: $known"
set -- --tmpdir="$t"
{flags}
{more}
TMPDIR=$t sh "$f" "$@" </dev/null 9>&- 2>&1
code=$?
[ $code = 0 ] || {{ echo "kpro: the installer ended with $code"; tail -n 40 {log} 2>/dev/null; exit 1; }}
"""
_OLDER = 'case $known in *"{name}"*) set -- "$@" {flag} ;; *) set -- "$@" {older} ;; esac'
# The compiler of the kernel and the machine's differ: the installer would stop there, and DKMS does not.
_COMPILER = """
k=$(sed -n 's/.*gcc[^0-9]*[^)]*) \\([0-9]*\\)[.].*/\\1/p' /proc/version | head -n 1) g=$(gcc -dumpversion 2>/dev/null)
[ -z "$k" ] || [ "$k" = "${g%%.*}" ] || set -- "$@" --no-cc-version-check
"""
_KEYS = """
if [ -e /var/lib/dkms/mok.key ] && [ -e /var/lib/dkms/mok.pub ]; then
  set -- "$@" --module-signing-secret-key=/var/lib/dkms/mok.key --module-signing-public-key=/var/lib/dkms/mok.pub
fi
"""
_AWAY = f"[ ! -x {UNINSTALL} ] || {UNINSTALL} --silent </dev/null 9>&- 2>&1"


def install(host: Host, wanted: Install, say: Voice) -> None:
    """Raises ActFailed; what the installer and the packages that it needs left is then gone again."""
    assert wanted.installer is not None, "planned with its installer"
    driver = Driver(version=wanted.version, flavour=wanted.flavour, route="run")
    coming = driver_apt.ask(host, driver)
    if coming.new:
        keeping.before_packages(host, say.run, coming.new)
    try:
        script = driver_apt.INSTALL.format(packages=apt_question.packages(driver), options=driver_apt.OPTIONS)
        shell.run(host, script, "installing what the installer compiles with")
        bring(host, wanted.installer, FOLDER, say)
        keeping.before_installer(host, say.run, wanted.version)
        say(f"driver {wanted.version}: NVIDIA's installer compiles (minutes), log {LOG}")
        more = _COMPILER + (_KEYS if wanted.signed else "")
        run_installer(host, wanted.installer, "host", wanted.flavour, FOLDER, more)
        build = driver_apt.BUILD.format(version=wanted.version, kernels=shlex.join(wanted.kernels))
        shell.run(host, build, f"compiling driver {wanted.version} for every kernel")
        shell.run(host, f"rm -f {FOLDER}/{file_name(wanted.version)}", "removing the installer")
    except ActFailed as error:
        transport.run(host, f"rm -f {FOLDER}/{file_name(wanted.version)}")
        why = driver_apt.why(host, wanted) or str(error)
        gone = transport.run(host, shell.BUSY_PREFIX + _AWAY)
        undone = "" if gone.ok else f"; nvidia-uninstall failed: {gone.error_text or gone.text[-300:]}"
        raise ActFailed(f"{why}\n{driver_apt.take_back(host, coming.new)}{undone}") from error


def bring(host: Host, installer: Installer, folder: str, say: Voice) -> None:
    """Puts the installer there unless the same one is there. Raises ActFailed."""
    path = f"{folder}/{file_name(installer.version)}"
    seen = shell.run(
        host, f"mkdir -p -m 700 {folder} && sha256sum <{path} 2>/dev/null || :", "looking for the installer"
    )
    if seen.split()[:1] != [installer.digest]:
        say(f"driver {installer.version}: putting its installer")
        shell.put_file(host, installer.path, path, mode="600", say=say)


def run_installer(
    host: Host, installer: Installer, place: Place, flavour: str, folder: str, more: str = ""
) -> None:
    """Raises ActFailed with what the installer's log says."""
    lines = []
    for flag, older in flags(place, flavour):
        name = flag.partition("=")[0]
        lines.append(_OLDER.format(name=name, flag=flag, older=older) if older else f'set -- "$@" {flag}')
    script = _RUN.format(
        file=shlex.quote(f"{folder}/{file_name(installer.version)}"),
        digest=installer.digest,
        folder=folder,
        room=ROOM_MB * 1024,
        room_mb=ROOM_MB,
        flags="\n".join(lines),
        more=more,
        log=LOG,
    )
    try:
        shell.run(host, script, f"running the installer of driver {installer.version}")
    except ActFailed as error:
        said = re.findall(r"ERROR: (.+)", str(error))
        reason = "; ".join(dict.fromkeys(line.strip() for line in said))
        raise ActFailed(
            f"NVIDIA's installer refused: {reason}. Its log is {LOG}\n{error}" if reason else str(error)
        ) from error
