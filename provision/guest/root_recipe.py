"""What the root of a container is made of, and the file that it is kept in on the machine. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

ROOTS = "/var/cache/kpro/roots"
"""Where the machine keeps built roots."""

PACKAGES = ("systemd-sysv", "dbus", "python3", "ca-certificates", "iproute2", "procps", "libnuma1")
"""What every guest has: an init, its bus, what the snapshot script and provcheck need, and what engines link."""

GIVEN = "given"
"""What ``<root>.carried`` holds beside a root that was built elsewhere and put there by hand: a machine that reaches no
mirror can have containers all the same."""

SCRIPT = """\
build() {{
set -u
export LC_ALL=C
folder={folder}; tar={tar}; suite={suite}; packages={packages}
say() {{ printf 'root %s: %s\\n' "$suite" "$1" >&2; }}
fail() {{ say "$1"; exit 1; }}
[ "$(id -u)" = 0 ] || fail "it is built by root only"
mkdir -p -- "$folder" || exit 1
work=
trap '[ -z "$work" ] || rm -rf -- "$work"' EXIT
trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 141' PIPE; trap 'exit 143' TERM
exec 8>>"$folder/.lock" || exit 1
flock -n 8 || {{ say "another build is under way: waiting for it"; flock 8 || exit 1; }}

# What an operator carried to a machine without a mirror is taken as it is.
if [ -f "$tar" ] && [ "$(cat -- "$tar.carried" 2>/dev/null)" = {given} ]; then
  say "given"
  printf '%s\\n' "$tar"
  exit 0
fi
eval "$(apt-config shell proxy Acquire::http::Proxy tlsproxy Acquire::https::Proxy)"
carried=$(
  for f in {carried} /usr/local/share/ca-certificates/*.crt; do
    [ ! -f "$f" ] || sha256sum -- "$f" || echo unreadable
  done
  printf '%s %s\\n' "${{proxy:-}}" "${{tlsproxy:-}}"
)
carried=$(printf %s "$carried" | sha256sum | cut -c1-16)
if [ -f "$tar" ] && [ "$(cat -- "$tar.carried" 2>/dev/null)" = "$carried" ]; then
  say "already built"
  printf '%s\\n' "$tar"
  exit 0
fi
command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing on this machine: apt-get install mmdebstrap"

work=$(mktemp -d -- "$folder/.build.XXXXXXXXXX") || exit 1
row='$(CREATED_BY)|$(ORIGIN)|$(COMPONENT)|$(RELEASE)|$(REPO_URI)'
apt-get indextargets --format "$row" > "$work/targets" || fail "apt-get indextargets fails"
grep -E '^Packages[|]Debian[|]main[|]' "$work/targets" | cut -d'|' -f4,5 | sort -u > "$work/debian"
main=$(grep -vE '^[^|]*(-|/updates)' "$work/debian" | head -n1 | cut -d'|' -f2)
[ -n "$main" ] || fail "apt knows no Debian mirror here: look at its sources, then run apt-get update"
key=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$key" ] && by="[signed-by=$key] " || by=
{{
  printf 'deb %s%s %s main\\n' "$by" "$main" "$suite"
  for what in updates security; do
    uri=$(grep -E "^[^|]*-${{what}}[|]" "$work/debian" | head -n1 | cut -d'|' -f2)
    [ -z "$uri" ] || printf 'deb %s%s %s-%s main\\n' "$by" "$uri" "$suite" "$what"
  done
}} > "$work/sources"
{{
  [ -z "${{proxy:-}}" ] || printf 'Acquire::http::Proxy "%s";\\n' "$proxy"
  [ -z "${{tlsproxy:-}}" ] || printf 'Acquire::https::Proxy "%s";\\n' "$tlsproxy"
}} > "$work/apt.conf"
cat > "$work/carry" <<'CARRY'
set -eu
for f in {carried}; do
  [ ! -f "$f" ] || install -D -m 0644 -- "$f" "$1$f"
done
for f in /usr/local/share/ca-certificates/*.crt; do
  [ ! -f "$f" ] || install -D -m 0644 -- "$f" "$1$f"
done
[ ! -x "$1/usr/sbin/update-ca-certificates" ] || chroot "$1" update-ca-certificates >&2
CARRY

say "building with $packages"
# It counts descriptors upwards in a shell that knows one digit: the locks are not for it.
mmdebstrap --mode=root --format=tar --variant=minbase --include="$packages" \\
  --aptopt="$work/apt.conf" --customize-hook="sh $work/carry \\"\\$1\\"" \\
  "$suite" "$work/root.tar" "$work/sources" >&2 8>&- 9>&- \\
  || fail "mmdebstrap fails (exit $?); its last lines above say why"
printf '%s\\n' "$carried" > "$work/carried" || exit 1
sync -- "$work/root.tar" "$work/carried" || sync
# The fingerprint goes last: without it the tarball counts as not built.
rm -f -- "$tar.carried"
mv -fT -- "$work/root.tar" "$tar" && mv -fT -- "$work/carried" "$tar.carried" || exit 1
sync -- "$folder" || sync
say "built"
printf '%s\\n' "$tar"
}}
build </dev/null
"""


def root_file(suite: str, packages: Iterable[str] = PACKAGES, folder: str = ROOTS) -> str:
    """Path of the tarball, on the machine, of a root with these packages."""
    recipe = json.dumps([suite, sorted(set(packages)), SCRIPT])
    return f"{folder}/{hashlib.sha256(recipe.encode()).hexdigest()[:16]}.tar"
