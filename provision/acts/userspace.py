"""Acts of step 7: the host's NVIDIA user space in a folder of its version, and the guest led to it."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.guest.userspace import FOLDER, LINKER, NEEDED, PROGRAM, UserSpace

_HOST = """
set -u
umask 022
export LC_ALL=C
version={version} folder={folder}
fail() {{ printf '%s\\n' "$*" >&2; exit 1; }}
mkdir -p -m 755 {parent} && chmod 755 {parent} || exit 1
new={parent}/.$version.partial old={parent}/.$version.old
rm -rf -- "$new" "$old" && mkdir -p "$new/lib" "$new/bin" || exit 1
loaded=$(grep -Eom1 '[[:space:]][0-9]{{3}}[.][0-9.]+[[:space:]]' /proc/driver/nvidia/version 2>/dev/null |
  tr -d '[:space:]')
[ -z "$loaded" ] || [ "$loaded" = "$version" ] ||
  fail "the loaded module is $loaded, user space of $version does not fit it"
# A hard link costs no disk; packages and installers replace files by renaming, so ours stay as they are.
take() {{ ln -- "$1" "$2" 2>/dev/null || cp -- "$1" "$2"; }}
# The folders of packages and installers, then where this machine's linker finds NVML and CUDA: a driver that somebody
# else put there can lie anywhere (images of GPU clouds mount it under /usr/local/nvidia).
found=$(ldconfig -p | sed -n 's/^.* => //p' | grep -E '/lib(cuda|nvidia-ml)[.]so[.]1$' |
  while read -r f; do dirname "$f"; dirname "$(readlink -f "$f")"; done | sort -u)
for d in /opt/kpro/driver/"$version"-*/lib /usr/lib/x86_64-linux-gnu/nvidia/current /usr/lib/x86_64-linux-gnu \\
  /usr/lib64 /usr/lib/x86_64-linux-gnu/nvidia $found /usr/local/nvidia/lib64; do
  for f in "$d"/lib*.so."$version"; do
    [ ! -f "$f" ] || [ -e "$new/lib/${{f##*/}}" ] || take "$(readlink -f "$f")" "$new/lib/${{f##*/}}" || exit 1
  done
done
for l in {needed}; do
  [ -e "$new/lib/$l.$version" ] || fail "this machine has no $l.$version: the driver's user space is not installed"
done
PATH=$PATH:/usr/local/nvidia/bin
smi=$(command -v nvidia-smi) && smi=$(readlink -f "$smi") || fail "this machine has no nvidia-smi"
grep -qaF "$version" "$smi" || fail "$smi is not of version $version"
take "$smi" "$new/bin/nvidia-smi" && chmod 755 "$new/bin/nvidia-smi" || exit 1
# Makes the links by the libraries' own names (SONAME).
ldconfig -n "$new/lib" || exit 1
for l in {needed}; do [ -e "$new/lib/$l" ] || ln -s "$l.1" "$new/lib/$l" || exit 1; done
[ -e "$new/lib/libcuda.so.1" ] && [ -e "$new/lib/libnvidia-ml.so.1" ] || fail "ldconfig made no links in $new/lib"
(cd "$new" && find bin lib ! -type d | sort | xargs -d '\\n' stat -c '%s %n') >"$new.files" &&
  mv -- "$new.files" "$new/files" && sync -f "$new" || exit 1
[ ! -e "$folder" ] || mv -T -- "$folder" "$old" || exit 1
mv -T -- "$new" "$folder" && sync {parent} && rm -rf -- "$old"
"""

_GUEST = """
set -u
export LC_ALL=C
[ -e {inside}/files ] || {{
  echo "{inside} is not there: the container runs without the mount of its configuration; restart it" >&2
  exit 1
}}
if [ -e {program} ] || [ -L {program} ]; then
  case $(readlink {program}) in
    /opt/kpro/nvidia/*) ;;
    *) echo "{program} is there and not kpro's: remove it first" >&2; exit 1 ;;
  esac
fi
ln -snf {inside}/bin/nvidia-smi {program}.kpro && mv -fT {program}.kpro {program} && ldconfig -i || exit 1
for l in {needed}; do
  first=$(ldconfig -p | sed -n "s|^[[:space:]]*$l\\.1 .* => ||p" | head -n 1)
  [ "$first" = "{inside}/lib/$l.1" ] || {{ echo "the linker takes ${{first:-no}} $l.1" >&2; exit 1; }}
done
"""


def host(machine: Host, wanted: UserSpace, say: Voice) -> None:
    """The folder is there whole, or not at all. Raises ActFailed."""
    script = _HOST.format(
        version=shlex.quote(wanted.version), folder=wanted.folder, parent=FOLDER, needed=" ".join(NEEDED)
    )
    shell.run(machine, script, f"making the user space of driver {wanted.version}")


def guest(inside: Host, wanted: UserSpace, say: Voice) -> None:
    """Raises ActFailed."""
    shell.put(inside, LINKER, wanted.linker.encode(), mode="644")
    script = _GUEST.format(inside=wanted.inside, program=PROGRAM, needed=" ".join(NEEDED))
    shell.run(inside, script, f"leading the linker to driver {wanted.version}")
