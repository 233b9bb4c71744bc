"""The one-off key: made on the source, which it never leaves, and good for writing into one folder of the target.

The line in the target's authorized_keys is put and taken out in one step each; every other byte of the file stays.
"""

from __future__ import annotations

import shlex

from provision.migrate.copy.model import RUN_FOLDER, CopySettings, Place

EXPIRY = "@EXPIRY@"
"""Stands for the time that the target's own clock and time zone say (sshd(8), expiry-time)."""
CIPHERS = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com"
"""The first that both have: aes128-gcm is the fastest where the processor knows AES (docs/measurements.md)."""
HOST = "kpro-target"

_REWRITE = """set -eu
umask 077
f=$(readlink -f -- /root/.ssh/authorized_keys || true)
rewrite() {
  d=${f%/*}
  t=$(mktemp "$d/.$mark.XXXXXX")
  trap 'rm -f -- "$t"' EXIT
  for i in 1 2 3 4 5; do
    was=$(stat -c '%i %s %Y %Z' -- "$f")
    cp --attributes-only --preserve=all -- "$f" "$t" 2>/dev/null || true
    # printf is the shell's own: what it says is in no argument list.
    { [ -z "$ours" ] || printf '%s\\n' "$ours"; LC_ALL=C sed "/ $mark\\$/d" -- "$f"; } > "$t"
    [ "$(stat -c '%a %u:%g' -- "$f")" = "$(stat -c '%a %u:%g' -- "$t")" ] ||
      { echo "owner and mode of $f cannot be kept" >&2; return 1; }
    cmp -s -- "$f" "$t" && return 0
    sync -- "$t"
    [ "$was" = "$(stat -c '%i %s %Y %Z' -- "$f")" ] || continue
    mv -f -- "$t" "$f" && sync -- "$d"
    return
  done
  echo "$f is changed by somebody else all the time" >&2
  return 1
}
"""
_PUT = """read -r hours
at=$(date -d "+$hours hours" +%Y%m%d%H%M)
ours=$(sed "s/@EXPIRY@/$at/")
mkdir -p -m 700 -- {top} {folder}
[ -d /root/.ssh ] || {{ mkdir -m 700 /root/.ssh; touch {folder}/made.ssh; f=/root/.ssh/authorized_keys; }}
[ -e "$f" ] || {{ : > "$f"; touch {folder}/made; }}
rewrite
"""
_TAKE = """ours=
[ ! -e "$f" ] || rewrite
rm -f -- "${{f%/*}}/.$mark".*
if [ -e {folder}/made ] && [ -e "$f" ] && [ ! -s "$f" ]; then rm -f -- "$f"; fi
if [ -e {folder}/made.ssh ]; then rmdir /root/.ssh 2>/dev/null || true; fi
"""


def folder(run: str) -> str:
    return f"{RUN_FOLDER}/{run}"


def mark(run: str) -> str:
    return f"kpro-migrate-{run}"


def make(run: str, count: int) -> str:
    """For the source: makes the keys that are not there and prints their public parts, a line each."""
    return f"""set -eu
umask 077
mkdir -p -m 700 {RUN_FOLDER} {folder(run)}
cd {folder(run)}
for n in {" ".join(map(str, range(count)))}; do
  [ -s key.$n.pub ] || {{ rm -f key.$n; ssh-keygen -q -t ed25519 -N '' -C {mark(run)} -f key.$n </dev/null; }}
  cat key.$n.pub
done
"""


def authorized(run: str) -> str:
    """For the target: the lines of standard input are this run's only ones, before all others. The first line of the
    input is the time that they hold, in hours."""
    return _REWRITE + f"mark={mark(run)}\n" + _PUT.format(top=RUN_FOLDER, folder=folder(run))


def unauthorized(run: str) -> str:
    """For the target: none of this run's lines is left, nor what was made for them."""
    return _REWRITE + f"mark={mark(run)}\n" + _TAKE.format(folder=folder(run))


def line(public: str, place: Place, run: str, settings: CopySettings, rrsync: str, source: str | None) -> str:
    """One line of authorized_keys. ``source``: from where alone the key may be used."""
    words = [rrsync, "-wo", "-no-lock", place.incoming(run)]
    if place.container is not None:
        words = ["lxc-attach", "-n", place.container, "--", *words]
    command = shlex.join(words).replace("\\", "\\\\").replace('"', '\\"')
    limits = ["restrict", f'expiry-time="{EXPIRY}"', f'command="{command}"']
    if source is not None:
        limits.insert(1, f'from="{source}"')
    kind, key, *_ = public.split()
    return f"{','.join(limits)} {kind} {key} {mark(run)}"


def known_hosts(keys: str, settings: CopySettings) -> str:
    """For the address and port that the source uses (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT). ``keys``: the target's
    public host keys, a line each."""
    name = settings.address if settings.port == 22 else f"[{settings.address}]:{settings.port}"
    rows = [line.split() for line in keys.splitlines()]
    return "".join(f"{name} {row[0]} {row[1]}\n" for row in rows if len(row) >= 2)


def ssh_config(run: str, number: int, settings: CopySettings) -> str:
    """For ``ssh -F``: nothing of the source's own configuration, agents or keys counts."""
    here = folder(run)
    return f"""Host {HOST}
  HostName {settings.address}
  Port {settings.port}
  User root
  IdentityFile {here}/key.{number}
  IdentitiesOnly yes
  IdentityAgent none
  BatchMode yes
  PreferredAuthentications publickey
  StrictHostKeyChecking yes
  UserKnownHostsFile {here}/known_hosts
  GlobalKnownHostsFile /dev/null
  UpdateHostKeys no
  Ciphers {CIPHERS}
  Compression no
  ForwardAgent no
  ClearAllForwardings yes
  RequestTTY no
  ConnectTimeout 60
  ServerAliveInterval 15
  ServerAliveCountMax 4
  LogLevel ERROR
"""


HOST_KEYS = """k=$(/usr/sbin/sshd -T 2>/dev/null | sed -n 's/^hostkey //p')
[ -n "$k" ] || k=$(ls /etc/ssh/ssh_host_*_key)
printf '%s\\n' "$k" | while read -r f; do cut -d' ' -f1,2 -- "$f.pub"; done
"""
"""For the target: its public host keys, over a connection whose other end is known already."""
