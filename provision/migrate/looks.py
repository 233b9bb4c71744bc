"""What the preflight of a migration looks at: one script for each machine and each guest. Pure: requests are data.

They are requests of the snapshot (checks/snapshot.sh), so that what is absent and what could not be looked at stay
apart. Nothing is changed; the service is asked for a few tokens, by the guest's own Python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from checks import snapshot
from provision.adopt import models, process
from provision.adopt.plan import requests as adopted_requests
from provision.adopt.process import quoted
from provision.data.engines import KEY_VARIABLES
from provision.migrate import standing
from provision.migrate.ends import STAGING, End, Pair
from provision.stack.desired import MANIFEST
from provision.status import looks as status

STATE = "/var/lib/kpro"
MOST_FILES = 4000
"""Model files that are told one by one; of more only the sums."""

# The nearest folder that is there, its file system, and what of that is free for root.
_PLACE = r"""p=%s; d=$p; while [ ! -e "$d" ]; do d=${d%%/*}; [ -n "$d" ] || d=/; done; [ -d "$d" ] && k=1 || k=0; """
_PLACE += r"""w=0; [ ! -w "$d" ] || w=1; stat -L -c '%%d %%m' "$d" && """
_PLACE += r"""stat -f -c '%%S %%f %%d %%c' "$d" && echo "$w $k $d" """

_SSHD = r"""s=$(command -v sshd) || s=/usr/sbin/sshd; [ -x "$s" ] || { echo none; exit 0; }
t=$("$s" -T 2>&1) || { printf '%s\n' "$t"; exit 1; }; printf '%s\n' "$t" |
grep -iE '^(port|permitrootlogin|pubkeyauthentication|ciphers) '
printf '%s\n' "$t" | sed -n 's/^hostkey //p' | while IFS= read -r k; do
  f=$(ssh-keygen -lf "$k.pub" 2>/dev/null) && printf 'key %s\n' "$f"; done; :"""

_RRSYNC = (
    "r=$(command -v rrsync) || { [ ! -e /usr/share/doc/rsync/scripts/rrsync ] || echo packed; exit 0; }; "
    'printf "%s " "$r"; head -n 1 "$r"'
)

_LISTENING = (
    "if command -v ss >/dev/null; then echo owners; ss -Hltnp; "
    "else echo none; cat /proc/net/tcp /proc/net/tcp6 2>/dev/null; fi; :"
)

# Sums by awk: a cache of many small files would be longer than a look may be. The commit is told as `init` reads it.
_FOLDER = r"""p=%s; [ -e "$p" ] || { echo absent; exit 0; }; cd "$p" && r=$(pwd -P) && echo "$r" &&
o=$(find . -type l -exec readlink -f -- {} + | awk -v r="$r/" 'index($0,r)!=1{n++} END{print n+0}') &&
b=$(find -L . ! -type f ! -type d | wc -l) && echo "$o $b" &&
find -L . -type f -printf '%%s %%b %%T@ %%P\n' |
awk '{n++; s+=$1; b+=$2; if ($3>t) t=$3} END{printf "%%d %%.0f %%.0f %%.3f\n", n, s, b*512, t}' &&
find -L . -type f -printf '%%s %%P\n' | head -n %d"""

_EXTRA = r"""p=%s; if [ -L "$p" ]; then k=link; elif [ -f "$p" ]; then k=file; elif [ -d "$p" ]; then k=folder
elif [ -e "$p" ]; then k=other; else echo absent; exit 0; fi; echo "$k $(readlink -f "$p")"; r=$(readlink -f "$p")
find "$p" -type f -printf '%%s\n' | awk '{n++; s+=$1} END{printf "%%d %%.0f ", n, s}'
find "$p" -type l -exec readlink -f -- {} + | awk -v r="$r" '$0!=r && index($0,r "/")!=1{n++}END{print n+0}'"""

_UNIT = (
    "systemctl show -p Id -p LoadState -p ActiveState -p SubState -p UnitFileState -p MainPID -p NRestarts "
    "-p ActiveEnterTimestamp -p FragmentPath -p DropInPaths -- {unit} && "
    "f=$(systemctl show -p FragmentPath --value -- {unit}) && p=$(systemctl show -p MainPID --value -- {unit}) && "
    '{{ [ -z "$f" ] || sed -n \'s/^Environment=KPRO_DIGEST=/digest=/p\' "$f"; '
    "[ \"$p\" = 0 ] || {{ tr '\\0' '\\n' <\"/proc/$p/environ\" | sed -n 's/^KPRO_DIGEST=/running=/p'; "
    "tr '\\0' '\\n' <\"/proc/$p/environ\" | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/name=\\1/p'; }}; }}"
)

# The key goes from the process's own environment or words into a header; it is in no argument, file or output.
_ASK = """\
import json, re, sys, urllib.request as u
pid, base, keys = sys.argv[1], sys.argv[2], set(sys.argv[3].split(","))
key = ""
if pid != "0":
    rows = open(f"/proc/{pid}/environ", "rb").read().decode(errors="replace").split("\\0")
    key = next((r.partition("=")[2] for r in rows if r.partition("=")[0] in keys), "")
    words = open(f"/proc/{pid}/cmdline", "rb").read().decode(errors="replace").split("\\0")
    for at, word in enumerate(words):
        if word == "--api-key": key = words[at + 1]
        elif word.startswith("--api-key="): key = word.partition("=")[2]
head = {"Content-Type": "application/json", **({"Authorization": "Bearer " + key} if key else {})}
none = u.build_opener(u.ProxyHandler({}))
def ask(path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    return json.load(none.open(u.Request(base + path, data, head), timeout=60))
try:
    name = ask("/v1/models")["data"][0]["id"]
    text = ask("/v1/completions", {"model": name, "prompt": "1 2 3 4", "max_tokens": 8, "temperature": 0})
    print("generated" if text["choices"][0]["text"] else "it answered without a single token")
except Exception as error:
    print(re.sub(r"\\s+", " ", f"{type(error).__name__}: {error}")[:200])
"""


def script(requests: Sequence[str]) -> str:
    """The text for ``sh`` that takes one look: the snapshot's own, with what is asked for as its words."""
    words = " ".join(quoted(request) for request in requests)
    return f"set -- {words}\n{snapshot.script()}"


def host_requests(end: End) -> list[str]:
    """What is looked at on the machine of an end."""
    id = quoted(end.guest.id)
    wanted = [
        "cmd:clock-first:date +%s.%N",
        "file:/proc/sys/kernel/random/boot_id",
        "cmd:namespace:readlink /proc/self/ns/mnt",
        "cmd:hostname:hostname",
        "cmd:ntp:timedatectl show -p NTPSynchronized --value",
        "cmd:systemd:[ -d /run/systemd/system ] && command -v systemd-run",
        "tool:python3",
        "cmd:rsync:rsync --version 2>/dev/null | head -n 1; dpkg-query -W -f '${Version}\\n' rsync 2>/dev/null; :",
        f"cmd:rrsync:{_RRSYNC}",
        f"cmd:sshd:{_SSHD}",
        *(f"cmd:place-{name}:{_PLACE % quoted(path)}" for name, path in places(end)),
        "tool:lxc-ls",
        "tool:pct",
        "file:/etc/pve/.vmlist",
        f"cmd:listening:{_LISTENING}",
        next(one for one in status.REQUESTS if one.startswith("cmd:lock-held:")),
        f"glob:{standing.FOLDER}/*.json",
        f"glob:{standing.FOLDER}/*{standing.FORMER}",
        "file:/proc/driver/nvidia/version",
        "glob:/proc/driver/nvidia/gpus/*/information",
    ]
    if end.guest.backend == "lxc":
        wanted += ["cmd:lxc-ls:lxc-ls -1", f"cmd:lxc-info-{end.guest.id}:lxc-info -n {id} -sH"]
    else:
        wanted += ["cmd:lxc-ls:lxc-ls -1", f"cmd:pct-status-{end.guest.id}:pct status {id}"]
    if end.role == "target":
        for role, model in end.models:
            place = end.on_metal(model.directory)
            if place is not None:
                wanted.append(_folder(role, place))
    return [*wanted, "cmd:clock-last:date +%s.%N"]


def places(end: End) -> tuple[tuple[str, str], ...]:
    """The folders that are written to, by what they are for."""
    return ("models", end.store), ("staging", f"{end.store.rstrip('/')}/{STAGING}"), ("state", STATE)


def guest_requests(pair: Pair, end: End) -> list[str]:
    """What is looked at in the guest of an end."""
    service = end.service
    unit = quoted(service.unit)
    wanted = [
        "cmd:systemd:[ -d /run/systemd/system ]",
        "tool:python3",
        f"cmd:unit:{_UNIT.format(unit=unit)}",
        f"cmd:listening:{_LISTENING}",
    ]
    if end.role == "target":
        return wanted
    base = f"http://{_reached(service.listen)}:{service.port}"
    wanted.append(
        f"cmd:generates:p=$(systemctl show -p MainPID --value -- {unit}); command -v python3 >/dev/null || exit 3; "
        f'python3 -c {quoted(_ASK)} "${{p:-0}}" {quoted(base)} {",".join(KEY_VARIABLES)}'
    )
    for role, _ in end.models:
        folder = end.folder(role)
        if folder is not None:
            wanted.append(_folder(role, folder))
            wanted += (
                [f"file:{folder}/{MANIFEST}"] if service.found is None else models.folder_requests(folder)
            )
    wanted += [f"cmd:extra-{at}:{_EXTRA % quoted(path)}" for at, path in enumerate(pair.extra_paths)]
    wanted += [f"stat:{path}" for path in named_files(pair.target)]
    if service.found is not None:
        wanted += [*adopted_requests(end.guest), *process.unit_requests([service.found.unit])]
    return list(dict.fromkeys(wanted))


def _folder(role: str, path: str) -> str:
    return f"cmd:folder-{role}:{_FOLDER % (quoted(path), MOST_FILES)}"


def _reached(listen: str) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)
    return f"[{host}]" if ":" in host else host


NOT_FILES = (
    "/dev/",
    "/proc/",
    "/sys/",
    "/run/",
    "/tmp/",
    "/opt/kpro/",
    "/var/cache/kpro",
    "/srv/models/",
    "/v1/",
)
"""Paths of flags that belong to the machine, to kpro or to an address, and never move."""


def named_files(end: End) -> tuple[str, ...]:
    """Absolute paths that the service's flags and variables name: what an engine reads beside its model."""
    texts = [word.partition("=")[2] or word for word in end.service.flags]
    texts += [one for text in end.service.environment.values() for one in text.split(":")]
    found = [text for text in texts if re.fullmatch(r"/[\w.@+-]+(?:/[\w.@+-]+)+/?", text)]
    kept = (path for path in found if not path.startswith(NOT_FILES))
    return tuple(dict.fromkeys(path.rstrip("/") for path in kept))
