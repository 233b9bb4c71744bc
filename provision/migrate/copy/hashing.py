"""Shell text that looks at folders: lists, checksums, sizes. It runs on the source and on the target."""

from __future__ import annotations

import shlex

from provision.migrate.copy.listing import FIND
from provision.migrate.copy.model import Place

_PYTHON = """
import hashlib, os, sys
from concurrent.futures import ThreadPoolExecutor

def digest(path):
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        print(error, file=sys.stderr)
        return path, None
    hasher, block = hashlib.sha256(), bytearray(1 << 20)
    view = memoryview(block)
    with open(handle, "rb", buffering=0) as stream:
        while size := stream.readinto(block):
            hasher.update(view[:size])
    return path, hasher.hexdigest()

paths = sys.stdin.buffer.read().split(b"\\0")[:-1]
with ThreadPoolExecutor(int(sys.argv[1])) as pool:
    for path, text in pool.map(digest, paths):
        if text:
            sys.stdout.buffer.write(text.encode() + b"  " + path + b"\\0")
"""

NEXT = "/kpro//next"
"""With a NUL behind it, between the parts of an answer: no path of find holds two slashes in a row."""
SAY_NEXT = f"printf '{NEXT}\\0'"
LOW = (
    "low=; for w in 'nice -n 19' 'ionice -c 3'; do command -v ${w%% *} >/dev/null && low=\"$low $w\"; done\n"
)
"""Before a command: only what nobody else wants of processor and disk."""


def hashes(low: bool, threads: int) -> str:
    """SHA-256 of every file of the folder that is the current one, as ``sha256sum -z`` prints them. Python's hashlib is
    OpenSSL's, several times faster than coreutils' where the processor has instructions for it."""
    before = "$low " if low else ""
    program = shlex.quote(_PYTHON)
    return (
        "if python3 -c 'import hashlib, concurrent.futures' 2>/dev/null; then\n"
        f"  find . -type f -print0 | {before}python3 -I -c {program} {threads}\n"
        f"else find . -type f -print0 | {before}xargs -0r sha256sum -z --; fi"
    )


def enter(place: Place) -> str:
    """Makes a folder of the source the current one, or ends the shell in words: nothing after it runs anywhere else.

    A container's own folder is reached over its first process. Every part of the path must be a folder itself: what a
    link of the container leads to would be looked for on the machine.
    """
    path = shlex.quote(place.path)
    if place.container is None:
        return f"cd -- {path} || exit 1"
    name = shlex.quote(place.container)
    parts = " ".join(shlex.quote(part) for part in place.path.split("/") if part)
    return (
        f'p=$(lxc-info -n {name} -pH) && [ "${{p:-0}}" -gt 1 ] && cd "/proc/$p/root" || '
        f"{{ echo container {name} does not run >&2; exit 1; }}\n"
        f'for d in {parts}; do [ ! -L "$d" ] && cd -- "./$d" || '
        f'{{ echo "$d" of {path} in container {name} is no folder >&2; exit 1; }}; done'
    )


def look(place: Place) -> str:
    """Prints the folder's entries (``listing.listing``)."""
    return f"set -e\n{enter(place)}\nexec {FIND}\n"


def checksums(path: str, threads: int) -> str:
    """Prints the entries of a folder of the target, their checksums, and the entries again."""
    return f"set -e\ncd -- {shlex.quote(path)}\n{FIND}\n{SAY_NEXT}\n{hashes(False, threads)}\n{SAY_NEXT}\n{FIND}\n"


def pieces(answer: bytes, count: int) -> list[bytes] | None:
    """The parts of an answer; None when it does not have so many."""
    found = answer.split(NEXT.encode() + b"\0")
    return found if len(found) == count else None
