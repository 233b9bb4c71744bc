"""Acts of step 8 inside a guest: user and folders, the gate, uv, engine environment, model files, staged unit."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.host import transport
from provision.run.errors import ActFailed
from provision.stack.decide import UID, Shipped
from provision.stack.desired import MANIFEST, PYZ, UV, DesiredService
from provision.stack.models import ModelPut

_BASE = f"""
set -u
getent group kpro >/dev/null || groupadd --gid {UID} kpro || exit 1
getent passwd kpro >/dev/null || useradd --uid {UID} --gid kpro --no-create-home --home-dir /var/cache/kpro \
  --shell /usr/sbin/nologin kpro || exit 1
[ "$(id -u kpro)" = {UID} ] || {{ echo "user kpro has another uid than {UID}" >&2; exit 1; }}
"""

_VERIFY = """
set -u
out=$(systemd-analyze verify {unit} 2>&1) && exit 0
printf 'systemd-analyze verify says:\\n%s\\n' "$out" >&2
exit 1
"""


def base(host: Host, folders: Sequence[str], say: Voice) -> None:
    lines = [_BASE]
    for folder in folders:
        if folder.startswith("/var/cache/"):
            lines.append(f"install -d -m 755 -o kpro -g kpro {shlex.quote(folder)} || exit 1")
        elif folder.endswith(("/staged", "/good", "/trials", "/baselines")):
            lines.append(f"install -d -m 700 {shlex.quote(folder)} || exit 1")
        else:
            lines.append(f"install -d -m 755 {shlex.quote(folder)} || exit 1")
    shell.run(host, "\n".join(lines), "making user and folders")


def put_provcheck(host: Host, pyz: Shipped, say: Voice) -> None:
    folder = shlex.quote(PYZ.rpartition("/")[0])
    shell.run(host, f"install -d -m 755 {folder}", f"making {folder}")
    shell.put_file(host, pyz.path, PYZ, mode="755")


def put_uv(host: Host, uv: Shipped, say: Voice) -> None:
    shell.put_file(host, uv.path, UV, mode="755", say=say)


def put_model(host: Host, put: ModelPut, say: Voice) -> None:
    """Copies what is not there yet into a staging folder, verifies all of it where it lies, then renames.

    Raises ActFailed when a file does not arrive as the manifest says.
    """
    model, directory = put.model, put.directory
    if model.folder is None or model.manifest is None:
        raise ActFailed(f"{directory} has no folder to copy from")
    parent, name = directory.rsplit("/", 1)
    staging = f"{parent}/.incoming/{name}"
    mending = _is_ours(host, put)
    if mending:
        # File by file, each in one step: a server that has them open keeps what it has.
        staging = directory
    wanted = {path: entry["sha256"] for path, entry in json.loads(model.manifest).items()}
    there = shell.digests(host, staging)
    missing = [path for path, digest in wanted.items() if there.get(path) != digest]
    folders = sorted({f"{staging}/{path}".rsplit("/", 1)[0] for path in missing})
    if folders:
        shell.run(host, "umask 022; mkdir -p -- " + shlex.join(folders), f"making the folders of {staging}")
    for number, path in enumerate(missing, 1):
        say(f"{directory}: {path} ({number} of {len(missing)})")
        shell.put_file(host, str(model.folder / path), f"{staging}/{path}", mode="644", say=say)
    there = shell.digests(host, staging)
    wrong = [path for path, digest in wanted.items() if there.get(path) != digest]
    if wrong:
        raise ActFailed(f"{directory}: {', '.join(wrong)} did not arrive whole (was it changed meanwhile?)")
    if mending:
        return
    surplus = [f"{staging}/{path}" for path in there if path not in wanted]
    shell.put(host, f"{staging}/{MANIFEST}", model.manifest.encode(), mode="644")
    remove = (
        f"rm -f -- {shlex.join(p for p in surplus if not p.endswith(f'/{MANIFEST}'))}\n" if surplus else ""
    )
    target = shlex.quote(directory)
    script = (
        f"{remove}[ ! -e {target} ] || {{ echo {target} exists already and has no manifest of ours. "
        f"Move it away, then run again: mv {target} {target}.old >&2; exit 1; }}\n"
        f"sync -f {shlex.quote(staging)} && mv -T -- {shlex.quote(staging)} {target} && "
        f"sync {shlex.quote(parent)}"
    )
    shell.run(host, script, f"putting {directory} in place")


def _is_ours(host: Host, put: ModelPut) -> bool:
    """Does the folder exist with the very manifest that is wanted?"""
    done = transport.run(host, f"cat {shlex.quote(f'{put.directory}/{MANIFEST}')}")
    return done.ok and done.text == put.model.manifest


def stage(host: Host, desired: DesiredService, say: Voice) -> None:
    """Writes unit, environment, key and record beside what runs; only a unit that verifies counts as staged."""
    if desired.launch.open:
        raise ActFailed(f"{desired.service.unit} cannot be written: {'; '.join(desired.launch.open)}")
    checked = f"{desired.staged_folder}/.check/{desired.service.unit}"
    folders = shlex.join(["/etc/kpro/staged", desired.staged_folder, f"{desired.staged_folder}/.check"])
    shell.run(host, f"install -d -m 700 {folders} /etc/kpro/records", "making the folders of what is staged")
    if desired.record is not None:
        shell.put(host, desired.record_path, desired.record, mode="644")
    if desired.silences is not None:
        shell.put(host, desired.silences_path, desired.silences, mode="644")
    if desired.key is not None:
        shell.put(host, desired.key_path, desired.key.encode(), mode="600")
    else:
        shell.run(host, f"rm -f -- {shlex.quote(desired.key_path)}", "removing a key that is no longer used")
    shell.put(host, desired.staged_environment, desired.environment.encode(), mode="600")
    shell.put(host, checked, desired.unit.encode(), mode="644")
    unit = shlex.quote(checked)
    shell.run(host, _VERIFY.format(unit=unit), f"verifying {desired.service.unit}")
    shell.run(host, f"mv -fT -- {unit} {shlex.quote(desired.staged_unit)}", f"staging {desired.service.unit}")


def gate(host: Host, command: Sequence[str]) -> transport.Completed:
    """Runs the gate where the service will run; changes nothing."""
    return transport.run(host, shlex.join([*command, "--json"]), timeout=300)


def running(host: Host, units: Sequence[str]) -> bool:
    """Does any of these units run, or is it starting? What cannot be told counts as running."""
    if not units:
        return False
    done = transport.run(host, shlex.join(["systemctl", "is-active", *units]), timeout=60)
    states = done.text.split()
    return len(states) != len(units) or not set(states) <= {"inactive", "failed", "unknown"}
