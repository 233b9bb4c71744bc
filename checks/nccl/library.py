"""Which libnccl and libcudart an engine would load: the same places, in the same order.

vLLM reads VLLM_NCCL_SO_PATH and SGLang SGLANG_NCCL_SO_PATH; both else load ``libnccl.so.2``, which PyTorch has
by then loaded from the site-packages of its own environment.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from checks.errors import BadInput
from checks.nccl.binding import SONAME

NAMED = ("VLLM_NCCL_SO_PATH", "SGLANG_NCCL_SO_PATH")
ENVIRONMENTS = Path("/opt/kpro/envs")


class Candidate(NamedTuple):
    """A place of libnccl: ``how`` is who names it, ``home`` the environment's folder, if it is in one."""

    path: str
    how: str
    home: Path | None = None


def candidates(
    *,
    library: Path | None,
    env: Path | None,
    variables: Mapping[str, str],
    command: str | None,
    mapped: Iterable[str] = (),
    kept: Path = ENVIRONMENTS,
) -> list[Candidate]:
    """Where libnccl may be, first come first used; the last is the loader's own search.

    What the caller names (``library``, ``env``) stands alone. ``command`` is the program of a service,
    ``mapped`` the libraries a running engine has loaded. Raises BadInput when what is named is not there.
    """
    if library is not None:
        if not library.is_file():
            raise BadInput(f"--library {library} is no file; name a libnccl.so.2")
        return [Candidate(str(library.resolve()), "--library", home_of(library))]
    if env is not None:
        return [_named(env)]
    rows = [Candidate(variables[name], name) for name in NAMED if variables.get(name)]
    rows += [Candidate(path, "loaded by the running engine", home_of(Path(path))) for path in mapped]
    homes = [(environment_of(command), "the service's environment")] if command else []
    homes += [(home, "an environment of kpro") for home in sorted(kept.glob("*"))] if not homes else []
    homes += [(environment_of(program), f"the environment of {program}") for program in pythons()]
    for home, how in homes:
        if home is not None and (file := inside(home)) is not None:
            rows.append(Candidate(str(file), how, home))
    return [*rows, Candidate(SONAME, "the loader's search path")]


def _named(env: Path) -> Candidate:
    """What ``--env`` names: an environment, or the folders of a tree (``pip install --target``) joined by ``:``."""
    places = [Path(place) for place in str(env).split(os.pathsep)]
    if missing := [str(place) for place in places if not place.is_dir()]:
        raise BadInput(f"--env {', '.join(missing)} is no folder; name the root of a Python environment")
    for place in places:
        found = inside(place)
        if found is not None:
            return Candidate(str(found), f"--env {env}", place)
    raise BadInput(f"--env {env} holds no site-packages/nvidia/nccl/lib/{SONAME}; is an engine there?")


def pythons() -> list[str]:
    """The Python that runs this and the one on PATH."""
    found = [sys.executable, shutil.which("python3")]
    return list(dict.fromkeys(program for program in found if program))


def environment_of(program: str) -> Path | None:
    """``/x/env/bin/python`` -> ``/x/env``."""
    path = Path(program)
    return path.parent.parent if path.parent.name == "bin" else None


def inside(home: Path) -> Path | None:
    """libnccl in the site-packages of an environment, of the wheels nvidia-nccl-cu12 and -cu13."""
    return _first(_sites(home), (f"nvidia/nccl/lib/{SONAME}",))


def home_of(path: Path) -> Path | None:
    """The environment that a library inside a site-packages belongs to."""
    match = re.match(r"(.*)/lib/python[0-9.]+/(?:site|dist)-packages/", str(path))
    return Path(match[1]) if match else None


def runtimes(home: Path | None, mapped: Iterable[str] = ()) -> list[str]:
    """Where libcudart may be: loaded already, in the environment's wheels, the loader's search path."""
    from checks.nccl.runtime import SONAMES

    names = [f"nvidia/cu13/lib/{name}" for name in SONAMES]
    names += [f"nvidia/cuda_runtime/lib/{name}" for name in SONAMES]
    found = _first(_sites(home), names) if home is not None else None
    return [*mapped, *([str(found)] if found else []), *SONAMES]


def mapped_by(pid: int, word: str, proc: Path = Path("/proc")) -> list[str]:
    """The files of that name that a process has loaded. Raises BadInput when that cannot be read."""
    try:
        lines = (proc / str(pid) / "maps").read_text(errors="replace").splitlines()
    except OSError as error:
        raise BadInput(
            f"the libraries of process {pid} cannot be read: {error.strerror}; run as root"
        ) from None
    files = (line.split(None, 5)[-1] for line in lines if word in line)
    root = proc / str(pid) / "root"
    return list(dict.fromkeys(_seen_from_here(file, root) for file in files if file.startswith("/")))


def _seen_from_here(file: str, root: Path) -> str:
    return file if Path(file).exists() else f"{root}{file}"


def _sites(home: Path) -> list[Path]:
    return [
        *sorted(home.glob("lib/python3*/site-packages")),
        *sorted(home.glob("lib/python3*/dist-packages")),
        home,
    ]


def _first(sites: Iterable[Path], names: Iterable[str]) -> Path | None:
    places = (site / name for site in sites for name in names)
    return next((place for place in places if os.path.lexists(place)), None)
