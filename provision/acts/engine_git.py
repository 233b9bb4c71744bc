"""The act of building an engine from a commit of its repository: checked out, patched, made a wheel in the guest."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.acts import engine_patch, shell
from provision.acts.voice import Voice
from provision.run.errors import ActFailed
from provision.stack.engine.decide import UV
from provision.stack.engine.desired import Checkout, DesiredEngine

_CHECKOUT = """
set -u
src={folder} repository={repository} commit={commit}
export GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=0
# Another owner of a repository that is bound in is no reason: the commit says what it holds.
git() {{ command git -c safe.directory='*' -c protocol.file.allow=always -c advice.detachedHead=false "$@"; }}
rm -rf --one-file-system -- "$src" && mkdir -p -- "$src" && cd "$src" || exit 1
git init --quiet . || exit 1
# One commit is enough; a server that gives none by its name gives everything.
git fetch --quiet --depth 1 "$repository" "$commit" 2>/dev/null ||
  git fetch --quiet --tags "$repository" '+refs/heads/*:refs/kpro/*' || exit 1
git checkout --quiet --force "$commit" || exit 1
[ "$(git rev-parse HEAD)" = "$commit" ] || {{ echo "checked out is not $commit" >&2; exit 1; }}
git submodule update --quiet --init --recursive --depth 1 || exit 1
"""
_BUILD = """
export SETUPTOOLS_SCM_PRETEND_VERSION={version} {jobs}
cd {folder} && {{ {uv} build $KPRO_UV_FLAGS --wheel --quiet --python {python} --out-dir {out} {what} && \
echo done >{out}.done; }} {says}
[ -e {out}.done ] || {{ echo "the checkout could not be built" >&2; exit 1; }}
rm -rf --one-file-system -- {out}.done {folder}
"""
_SAYS = r"2>&1 | tail -n 40 | sed -E 's#://[^/@[:space:]]+@#://***@#g' >&2"


def build(
    host: Host, engine: DesiredEngine, checkout: Checkout, jobs: int | None, prelude: str, say: Voice
) -> None:
    """Leaves one wheel beside the environment. ``jobs``: compilers at once, None where nothing is compiled. Raises
    ActFailed."""
    folder = shlex.quote(engine.source_folder)
    script = _CHECKOUT.format(
        folder=folder, repository=shlex.quote(checkout.repository), commit=shlex.quote(checkout.commit)
    )
    say(f"checking out {checkout.commit}")
    shell.run(host, script, f"checking out {checkout.commit}")
    if engine.patches:
        engine_patch.patch(host, engine, engine.source_folder, checkout.commit[:12], say)
    script = _BUILD.format(
        version=shlex.quote(engine.version),
        jobs=f"MAX_JOBS={jobs} NVCC_THREADS=1 CMAKE_BUILD_PARALLEL_LEVEL={jobs}" if jobs is not None else "",
        folder=folder,
        uv=UV,
        python=shlex.quote(engine.python_path),
        out=shlex.quote(_out(engine)),
        what=shlex.quote(f"./{checkout.subdirectory}"),
        says=_SAYS,
    )
    say(f"building {engine.requirement} from {checkout.commit[:12]}")
    shell.run(host, prelude + script, f"building {engine.requirement} from {checkout.commit[:12]}")


def _out(engine: DesiredEngine) -> str:
    return f"{engine.path}/kpro-wheel"


def _wheel(host: Host, engine: DesiredEngine) -> str:
    """The path of the wheel that was built; it is the engine and the version that the inventory names."""
    text = shell.run(host, f"cd {shlex.quote(_out(engine))} && ls", "looking for the wheel that was built")
    names = [name for name in text.splitlines() if name.endswith(".whl")]
    wanted = f"{engine.distribution}-{engine.version}"
    if len(names) != 1 or not names[0].startswith((f"{wanted}-", f"{wanted}+")):
        raise ActFailed(
            f"the commit builds {', '.join(names) or 'no wheel'}, and the inventory says {engine.requirement}: flags "
            "and profiles are those of that version; correct version or commit"
        )
    return f"{_out(engine)}/{names[0]}"


def wheel_requirement(host: Host, engine: DesiredEngine) -> str:
    """What the dependencies are settled for."""
    return f"{engine.requirement.partition('==')[0]} @ file://{_wheel(host, engine)}"


def install(host: Host, engine: DesiredEngine) -> None:
    """Puts the wheel beside its dependencies, which the lock has installed."""
    wheel, python = shlex.quote(_wheel(host, engine)), shlex.quote(engine.python_path)
    script = f"{UV} pip install --quiet --no-cache --offline --no-index --no-deps --python {python} {wheel}"
    shell.run(host, script, f"installing {engine.requirement}")
