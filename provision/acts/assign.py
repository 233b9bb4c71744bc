"""Acts of a hand-over: the record, containers that rest, a GPU's way to vfio-pci, one key of a virtual machine."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.container import STOP_SECONDS
from provision.acts.voice import Voice
from provision.assign.handover import Give, ProxmoxRest, Rest, VmKey
from provision.data import gpu_daemons
from provision.host import keeping, transport
from provision.host.changes import Change
from provision.host.moves import Edits
from provision.run.errors import ActFailed
from provision.templates import render

UNBIND_SECONDS = 20

_UNCHANGED = """
if [ -e {path} ]; then now=$(sha256sum <{path}) || exit 1; now=${{now%% *}}; else now=absent; fi
[ "$now" = {before} ] || {{ echo "{path} changed under us. Look at the new plan with: provision plan" >&2; exit 1; }}
"""

_STOP_LXC = """
[ "$(lxc-info -n {id} -sH)" = STOPPED ] || lxc-stop -n {id} -t {seconds} 9>&-
[ "$(lxc-info -n {id} -sH)" = STOPPED ] || {{ echo "container {id} does not stop" >&2; exit 1; }}
"""

_STOP_PCT = """
[ "$(pct status {id})" = "status: stopped" ] || pct shutdown {id} --timeout {seconds} --forceStop 1 9>&-
[ "$(pct status {id})" = "status: stopped" ] || {{ echo "container {id} does not stop" >&2; exit 1; }}
"""

_ACTIVE = "for unit in {units}; do systemctl is-active -q $unit && echo $unit; done; :"

_SET_KEY = """
fail() {{ echo "$*; nothing was changed" >&2; exit 1; }}
[ "$(qm status {id})" = "status: stopped" ] || fail "VM {id} is not stopped: $(qm status {id})"
is=$(qm config {id} --current 1) || exit 1
is=$(printf '%s\\n' "$is" | sed -n 's/^{key}: //p')
[ "$is" = {before} ] || fail "{key} of VM {id} changed under us: it is '$is' now"
qm set {id} {option}
"""


def record(host: Host, wanted: Edits, say: Voice) -> None:
    """Writes which GPUs virtual machines have; the record as it was is kept. Raises ActFailed."""
    for edit in wanted.files:
        check = _UNCHANGED.format(path=edit.path, before=edit.before or "absent")
        shell.run(host, check, f"looking at {edit.path}")
    keeping.before_files(host, say.run, {edit.path: edit.data for edit in wanted.files})
    for edit in wanted.files:
        say(f"{edit.path}: {edit.why}")
        shell.put(host, edit.path, edit.data, mode=edit.mode)


def rest(host: Host, wanted: Rest | ProxmoxRest, say: Voice) -> None:
    """Stops a container and configures it without its GPU; the way back starts it again. Raises ActFailed."""
    if isinstance(wanted, ProxmoxRest):
        _rest_proxmox(host, wanted, say)
        return
    guest, folder = wanted.container.guest, wanted.container.folder
    path, data = f"{folder}/config", wanted.container.config.encode()
    if wanted.running:
        units = [service.unit for service in guest.services]
        keeping.before_sleep(host, say.run, guest.id, folder, "", units)
    keeping.before_file(host, say.run, path, data)
    say(f"container {guest.id}: stopping, its services are away until it has its GPU again")
    stop = _STOP_LXC.format(id=shlex.quote(guest.id), seconds=STOP_SECONDS)
    shell.run(host, stop, f"stopping container {guest.id}", timeout=STOP_SECONDS + 60)
    shell.put(host, path, data, mode="644")


def _rest_proxmox(host: Host, wanted: ProxmoxRest, say: Voice) -> None:
    changes = [Change("running", say.run, id=wanted.id)] if wanted.running else []
    changes += [
        Change("key", say.run, path=key, id=wanted.id, folder="pct", before=value)
        for key, value in wanted.gone
    ]
    if wanted.onboot is not None:
        changes.append(
            Change("key", say.run, "onboot", written="0", id=wanted.id, folder="pct", before=wanted.onboot)
        )
    keeping.note(host, changes)
    say(f"container {wanted.id}: stopping, its services are away until it has its GPU again")
    stop = _STOP_PCT.format(id=wanted.id, seconds=STOP_SECONDS)
    shell.run(host, stop, f"stopping container {wanted.id}", timeout=STOP_SECONDS + 60)
    words = ["--delete", ",".join(key for key, _ in wanted.gone)] if wanted.gone else []
    words += ["--onboot", "0"] if wanted.onboot is not None else []
    if words:
        shell.run(host, shlex.join(["pct", "set", wanted.id, *words]), f"configuring container {wanted.id}")


def give(host: Host, wanted: Give, say: Voice) -> None:
    """Takes a GPU from NVIDIA's driver and gives it to vfio-pci, when nobody uses it. Raises ActFailed."""
    units = transport.run(host, _ACTIVE.format(units=" ".join(gpu_daemons.UNITS)), timeout=60)
    if not units.ok:
        raise ActFailed(f"services that hold GPUs could not be listed: {units.error_text}")
    for unit in units.text.split():
        keeping.before_unit(host, say.run, unit)
    keeping.before_binding(host, say.run, [function.bdf for function in wanted.functions])
    shell.run(host, give_script(wanted), f"handing {wanted.gpu} over to vfio-pci")


def give_script(wanted: Give) -> str:
    """The script that the machine runs: who uses the functions is looked at right before they are let go."""
    return render(
        "assign-vm.sh.j2",
        gpu=wanted.gpu,
        functions=wanted.functions,
        keep=wanted.keep,
        daemons=gpu_daemons.UNITS,
        modules=(),
        seconds=UNBIND_SECONDS,
    )


def key(host: Host, wanted: VmKey, say: Voice) -> None:
    """Sets or removes one key of a stopped virtual machine; what it was is kept. Raises ActFailed."""
    change = Change(
        "key",
        say.run,
        wanted.key,
        written=wanted.after or "",
        id=wanted.vmid,
        folder="qm",
        before=wanted.before or "",
    )
    keeping.note(host, [change])
    option = ["--delete", wanted.key] if wanted.after is None else [f"--{wanted.key}", wanted.after]
    say(shlex.join(["qm", "set", wanted.vmid, *option]))
    script = _SET_KEY.format(
        id=wanted.vmid, key=wanted.key, before=shlex.quote(wanted.before or ""), option=shlex.join(option)
    )
    shell.run(host, script, f"setting {wanted.key} of VM {wanted.vmid}")


def wake(host: Host, wanted: ProxmoxRest, say: Voice) -> None:
    """A Proxmox container starts with the machine again. Raises ActFailed."""
    change = Change(
        "key", say.run, "onboot", written=wanted.onboot or "", id=wanted.id, folder="pct", before="0"
    )
    keeping.note(host, [change])
    words = ["pct", "set", wanted.id, "--onboot", wanted.onboot or "1"]
    shell.run(host, shlex.join(words), f"configuring container {wanted.id}")
