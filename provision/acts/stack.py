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
from provision.run.journal import now
from provision.stack.decide import UID, EngineBuild, Shipped
from provision.stack.desired import LOCK, MANIFEST, PYZ, UV, DesiredService
from provision.stack.models import ModelPut

_BASE = f"""
set -u
getent group kpro >/dev/null || groupadd --gid {UID} kpro || exit 1
getent passwd kpro >/dev/null || useradd --uid {UID} --gid kpro --no-create-home --home-dir /var/cache/kpro \
  --shell /usr/sbin/nologin kpro || exit 1
[ "$(id -u kpro)" = {UID} ] || {{ echo "user kpro has another uid than {UID}" >&2; exit 1; }}
"""

_ENGINE = """
set -u
env={env} marker={marker} digest={digest}
fail() {{ printf '%s\\n' "$1" >&2; exit 1; }}
# A marker counts by what it says: an interrupted build may have left an empty one.
! grep -q "\"digest\": \"$digest\"" "$marker" 2>/dev/null || exit 0
for line in /proc/[0-9]*/cmdline; do
  if tr '\\0' '\\n' <"$line" 2>/dev/null | head -n 2 | grep -q "^$env/"; then
    fail "$env is in use by ${{line%/cmdline}} though its marker is missing; stop that process, then run again"
  fi
done
# Without its marker the environment is what an interrupted build left.
rm -rf --one-file-system -- "$env" || exit 1
export UV_CACHE_DIR=/var/cache/kpro/uv UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
{uv} venv --quiet --python {python} "$env" || fail "no environment with Python {python} could be made in the guest"
{uv} pip install --quiet --python "$env/bin/python" {source} {requirement} ||
  fail "{name} could not be installed"
"$env/bin/python" -c 'import {module}' || fail "{name} cannot be imported"
{uv} pip freeze --python "$env/bin/python" >"$env/kpro-packages.txt" || exit 1
printf '%s\\n' {content} >"$marker.partial" && sync -f "$marker.partial" && mv -f "$marker.partial" "$marker" &&
  sync "$env"
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
        elif folder.endswith(("/staged", "/good")):
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


def build_engine(host: Host, build: EngineBuild, say: Voice) -> None:
    """Builds the environment, sees its module imported, and only then writes the marker that makes it count."""
    engine = build.engine
    source = ""
    if engine.wheels:
        _put_wheels(host, build, say)
        # uv's cache goes by name and version: a wheel that was built anew under the same ones would not be noticed.
        source = f"--no-cache --offline --no-index --find-links {shlex.quote(engine.wheel_folder)}"
    requirement = shlex.quote(engine.requirement)
    if engine.lock is not None:
        lock = f"{engine.wheel_folder}/{LOCK}"
        shell.put(host, lock, engine.lock.encode(), mode="644")
        # The lock is the whole of it: an engine's own dependencies may name builds that do not go together.
        requirement = f"--no-deps -r {shlex.quote(lock)}"
    marker = {"digest": engine.digest, "requirement": engine.requirement, "built": now()}
    script = _ENGINE.format(
        content=shlex.quote(json.dumps(marker)),
        env=shlex.quote(engine.path),
        marker=shlex.quote(engine.marker),
        digest=engine.digest,
        uv=UV,
        python=shlex.quote(engine.python),
        source=source,
        requirement=requirement,
        name=engine.requirement,
        module=", ".join((engine.module, *engine.native)),
    )
    say(f"building {engine.path}")
    shell.run(host, script, f"building {engine.path}")


def _put_wheels(host: Host, build: EngineBuild, say: Voice) -> None:
    folder = build.engine.wheel_folder
    there = _digests(host, folder)
    for wheel in build.engine.wheels:
        if there.get(wheel.name) != wheel.sha256:
            shell.put_file(host, str(wheel.path), f"{folder}/{wheel.name}", mode="644", say=say)


def _digests(host: Host, folder: str) -> dict[str, str]:
    """sha256 of every file under a folder of the host, by relative path; the folder is made if it is missing."""
    quoted = shlex.quote(folder)
    script = f"umask 022; mkdir -p -- {quoted} && cd {quoted} && "
    script += "find . -type f ! -name '.kpro-put.*' -exec sha256sum -z {} +"
    text = shell.run(host, script, f"reading {folder}")
    pairs = (entry.split("  ./", 1) for entry in text.split("\0") if entry)
    return {path: digest for digest, path in pairs}


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
    there = _digests(host, staging)
    missing = [path for path, digest in wanted.items() if there.get(path) != digest]
    folders = sorted({f"{staging}/{path}".rsplit("/", 1)[0] for path in missing})
    if folders:
        shell.run(host, "umask 022; mkdir -p -- " + shlex.join(folders), f"making the folders of {staging}")
    for number, path in enumerate(missing, 1):
        say(f"{directory}: {path} ({number} of {len(missing)})")
        shell.put_file(host, str(model.folder / path), f"{staging}/{path}", mode="644", say=say)
    there = _digests(host, staging)
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
    checked = f"{desired.staged_folder}/.check/{desired.service.unit}"
    folders = shlex.join(["/etc/kpro/staged", desired.staged_folder, f"{desired.staged_folder}/.check"])
    shell.run(host, f"install -d -m 700 {folders} /etc/kpro/records", "making the folders of what is staged")
    if desired.record is not None:
        shell.put(host, desired.record_path, desired.record, mode="644")
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
