"""The act of building an engine environment inside a guest."""

from __future__ import annotations

import json
import shlex

from pyinfra.api.host import Host

from provision.acts import engine_tree, shell
from provision.acts.voice import Voice
from provision.run.journal import now
from provision.stack.engine.decide import UV, EngineBuild
from provision.stack.engine.desired import LOCK

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


def build_engine(host: Host, build: EngineBuild, say: Voice) -> None:
    """Builds the environment, sees its module imported, and only then writes the marker that makes it count."""
    engine = build.engine
    if engine.tree is not None:
        engine_tree.make(host, engine, engine.tree, say)
        return
    source = ""
    if engine.wheels:
        _put_wheels(host, build, say)
        # uv's cache goes by name and version: a wheel that was built anew under the same ones would not be noticed.
        source = f"--no-cache --offline --no-index --find-links {shlex.quote(engine.wheel_folder)}"
    requirement = shlex.quote(engine.requirement)
    if engine.lock is not None:
        lock = f"{engine.wheel_folder}/{LOCK}"
        shell.put(host, lock, engine.lock.encode(), mode="644")
        # The lock is the whole of it: what an engine names as its dependencies may be builds that do not go together.
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
    there = shell.digests(host, folder)
    for wheel in build.engine.wheels:
        if there.get(wheel.name) != wheel.sha256:
            shell.put_file(host, str(wheel.path), f"{folder}/{wheel.name}", mode="644", say=say)
