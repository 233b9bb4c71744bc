"""A file on a host is written in one step: shell text for it."""

from __future__ import annotations

import secrets
import shlex
from typing import BinaryIO

_PUT = """\
set -u
p={path}; n={size}; m={mode}; o={owner}; t=; u=$(umask)
say() {{ printf '%s\\n' "$1" >&2; exit 1; }}
trap 'trap "" HUP INT PIPE TERM; [ -z "$t" ] || rm -f -- "$t"' EXIT
trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 141' PIPE; trap 'exit 143' TERM
[ ! -d "$p" ] || [ -L "$p" ] || say "$p is a directory"
d=$(dirname -- "$p") && [ -d "$d" ] || say "the folder $d does not exist"
t="$d/{temporary}"
umask 077; set -C; exec 3> "$t"; set +C
cat >&3 || say "the new content could not be written"
exec 3>&-
g=$(stat -c %s -- "$t") || exit 1
[ "$g" = "$n" ] || say "$g of $n bytes arrived"
if [ -f "$p" ] && [ ! -L "$p" ]; then
  # Attributes too, and access lists where the mode is kept; a file system without them has none to keep.
  k=xattr; [ -n "$m" ] || k=mode,xattr
  cp --attributes-only --preserve="$k" -- "$p" "$t" 2>/dev/null || :
  : "${{m:=$(stat -c %a -- "$p")}}" "${{o:=$(stat -c %u:%g -- "$p")}}"
fi
: "${{m:=$(printf '%o' $((0666 & ~$u)))}}"
[ -z "$o" ] || chown -- "$o" "$t" || exit 1
chmod -- "$m" "$t" || exit 1
sync -- "$t" 2>/dev/null || sync
mv -fT -- "$t" "$p" || exit 1
t=
sync -- "$d" 2>/dev/null || sync
"""


def remaining(source: BinaryIO) -> int:
    """Bytes from the current position to the end."""
    start = source.tell()
    end = source.seek(0, 2)
    source.seek(start)
    return end - start


def put_atomic_script(path: str, mode: str | None = None, owner: str | None = None, *, size: int) -> str:
    """Shell text that makes standard input, of exactly ``size`` bytes, the file ``path``.

    The bytes go to a temporary file in the same folder (0600 while they come), which is flushed to disk,
    given its owner and mode, and renamed over the target. Fewer bytes than ``size`` mean that the sender
    died: the old file stays and the temporary one is removed. Without ``mode`` or ``owner`` an existing
    file's are kept; its extended attributes are kept in any case. A directory is refused. A symbolic link is
    **replaced, not followed**: what it points to stays as it is.
    """
    # The name is known before the file exists: a signal at any moment finds it to remove.
    return _PUT.format(
        path=shlex.quote(path),
        size=size,
        mode=shlex.quote(mode or ""),
        owner=shlex.quote(owner or ""),
        temporary=f".kpro-put.{secrets.token_hex(8)}",
    )
