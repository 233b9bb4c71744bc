"""Acts of step 2: the boot configuration is cleaned, what is made from it is made anew, GPUs leave their drivers."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.host import keeping
from provision.host.moves import Edits, FileEdit, Regenerate, Switch
from provision.host.transport import put_atomic_script
from provision.templates import render

MARKER = f"{keeping.STATE}/regenerate"
"""Stands from before the first edit until initramfs and boot loader were made from the files: a run that was cut
between the two is finished by the next one, or by undo.sh."""

UNBIND_SECONDS = 20

_CHECK = """
set -u
changed() {{ printf '%s changed under us: %s. Look at the new plan with: provision plan\\n' {path} "$1" >&2; exit 1; }}
[ ! -L {path} ] || changed "it is a symbolic link to $(readlink {path})"
if [ -e {path} ]; then now=$(sha256sum <{path}) || exit 1; now=${{now%% *}}; else now=absent; fi
[ "$now" = {before} ] || changed "it is not what was looked at"
mkdir -p "$(dirname {path})" || exit 1
"""

_MARK = f'umask 077; mkdir -p {keeping.STATE} && : >>{MARKER} && sync {MARKER} "{keeping.STATE}"'


def edit_files(host: Host, edits: Edits, say: Voice) -> None:
    """Keeps the originals, sets the marker, then writes file by file, each only if it still is what was looked at."""
    wanted = {edit.path: None if edit.gone else edit.data for edit in edits.files}
    keeping.before_files(host, say.run, wanted, boot=True)
    shell.run(host, _MARK, "setting the marker of a pending initramfs")
    for edit in edits.files:
        say(f"{edit.path}: {edit.why}")
        _put(host, edit)


def _put(host: Host, edit: FileEdit) -> None:
    check = _CHECK.format(path=shlex.quote(edit.path), before=edit.before or "absent")
    if edit.gone:
        path = shlex.quote(edit.path)
        remove = f'rm -f -- {path} && sync "$(dirname {path})"'
        shell.run(host, check + remove, f"removing {edit.path}")
        return
    new = edit.before is None
    put = put_atomic_script(
        edit.path, edit.mode if new else None, "0:0" if new else None, size=len(edit.data)
    )
    shell.run(host, check + put, f"writing {edit.path}", stdin=edit.data)


def regenerate(host: Host, wanted: Regenerate, say: Voice) -> None:
    """Makes the initramfs of each kernel and the boot loader's configuration; the marker goes when all is there."""
    say(f"making the initramfs of {', '.join(wanted.kernels) or 'no kernel'} anew")
    shell.run(
        host, regenerate_script(wanted), "making the initramfs and the boot loader's configuration anew"
    )


def regenerate_script(wanted: Regenerate) -> str:
    return render(
        "regenerate.sh.j2",
        kernels=shlex.join(wanted.kernels) or '""',
        boot_loader=wanted.boot_loader,
        marker=MARKER,
        state=keeping.STATE,
    )


def online(host: Host, switch: Switch, say: Voice) -> None:
    """Takes all functions of a GPU from their drivers, when nobody uses them; other GPUs stay as they are."""
    keeping.before_binding(host, say.run, [function.bdf for function in switch.functions])
    shell.run(host, online_script(switch), f"taking {switch.gpu} from its drivers")


def online_script(switch: Switch) -> str:
    """The script that the host runs: one look at who uses the functions, right before they are let go."""
    return render(
        "release-online.sh.j2",
        gpu=switch.gpu,
        functions=switch.functions,
        keep=switch.keep,
        seconds=UNBIND_SECONDS,
    )
