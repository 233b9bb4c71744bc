"""Acts of step 6 on Proxmox VE: ``pct`` does what it can, and an edit of the file the raw lines that it cannot.

Proxmox's file system (pmxcfs) takes a temporary file and a rename, and no change of owner or mode.
"""

from __future__ import annotations

import hashlib
import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.guest.proxmox.edit import Edited
from provision.guest.proxmox.plan import DUE, STARTED, ProxmoxContainer, mark_path, record_path
from provision.guest.proxmox.text import with_raw
from provision.host import keeping, transport
from provision.run.errors import ActFailed

START_SECONDS = 120
STOP_SECONDS = 120

# The lock is the one that pct itself takes (PVE::LXC::Config, config_file_lock). The file is replaced only while it is
# what was looked at.
_PUT = """
set -u
p={path} t={temporary} lock=/run/lock/lxc/pve-config-{id}.lock
trap 'rm -f -- "$t"' EXIT
umask 022
mkdir -p /run/lock/lxc && exec 7>>"$lock" || exit 1
flock -w 60 7 || {{ echo "$lock is held: Proxmox is at work" >&2; exit 1; }}
now=$(sha256sum <"$p") || exit 1
[ "${{now%% *}}" = {before} ] || {{ echo "$p changed under us. Look at the new plan: provision plan" >&2; exit 1; }}
cat >"$t" || exit 1
[ "$(stat -c %s -- "$t")" = {size} ] || {{ echo "not all of $p arrived" >&2; exit 1; }}
sync "$t" && mv -fT -- "$t" "$p"
"""

_START = """
set -u
# What step 7 fills is mounted from the start.
[ ! -d /var/lib/kpro ] || mkdir -p -m 755 /var/lib/kpro/userspace
# At a boot Proxmox starts its guests itself, and may be first.
pct start {id} 9>&- || [ "$(pct status {id} 9>&-)" = "status: running" ] || exit 1
mkdir -p /run/kpro/guests && echo {started} >{mark}
until=$(($(date +%s) + {seconds}))
while :; do
  state=$(pct exec {id} -- systemctl is-system-running 2>&1 9>&- </dev/null)
  case $state in running | degraded) exit 0 ;; esac
  if [ "$(date +%s)" -ge "$until" ]; then
    echo "systemd in the container says: $state" >&2
    pct stop {id} 9>&-
    exit 1
  fi
  sleep 0.2
done
"""

# A container that does not stop in time is ended: its services had that long.
_STOP = "pct shutdown {id} --timeout {seconds} 9>&- || pct stop {id} 9>&-"


def create(host: Host, container: ProxmoxContainer, say: Voice) -> None:
    """Makes it with ``pct create``. Raises ActFailed."""
    made = container.creation
    if made is None:
        raise ActFailed(f"container {container.guest.id}: it is not said how it is made")
    keeping.before_container(host, say.run, made.id, "pct")
    say(f"container {made.id}: from {made.template} on {made.rootfs}")
    shell.run(host, f"{shlex.join(made.words)} 9>&-", f"creating container {made.id}")


def configure(host: Host, container: ProxmoxContainer, say: Voice) -> None:
    """``pct set``, then the raw lines; or the whole file. Raises ActFailed."""
    edited, id = container.edited, container.guest.id
    if container.early or edited is None or container.before is None:
        raise ActFailed(
            f"container {id}: its GPUs are not ready, so that their device nodes are not known; it is left as it is. "
            "Look at what is pending with: provision plan"
        )
    text = _read(host, container)
    if _digest(text) != container.before:
        raise ActFailed(
            f"{container.path} changed under us: it is not what was looked at. "
            "Look at the new plan with: provision plan"
        )
    keeping.before_conf(host, say.run, id, container.path, [_digest(edited.text)])
    _record(host, container, edited)
    if container.restart:
        mark = mark_path(id)
        shell.run(
            host, f"mkdir -p /run/kpro/guests && echo {DUE} >{mark}", f"noting that {id} has to restart"
        )
    if container.way == "write":
        _put(host, container, text, edited.text)
        return
    words = [word for key, value in edited.options.items() for word in (f"-{key}", value)]
    words += ["-delete", ",".join(edited.delete)] if edited.delete else []
    if words:
        shell.run(host, f"{shlex.join(['pct', 'set', id, *words])} 9>&-", f"configuring container {id}")
        text = _noted(host, container, say)
    if edited.lines or edited.dropped:
        wanted = with_raw(text, edited.lines, edited.dropped)
        keeping.before_conf(host, say.run, id, container.path, [_digest(wanted)])
        _put(host, container, text, wanted)


def start(host: Host, container: ProxmoxContainer, say: Voice) -> None:
    """Starts it and waits for its systemd; one that does not come up is stopped again. Raises ActFailed."""
    id = container.guest.id
    before = _digest(_read(host, container))
    script = _START.format(id=id, mark=mark_path(id), started=STARTED, seconds=START_SECONDS)
    shell.run(host, script, f"starting container {id}")
    # What was pending is applied by the start, and Proxmox writes the file anew.
    after = _read(host, container)
    if _digest(after) != before and before in _known(host, container):
        keeping.before_conf(host, say.run, id, container.path, [_digest(after)])


def restart(host: Host, container: ProxmoxContainer, say: Voice) -> None:
    id = container.guest.id
    say(f"container {id}: restarting, its services are away for some seconds")
    try:
        shell.run(host, _STOP.format(id=id, seconds=STOP_SECONDS), f"stopping container {id}")
    except ActFailed as error:
        raise ActFailed(f"{error}\nIt was not started again with the new configuration") from error
    start(host, container, say)


def _noted(host: Host, container: ProxmoxContainer, say: Voice) -> str:
    """The file after ``pct set``: what a running container cannot have yet is pending in it."""
    text = _read(host, container)
    keeping.before_conf(host, say.run, container.guest.id, container.path, [_digest(text)])
    return text


def _known(host: Host, container: ProxmoxContainer) -> frozenset[str]:
    changes = [change for change in keeping.changes_on(host) if change.path == container.path]
    return frozenset(name for change in changes for name in change.names)


def _record(host: Host, container: ProxmoxContainer, edited: Edited) -> None:
    """The lines that are kpro's: those of before that are still there, and those that come now. What is undone leaves
    the record longer than the file, and the next one is made from what stands there."""
    lines = sorted(edited.kept | edited.ours)
    path, data = record_path(container.guest.id), "".join(f"{line}\n" for line in lines).encode()
    shell.run(host, "mkdir -p -m 700 /var/lib/kpro/guests", "making the folder of container records")
    shell.put(host, path, data, mode="600")


def _read(host: Host, container: ProxmoxContainer) -> str:
    done = transport.run(host, f"cat {container.path}")
    if not done.ok:
        raise ActFailed(f"{container.path} cannot be read: {done.error_text}")
    return done.stdout.decode("utf-8", "surrogateescape")


def _put(host: Host, container: ProxmoxContainer, before: str, text: str) -> None:
    id, data = container.guest.id, text.encode("utf-8", "surrogateescape")
    script = _PUT.format(
        path=container.path,
        temporary=container.path.replace(f"/{id}.conf", f"/.{id}.conf.kpro"),
        id=id,
        before=_digest(before),
        size=len(data),
    )
    shell.run(host, script, f"writing {container.path}", stdin=data)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
