"""Acts of step 6: making, configuring, starting a container on its host."""

from __future__ import annotations

import hashlib
import shlex

from pyinfra.api.host import Host

from provision.acts import container_pct, shell
from provision.acts.voice import Voice
from provision.guest import root, root_recipe
from provision.guest.idmap import GrantIds
from provision.guest.plain import Container
from provision.guest.proxmox.plan import ProxmoxContainer
from provision.host import keeping, transport
from provision.run.errors import ActFailed

START_SECONDS = 120
STOP_SECONDS = 120

_CREATE = """
set -u
fail() {{ printf '%s\\n' "$1" >&2; exit 1; }}
folder={folder}
partial="$(dirname "$folder")/.kpro-$(basename "$folder").partial"
[ ! -e "$folder" ] || fail "$folder exists already"
# What an interrupted run left is ours by its name, and nothing of it was ever used.
rm -rf --one-file-system -- "$partial" || exit 1
mkdir -p -m 755 "$partial/rootfs" || exit 1
{unpack} || fail "the root could not be unpacked"
# It names the machine that the root was built on, and systemd would give that name to every container: NCCL takes two
# of one name for one host. Without it lxc.uts.name holds.
rm -f -- "$partial/rootfs/etc/hostname" || exit 1
# Names are resolved as on the machine whose network is shared.
{resolv}
cat >"$partial/config" || exit 1
sync -f "$partial" && mv -T -- "$partial" "$folder" && sync "$(dirname "$folder")"
"""

_RESOLV = """r=/etc/resolv.conf
[ ! -e $r ] || cp -L --remove-destination $r "$partial/rootfs$r" || exit 1"""

_UNPACK = """tar -C "$partial/rootfs" --numeric-owner --xattrs --xattrs-include='*' -xf {tar}"""

# In a user namespace with the container's own maps: owners, set-user-id bits and file capabilities come out as they
# would inside, on every file system. A mount that shifts ids (lxc.rootfs.options = idmap=...) needs support of kernel,
# file system and LXC, and changing owners afterwards loses the bits and capabilities. Device nodes cannot be made
# there, and LXC makes those of /dev at each start.
_MAPPED = "lxc-usernsexec -m u:0:{first}:{count} -m g:0:{first}:{count} -- "
_UNPACK_MAPPED = """chown {first}:{first} "$partial/rootfs" &&
  {enter}tar -C "$partial/rootfs" --numeric-owner --xattrs --xattrs-include='*' --exclude='./dev/*' -xf - <{tar}"""
_RESOLV_MAPPED = """r=/etc/resolv.conf
[ ! -e $r ] || {enter}sh -c 'rm -f -- "$1" && umask 022 && cat >"$1"' sh "$partial/rootfs$r" <$r || exit 1"""

_START_LXC = """
set -u
mkdir -p /run/kpro/guests
# What step 7 fills is mounted from the start.
[ ! -d /var/lib/kpro ] || mkdir -p -m 755 /var/lib/kpro/userspace
{way}
{models}
digest=$(sha256sum <{config}) || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# The container must not inherit the busy file: it would look like a command that never ends.
lxc-start -n {id} -d -o "$log" -l NOTICE 9>&- || {{ cat "$log" >&2; exit 1; }}
printf '%s\\n' "${{digest%% *}}" >/run/kpro/guests/{id}
until=$(($(date +%s) + {seconds}))
while :; do
  state=$(lxc-attach -n {id} -- systemctl is-system-running 2>&1 9>&-)
  case $state in running|degraded) break ;; esac
  if [ "$(date +%s)" -ge "$until" ]; then
    echo "systemd in the container says: $state" >&2
    lxc-stop -n {id} -k 9>&-
    exit 1
  fi
  sleep 0.2
done
"""

# A container that somebody started since would be taken for one that runs with what is written now: its mark is
# missing, or is that of this very configuration. It goes first, so that a run that is cut leaves a restart due.
MARK_DUE = """
set -u
mkdir -p {marks} || exit 1
mark={marks}/{id}
[ -e "$mark" ] && [ "$(cat "$mark")" != {digest} ] || echo configured >"$mark"
"""

_MARKS = "/run/kpro/guests"
# An unprivileged container's root mounts it, and is nobody here: it must be able to pass, and sees no names.
_WAY = "[ ! -d /var/lib/kpro ] || chmod o+x /var/lib/kpro"

_STOP_LXC = "lxc-stop -n {id} -t {seconds} 9>&-"


def give_ids(host: Host, grant: GrantIds, say: Voice) -> None:
    """Root is given the ids of a container, in each file that lacks them. Raises ActFailed."""
    line = f"{grant.line}\n".encode()
    for path in grant.files:
        there = transport.run(host, f"[ ! -e {path} ] || cat {path}")
        if not there.ok:
            raise ActFailed(f"{path} cannot be read: {there.error_text}")
        data = there.stdout
        if line in data.splitlines(keepends=True):
            continue
        data += (b"\n" if data and not data.endswith(b"\n") else b"") + line
        keeping.before_file(host, say.run, path, data)
        shell.put(host, path, data, mode="644")


def create(host: Host, container: Container | ProxmoxContainer, say: Voice) -> None:
    """Makes the root from the host's own Debian mirror (cached there) and the configuration; whole or not at all."""
    if isinstance(container, ProxmoxContainer):
        container_pct.create(host, container, say)
        return
    guest = container.guest
    _decided(container)
    say(f"container {guest.id}: root of {guest.suite} (the first one of a suite takes a minute)")
    shell.run(host, root.build_script(guest.suite), f"building the root of {guest.suite}")
    keeping.before_container(host, say.run, guest.id, container.folder)
    tar = shlex.quote(root_recipe.root_file(guest.suite))
    unpack, resolv = _UNPACK.format(tar=tar), _RESOLV
    if ids := container.ids:
        enter = _MAPPED.format(first=ids.first, count=ids.count)
        unpack = _UNPACK_MAPPED.format(tar=tar, enter=enter, first=ids.first)
        resolv = _RESOLV_MAPPED.format(enter=enter)
    script = _CREATE.format(
        folder=shlex.quote(container.folder),
        unpack=unpack,
        resolv=resolv if guest.network == "host" else ":",
    )
    shell.run(host, script, f"creating container {guest.id}", stdin=container.config.encode())


def _decided(container: Container) -> None:
    """A configuration from before the driver was loaded would name device nodes that are guessed."""
    if container.early:
        raise ActFailed(
            f"container {container.guest.id}: its GPUs are not ready, so that their device nodes are not known; "
            "it is left as it is. Look at what is pending with: provision plan"
        )


def configure(host: Host, container: Container | ProxmoxContainer, say: Voice) -> None:
    if isinstance(container, ProxmoxContainer):
        container_pct.configure(host, container, say)
        return
    _decided(container)
    path, data = f"{container.folder}/config", container.config.encode()
    keeping.before_file(host, say.run, path, data)
    guest = container.guest
    due = MARK_DUE.format(marks=_MARKS, id=shlex.quote(guest.id), digest=hashlib.sha256(data).hexdigest())
    shell.run(host, due, f"noting that container {guest.id} has to restart")
    shell.put(host, path, data, mode="644")


def start(host: Host, container: Container | ProxmoxContainer, say: Voice) -> None:
    """Starts it and waits for its systemd; one that does not come up is stopped again."""
    if isinstance(container, ProxmoxContainer):
        container_pct.start(host, container, say)
        return
    guest = container.guest
    script = _START_LXC.format(
        id=shlex.quote(guest.id),
        config=shlex.quote(f"{container.folder}/config"),
        seconds=START_SECONDS,
        way=_WAY if container.ids else ":",
        models=f"mkdir -p -m 755 {shlex.quote(container.models)} || exit 1" if container.models else ":",
    )
    shell.run(host, script, f"starting container {guest.id}")


def restart(host: Host, container: Container | ProxmoxContainer, say: Voice) -> None:
    if isinstance(container, ProxmoxContainer):
        container_pct.restart(host, container, say)
        return
    guest = container.guest
    say(f"container {guest.id}: restarting, its services are away for some seconds")
    stop = _STOP_LXC.format(id=shlex.quote(guest.id), seconds=STOP_SECONDS)
    try:
        shell.run(host, stop, f"stopping container {guest.id}")
    except ActFailed as error:
        raise ActFailed(f"{error}\nIt was not started again with the new configuration") from error
    start(host, container, say)
