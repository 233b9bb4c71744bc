"""NVIDIA's network repository is added: keyring fetched and proven, package lists read, apt asked. All of it, or the
machine is as it was."""

from __future__ import annotations

import base64
import re
import shlex

from pyinfra.api.host import Host

from provision.acts import driver_apt, shell
from provision.acts.voice import Voice
from provision.data.driver_routes import MACHINES, VENDOR
from provision.data.run_installer import Place
from provision.host import keeping
from provision.host.driver_repository import KEYRING_PACKAGE, AddRepository, wrong_keyring
from provision.run.errors import ActFailed

_WORK = "/var/lib/kpro/keyring"

# apt's own helper: the machine's settings of proxy and certificates hold, and neither curl nor wget is needed.
_FETCH = """
export LC_ALL=C
umask 077
a=$(dpkg --print-architecture)
case $a in {machines} *) echo "there is no repository for $a"; exit 1 ;; esac
rm -rf {work} && mkdir -p {work} && cd {work} || exit 1
/usr/lib/apt/apt-helper -q download-file "{address}/$m/{keyring}" {work}/keyring.deb 2>&1 || exit 1
[ "$(dpkg-deb -f keyring.deb Package)" = {package} ] || {{ echo "it is no {package}"; exit 1; }}
mkdir x && dpkg-deb -x keyring.deb x 2>&1 || exit 1
printf 'address %s\\n' "{address}/$m"
find x ! -type d | sed 's/^x/path /'
cat x/usr/share/keyrings/* 2>/dev/null | base64 -w0 | sed 's/^/keys /'; echo
for f in x/etc/apt/sources.list.d/*; do [ ! -e "$f" ] || sed 's/^/source /' "$f"; done
"""
# Only this source is read: what is wrong with another one is not this step's.
_ADD = """
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
dpkg -i {work}/keyring.deb 9>&- 2>&1 || exit 1
list=$(dpkg -L {package} | grep '^/etc/apt/sources.list.d/' | head -n 1)
apt-get -q update -o Dir::Etc::sourcelist="$list" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 \\
  -o APT::Update::Error-Mode=any -o Acquire::AllowInsecureRepositories=false \\
  -o Acquire::AllowWeakRepositories=false -o Acquire::AllowDowngradeToInsecureRepositories=false \\
  -o DPkg::Lock::Timeout=120 9>&- 2>&1
"""
_REMOVE = """
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
! dpkg-query -W {package} >/dev/null 2>&1 || dpkg --purge {package} 9>&- 2>&1 || exit 1
rm -f /var/lib/apt/lists/*{mark}* && rm -rf {work}
"""


def add(host: Host, wanted: AddRepository, say: Voice) -> None:
    """Raises ActFailed with every reason; the source is then gone again."""
    keeping.before_packages(host, say.run, [KEYRING_PACKAGE])
    add_to(host, wanted, "host")


def add_to(host: Host, wanted: AddRepository, place: Place) -> None:
    """As ``add``; a guest keeps no account of changes."""
    address = wanted.address
    try:
        address = _prove(host, wanted)
        script = _ADD.format(work=_WORK, package=KEYRING_PACKAGE)
        shell.run(host, script, "reading the lists of NVIDIA's repository")
        driver_apt.ask(host, wanted.driver, place)
        shell.run(host, f"rm -rf {_WORK}", "removing what was fetched")
    except ActFailed as error:
        # apt names its lists by the address without the scheme, with _ for every slash.
        mark = re.sub(r"^[a-z]+://", "", address).replace("/", "_")
        script = _REMOVE.format(package=KEYRING_PACKAGE, work=_WORK, mark=shlex.quote(mark))
        shell.run(host, script, "taking NVIDIA's repository back")
        raise ActFailed(f"NVIDIA's repository was not kept: {error}") from error


def _prove(host: Host, wanted: AddRepository) -> str:
    """Fetches the keyring package and compares what is in it with what is known of NVIDIA; returns the address of this
    architecture. Raises ActFailed."""
    machines = " ".join(f"{ours}) m={theirs} ;;" for ours, theirs in MACHINES.items())
    said = shell.run(
        host,
        _FETCH.format(
            machines=machines,
            address=wanted.address,
            keyring=VENDOR.keyring,
            work=_WORK,
            package=KEYRING_PACKAGE,
        ),
        f"fetching {VENDOR.keyring} from {wanted.address} (the machine's own proxy and certificates are used)",
    )
    found: dict[str, list[str]] = {"address": [], "path": [], "keys": [], "source": []}
    for line in said.splitlines():
        kind, _, rest = line.partition(" ")
        if kind in found:
            found[kind].append(rest)
    address = found["address"][0]
    keys = base64.b64decode("".join(found["keys"]))
    wrong = wrong_keyring(found["path"], keys, "\n".join(found["source"]), address, wanted.fingerprint)
    if wrong:
        raise ActFailed(
            f"{VENDOR.keyring} is not what NVIDIA publishes: {'; '.join(wrong)}. Next: look at the way to "
            f"{wanted.address} (a proxy?), or set the repository up yourself"
        )
    return address
