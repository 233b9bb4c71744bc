"""The act of building an engine environment inside a guest."""

from __future__ import annotations

import json
import shlex
from importlib.resources import files

from pyinfra.api.host import Host

from provision.acts import engine_git, engine_patch, engine_tree, shell
from provision.acts.voice import Voice
from provision.run.errors import ActFailed
from provision.run.journal import now
from provision.stack.engine import locks
from provision.stack.engine.decide import UV, EngineBuild
from provision.stack.engine.desired import DesiredEngine, Lock

_VENV = """
set -u
env={env}
for line in /proc/[0-9]*/cmdline; do
  if tr '\\0' '\\n' <"$line" 2>/dev/null | head -n 2 | grep -q "^$env/"; then
    echo "$env is in use by ${{line%/cmdline}} though its marker is missing; stop that process, then run again" >&2
    exit 1
  fi
done
# Without its marker the environment is what an interrupted build left.
rm -rf --one-file-system -- "$env" || exit 1
UV_PYTHON_DOWNLOADS=never {uv} venv --quiet --no-project --python {python} "$env" ||
  {{ echo "no environment with Python {python} could be made in the guest" >&2; exit 1; }}
"""

_UV = """
set -u
export UV_CACHE_DIR=/var/cache/kpro/uv UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1
unset KPRO_UV_FLAGS
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
{settings}
: "${{KPRO_UV_FLAGS:=}}"
"""
_SETTINGS = """\
settings=$(unset SSL_CERT_FILE; python3 - <<'KPRO'
{program}
KPRO
) || exit 1
eval "$settings"
"""
# What uv says of an index may show its address with the password of it.
_SAYS = r"2>&1 | sed -E 's#://[^/@[:space:]]+@#://***@#g' >&2"

_RESOLVE = """
printf '%s\\n' {wanted} | {{ {uv} pip compile - $KPRO_UV_FLAGS {source} --python {python} --quiet --generate-hashes \
  --no-annotate --no-header --no-emit-index-url {leave} -o {lock} && echo done >{lock}.done; }} {says}
[ -e {lock}.done ] || {{ echo "the packages of {name} could not be settled" >&2; exit 1; }}
rm -f -- {lock}.done
"""
# The service's user cannot write here: what is not compiled now, each of its processes would compile at every start.
_INSTALL = """
{{ {uv} pip install $KPRO_UV_FLAGS {source} --python {python} --quiet --compile-bytecode {how} -r {lock} && \
echo done >{lock}.done; }} {says}
[ -e {lock}.done ] || {{ echo "{name} could not be installed" >&2; exit 1; }}
rm -rf -- {lock}.done {unpacked}
"""
_PROVE = """
set -u
cd / && {python} -c 'import {modules}' || {{ echo "{name} cannot be imported" >&2; exit 1; }}
{uv} pip freeze --python {python} >{env}/kpro-packages.txt
"""


def build_engine(host: Host, build: EngineBuild, say: Voice) -> None:
    """Builds the environment, sees its modules imported, and only then writes the marker that makes it count.

    Raises ActFailed. What was there before is another folder, and untouched.
    """
    engine = build.engine
    if engine.tree is not None:
        engine_tree.make(host, engine, engine.tree, say)
        return
    say(f"building {engine.path}")
    env, python = shlex.quote(engine.path), shlex.quote(engine.python_path)
    shell.run(host, _VENV.format(env=env, uv=UV, python=shlex.quote(engine.python)), f"making {engine.path}")
    if engine.wheels:
        _put_wheels(host, engine, say)
    if engine.checkout is not None:
        engine_git.build(host, engine, engine.checkout, build.jobs, prelude(engine), say)
    lock = _locked(host, engine, say)
    say(f"installing {engine.requirement} by {locks.NAME} ({lock.sha256[:12]})")
    # A lock that was given is the whole of it: an engine's own dependencies may name builds that do not go together.
    how = "--require-hashes" + (" --no-deps" if lock.given else "")
    script = _INSTALL.format(
        uv=UV,
        source=_source(engine),
        python=python,
        how=how,
        lock=f"{env}/{locks.NAME}",
        unpacked=shlex.quote(_unpacked(engine)),
        name=engine.requirement,
        says=_SAYS,
    )
    shell.run(host, prelude(engine) + script, f"installing {engine.requirement}")
    if engine.checkout is not None:
        engine_git.install(host, engine)
    elif engine.patches:
        engine_patch.patch_installed(host, engine, say)
    prove = _PROVE.format(
        python=python, modules=", ".join(engine.modules), name=engine.requirement, uv=UV, env=env
    )
    shell.run(host, prove, f"importing {engine.module}")
    _mark(host, engine, lock)


def _mark(host: Host, engine: DesiredEngine, lock: Lock) -> None:
    shell.run(host, f"sync -f {shlex.quote(engine.path)}", f"writing out {engine.path}")
    marker = {
        "digest": engine.digest,
        "requirement": engine.requirement,
        "lock": lock.sha256,
        "patches": [{"name": p.name, "sha256": p.sha256, "why": p.why} for p in engine.patches],
        "built": now(),
    }
    if engine.checkout is not None:
        marker |= {"repository": engine.checkout.repository, "commit": engine.checkout.commit}
    shell.put(host, engine.marker, f"{json.dumps(marker)}\n".encode(), mode="644")


def prelude(engine: DesiredEngine) -> str:
    """What comes before uv: its folders, and what the guest's pip is set up with, where an index is asked."""
    if engine.wheels:
        return _UV.format(settings="")
    program = (files("provision.stack.engine") / "pip_settings.py").read_text("utf-8")
    return _UV.format(settings=_SETTINGS.format(program=program))


def _source(engine: DesiredEngine) -> str:
    if not engine.wheels:
        return ""
    # uv's cache goes by name and version: a wheel that was built anew under the same ones would not be noticed. One of
    # its own, in the environment, gives its files by links; a guest's /tmp may be memory, and an engine has gigabytes.
    cache = f"--cache-dir {shlex.quote(_unpacked(engine))} --link-mode hardlink"
    return f"{cache} --offline --no-index --find-links {shlex.quote(engine.wheel_folder)}"


def _unpacked(engine: DesiredEngine) -> str:
    return f"{engine.path}/.unpacked"


def _locked(host: Host, engine: DesiredEngine, say: Voice) -> Lock:
    """Puts the lock beside the environment; the first build of it settles one. Raises ActFailed."""
    path = f"{engine.path}/{locks.NAME}"
    if engine.lock is not None:
        shell.put(host, path, engine.lock.text.encode(), mode="644")
        return engine.lock
    say(f"settling the packages of {engine.requirement}")
    wheel = engine_git.wheel_requirement(host, engine) if engine.checkout is not None else None
    overrides = f"{path}.without"
    without = "".join(f"{name}; sys_platform == 'never'\n" for name in engine.left_out)
    shell.put(host, overrides, without.encode(), mode="644")
    leave = f"--override {shlex.quote(overrides)}" if engine.left_out else ""
    if wheel is not None:
        leave += f" --no-emit-package {shlex.quote(engine.requirement.partition('==')[0])}"
    script = _RESOLVE.format(
        wanted=shlex.quote(wheel or engine.requirement),
        uv=UV,
        source=_source(engine),
        python=shlex.quote(engine.python_path),
        leave=leave,
        lock=shlex.quote(path),
        name=engine.requirement,
        says=_SAYS,
    )
    shell.run(host, prelude(engine) + script, f"settling the packages of {engine.requirement}")
    text = shell.run(host, f"rm -f -- {shlex.quote(overrides)}; cat {shlex.quote(path)}", f"reading {path}")
    required = None if engine.checkout is not None else engine.requirement
    wrong = list(locks.wrong(text, required))
    if wrong:
        raise ActFailed(f"what uv settled on for {engine.requirement} is no lock: {'; '.join(wrong)}")
    try:
        say(f"the lock is kept in {locks.keep(engine.name, text)}")
    except OSError as error:
        raise ActFailed(f"the lock of {engine.name} cannot be kept in {locks.folder()}: {error}") from error
    return Lock(text, given=False)


def _put_wheels(host: Host, engine: DesiredEngine, say: Voice) -> None:
    folder = engine.wheel_folder
    there = shell.digests(host, folder)
    for wheel in engine.wheels:
        if there.get(wheel.name) != wheel.sha256:
            shell.put_file(host, str(wheel.path), f"{folder}/{wheel.name}", mode="644", say=say)
