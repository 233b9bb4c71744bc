"""Shell text for single looks and steps of a copy, on the source and on the target."""

from __future__ import annotations

import shlex

from provision.hub.select import OWN
from provision.migrate.copy import hashing
from provision.migrate.copy.key import HOST, folder
from provision.migrate.copy.model import Place
from provision.migrate.copy.unit import Job

MANIFEST = OWN[0]


def write(run: str, name: str) -> str:
    """Standard input becomes a file of the run's folder, in one step."""
    path = f"{folder(run)}/{name}"
    return (
        f"set -eu; umask 077; mkdir -p -- $(dirname {path}); cat > {path}.new; mv -f -- {path}.new {path}\n"
    )


def before(run: str, number: int, source: Place) -> str:
    """Takes down what lies in a folder before it is copied, and prints it. Checksums of other files than these are
    forgotten."""
    here = f"{folder(run)}/{number}"
    return f"""set -eu
umask 077
mkdir -p -m 700 -- {here}
( {hashing.enter(source)}
  exec {hashing.find(source)} ) > {here}/before.new
cmp -s {here}/before {here}/before.new || rm -f -- {here}/sums {here}/after
mv -f -- {here}/before.new {here}/before
rm -f -- {here}/list.*
cat {here}/before
"""


def known(run: str, number: int, source: Place) -> str:
    """Prints what a folder held before the copy, its checksums, what it holds now, and its own manifest
    (``hashing.pieces``)."""
    here = f"{folder(run)}/{number}"
    return f"""set -eu
cd {here}
cat before; {hashing.SAY_NEXT}
cat sums; {hashing.SAY_NEXT}
{hashing.enter(source)}
{hashing.find(source)}; {hashing.SAY_NEXT}
[ "$root" != . ] || [ ! -f {MANIFEST} ] || [ -L {MANIFEST} ] || cat {MANIFEST}
"""


def probe(run: str, number: int) -> str:
    """Does the key do what it is for? Sends an empty folder, and nothing is written."""
    return f"""export LC_ALL=C
cd {folder(run)} && mkdir -p empty || exit 1
exec timeout 60 rsync -n -d -e 'ssh -F {folder(run)}/ssh.{number}' ./empty/ {HOST}: </dev/null
"""


def route(address: str) -> str:
    """Prints the address that this machine has on the way to another one."""
    return f"""a=$(getent ahosts {shlex.quote(address)} | head -n 1 | cut -d' ' -f1)
ip -o route get "$a" 2>/dev/null | sed -n 's/.* src \\([^ ]*\\).*/\\1/p' | head -n 1
"""


def has(run: str, name: str) -> str:
    return f"[ -e {folder(run)}/{name} ]"


def again(run: str, number: int) -> str:
    """Prints the names of files that are to be sent once more, and forgets them."""
    name = f"{folder(run)}/{number}/again"
    return f"[ ! -e {name} ] || {{ cat {name}; rm -f {name}; }}"


def sums(run: str, number: int, source: Place) -> str:
    """Takes the checksums of a folder, at low priority, where they are not taken yet."""
    here = f"{folder(run)}/{number}"
    return f"""set -eu
umask 077
[ ! -e {here}/sums ] || exit 0
{hashing.LOW}
( {hashing.enter(source)}
{hashing.hashes(source, low=True)} ) > {here}/sums.new
mv -f -- {here}/sums.new {here}/sums
"""


def pack(source: Place, job: Job) -> str:
    """Prints an archive of what standard input names, NUL after each, with the target's owners."""
    maps, options = "", ""
    for name, pairs in (("owner", job.users), ("group", job.groups)):
        if pairs:
            # tar(1): a number with a plus is no name.
            rows = " ".join(shlex.quote("+" + pair.replace(":", " +")) for pair in pairs)
            maps += f"printf '%s\\n' {rows} > $t/{name}\n"
            options += f" --{name}-map=$t/{name}"
    if source.follow:
        options += " -h"
    return f"""set -eu
export LC_ALL=C
t=$(mktemp -d /run/kpro-pack.XXXXXX)
trap 'rm -rf -- "$t"' EXIT
{maps}{hashing.enter(source)}
tar --format=posix --null --no-recursion --numeric-owner -S{options} --verbatim-files-from -T - -cf - || [ $? = 1 ]
"""
