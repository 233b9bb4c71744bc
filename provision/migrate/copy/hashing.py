"""Shell text that looks at folders: lists, checksums, sizes. It runs on the source and on the target."""

from __future__ import annotations

import os
import shlex

from provision.migrate.copy.listing import PRINT
from provision.migrate.copy.model import Place

_PYTHON = """
import hashlib, os, sys
from concurrent.futures import ThreadPoolExecutor

def digest(path):
    try:
        handle = os.open(path, os.O_RDONLY | int(sys.argv[2]))
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


def find(place: Place) -> str:
    """Prints the entries (``listing.listing``) of what was entered."""
    return f'find {"-L " if place.follow else ""}"$root" {PRINT}'


def hashes(place: Place, *, low: bool = False, threads: int = 1) -> str:
    """SHA-256 of every file of what was entered, as ``sha256sum -z`` prints them. Python's hashlib is
    OpenSSL's, several times faster than coreutils' where the processor has instructions for it."""
    before = "$low " if low else ""
    files = f'find {"-L " if place.follow else ""}"$root" -type f -print0'
    flags = 0 if place.follow else os.O_NOFOLLOW
    return (
        "if python3 -c 'import hashlib, concurrent.futures' 2>/dev/null; then\n"
        f"  {files} | {before}python3 -I -c {shlex.quote(_PYTHON)} {threads} {flags}\n"
        f"else {files} | {before}xargs -0r sha256sum -z --; fi"
    )


def enter(place: Place) -> str:
    """Makes a folder of the source the current one, or ends the shell in words: nothing after it runs anywhere else.
    ``$root`` is what to look at from there, ``$from`` what rsync sends ``$into`` where: of a single file its folder is
    entered.

    A container's own folder is reached over its first process. Every part of the path must be a folder itself: what a
    link of the container leads to would be looked for on the machine.
    """
    path, last = shlex.quote(place.path), shlex.quote(f"./{place.name}")
    whole, single = "root=. from=./ into=${name-}/ delete=--delete", f"root={last} from={last} into= delete="
    missing = f"{{ echo {path} is not there >&2; exit 1; }}"
    if place.container is None:
        return (
            f"if [ -d {path} ]; then cd -- {path} && {whole}\n"
            f"else cd -- {shlex.quote(place.parent)} && [ -e {last} ] && {single}\nfi || {missing}"
        )
    name = shlex.quote(place.container)
    parts = " ".join(shlex.quote(part) for part in place.parent.split("/") if part)
    return (
        f'p=$(lxc-info -n {name} -pH) && [ "${{p:-0}}" -gt 1 ] && cd "/proc/$p/root" || '
        f"{{ echo container {name} does not run >&2; exit 1; }}\n"
        f'for d in {parts or "."}; do [ ! -L "$d" ] && cd -- "./$d" || '
        f'{{ echo "$d" of {path} in container {name} is no folder >&2; exit 1; }}; done\n'
        f"if [ -L {last} ]; then false\nelif [ -d {last} ]; then cd -- {last} && {whole}\n"
        f"else [ -e {last} ] && {single}\nfi || {missing}"
    )


def look(place: Place) -> str:
    """Prints the folder's entries."""
    return f"set -e\n{enter(place)}\nexec {find(place)}\n"


def checksums(path: str, threads: int) -> str:
    """Prints the entries of a folder of the target, their checksums, and the entries again."""
    there = Place(path)
    return (
        f"set -e\n{enter(there)}\n{find(there)}\n{SAY_NEXT}\n{hashes(there, threads=threads)}\n{SAY_NEXT}\n"
        f"{find(there)}\n"
    )


def pieces(answer: bytes, count: int) -> list[bytes] | None:
    """The parts of an answer; None when it does not have so many."""
    found = answer.split(NEXT.encode() + b"\0")
    return found if len(found) == count else None
