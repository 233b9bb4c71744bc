"""On the target: from the folder that a run gathers in to the place, in one step, and back."""

from __future__ import annotations

import shlex

from provision.migrate.copy.model import RECORDS, Place


def record(run: str) -> str:
    """Folder of what the run put in place: for each folder its number, ``<number>.placed``."""
    return f"{RECORDS}/{run}.copy"


def gather(place: Place, run: str) -> str:
    """Makes the folder that is gathered in. Nobody but root looks into it."""
    parent, incoming = shlex.quote(place.parent), shlex.quote(place.incoming(run))
    return f"""set -eu
umask 077
[ -d {parent} ] || {{ umask 022; mkdir -p -- {parent}; umask 077; }}
mkdir -p -m 700 -- {shlex.quote(f"{place.parent.rstrip('/')}/.incoming")} {incoming}
[ "$(stat -c %d -- {parent})" = "$(stat -c %d -- {incoming})" ] ||
  {{ echo {incoming}" lies on another file system than "{parent} >&2; exit 1; }}
[ ! -L {incoming} ] && : > {incoming}/.write && rm -f -- {incoming}/.write
"""


def state(place: Place, run: str, number: int) -> str:
    """Prints ``placed`` (by this run, and still that folder), ``there`` (by somebody else) or ``absent``, then
    ``staged`` or ``empty``."""
    path, kept = shlex.quote(place.path), f"{record(run)}/{number}.placed"
    return f"""if [ -e {path} ] || [ -L {path} ]; then
  if [ "$(cat {kept} 2>/dev/null | head -n 1)" = "$(stat -c %d:%i -- {path})" ]; then echo placed; else echo there; fi
else echo absent; fi
if [ -e {shlex.quote(place.staging(run))} ]; then echo staged; else echo empty; fi
"""


def put(place: Place, run: str, number: int) -> str:
    """Renames the gathered folder to its place. What stood there is kept beside it, for the way back."""
    path, staging = shlex.quote(place.path), shlex.quote(place.staging(run))
    old, parent = shlex.quote(f"{place.incoming(run)}.before/{number}"), shlex.quote(place.parent)
    kept = record(run)
    return f"""set -eu
umask 077
[ -e {staging} ] || {{ echo "nothing was gathered in "{staging} >&2; exit 1; }}
sync -f -- {staging}
mkdir -p -m 700 -- {kept}
id=$(stat -c %d:%i -- {staging})
if [ -e {path} ]; then
  [ ! -L {path} ] && ! mountpoint -q {path} ||
    {{ echo {path}" is a link or a mount and cannot be put aside" >&2; exit 1; }}
  [ ! -e {old} ] || {{ echo {old}" is there already" >&2; exit 1; }}
  mkdir -p -m 700 -- {shlex.quote(f"{place.incoming(run)}.before")}
  printf '%s\\n%s\\n' "$id" {path} > {kept}/{number}.new && sync {kept}/{number}.new
  mv -f {kept}/{number}.new {kept}/{number}.placed && sync {kept}
  mv -T -- {path} {old}
else
  printf '%s\\n%s\\n' "$id" {path} > {kept}/{number}.new && sync {kept}/{number}.new
  mv -f {kept}/{number}.new {kept}/{number}.placed && sync {kept}
fi
mv -nT -- {staging} {path}
[ ! -e {staging} ] || {{ echo {path}" was made by somebody else in between" >&2; exit 1; }}
sync -- {parent}
"""


def take(place: Place, run: str, number: int) -> str:
    """Undo of ``put``: removes the folder that this run brought, and no other, and gives back what stood there."""
    path, kept = shlex.quote(place.path), f"{record(run)}/{number}.placed"
    parent = shlex.quote(place.parent)
    old = shlex.quote(f"{place.incoming(run)}.before/{number}")
    gone = shlex.quote(f"{place.incoming(run)}.gone.{number}")
    return f"""set -eu
umask 077
rm -rf --one-file-system -- {gone}
if [ -e {kept} ]; then
  if [ -e {path} ] && [ ! -L {path} ] && [ "$(head -n 1 {kept})" = "$(stat -c %d:%i -- {path})" ]; then
    mkdir -p -m 700 -- {shlex.quote(f"{place.parent.rstrip('/')}/.incoming")}
    mv -T -- {path} {gone} && sync -- {parent}
  fi
  if [ -e {old} ]; then
    [ ! -e {path} ] ||
      {{ echo {path}" is not what this run brought; what stood there is in "{old} >&2; exit 1; }}
    mv -T -- {old} {path} && sync -- {parent}
  fi
  rm -rf --one-file-system -- {gone}
  rm -f -- {kept}
fi
rmdir -- {shlex.quote(f"{place.incoming(run)}.before")} 2>/dev/null || true
"""


def back(place: Place, run: str) -> str:
    """Renames a folder that this run brought back to where it is gathered."""
    path, staging = shlex.quote(place.path), shlex.quote(place.staging(run))
    return f"""set -eu
[ ! -e {staging} ] || {{ echo {staging}" is there already" >&2; exit 1; }}
mv -T -- {path} {staging} && sync -- {shlex.quote(place.parent)}
"""


def clear(place: Place, run: str) -> str:
    """Removes what is gathered and not put in place."""
    incoming = shlex.quote(place.incoming(run))
    return f"""set -eu
rm -rf --one-file-system -- {incoming}
rmdir -- {shlex.quote(f"{place.parent.rstrip('/')}/.incoming")} 2>/dev/null || true
"""


def forget(place: Place, run: str, number: int) -> str:
    """When there is no way back any more: what stood at the place before, and the record of it."""
    before = shlex.quote(f"{place.incoming(run)}.before")
    return f"""set -eu
rm -rf --one-file-system -- {before}/{number}
rmdir -- {before} {shlex.quote(f"{place.parent.rstrip('/')}/.incoming")} 2>/dev/null || true
rm -f -- {record(run)}/{number}.placed {record(run)}/{number}.seen {record(run)}/{number}.source
rmdir -- {record(run)} 2>/dev/null || true
"""


def free(place: Place) -> str:
    """Prints free bytes and inodes."""
    return f"df -B1 --output=avail,iavail -- {shlex.quote(place.parent)} | tail -n 1"
