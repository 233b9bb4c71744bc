"""Which model a folder holds: repository and commit where they are recorded, else a digest of what lies there. Pure.

Places: the hub's cache (``models--ORG--NAME/snapshots/COMMIT``, huggingface_hub, "Understand caching"), a folder that
was downloaded with ``--local-dir`` (``.cache/huggingface/download/*.metadata``: the first line is the commit), kpro's
own ``ORG--NAME@COMMIT``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from checks.snapshot import CouldNotLook, Snapshot
from provision.adopt.process import Process, quoted

_CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+)/snapshots/([0-9a-f]{40})/?$")
_KPRO = re.compile(r"([\w.-]+?)--([\w.-]+)@([0-9a-f]{40})/?$")


@dataclass(frozen=True)
class Identity:
    """A model: ``repo`` and ``revision``; ``folder`` where it lies; ``recorded``: the commit was read, else
    ``revision`` is a sha1 over names and sizes of the files."""

    repo: str
    revision: str
    folder: str
    recorded: bool


def cache_of(process: Process) -> str:
    """The hub's cache that a process reads (huggingface_hub: HF_HUB_CACHE, else HF_HOME/hub, else the home's)."""
    values = process.values
    if "HF_HUB_CACHE" in values:
        return values["HF_HUB_CACHE"]
    return f"{values.get('HF_HOME', f'{process.home}/.cache/huggingface')}/hub"


def requests(process: Process, model: str) -> list[str]:
    """What tells which files a process was started with. ``org/name`` may be a folder too, and engines look there
    first."""
    wanted = folder_requests(_folder(process, model))
    return [*wanted, f"file:{_cached(process, model)}/refs/main"] if _is_repository(model) else wanted


def folder_requests(folder: str) -> list[str]:
    """What tells which files lie in a folder."""
    return [f"cmd:{look_name(folder)}:{_look(folder)}"]


def look_name(folder: str) -> str:
    """A request's name ends at its first colon; the folder is a word of a process that anybody may have started."""
    return "model-" + folder.replace("%", "%25").replace(":", "%3A")


def _look(folder: str) -> str:
    return (
        f"cd {quoted(folder)} && pwd -P && find -L . -type f -not -path './.*' -printf '%s %P\\n' | sort -k2 && "
        "head -qn1 .cache/huggingface/download/*.metadata 2>/dev/null | sort -u | sed 's/^/commit=/'; :"
    )


def _cached(process: Process, model: str) -> str:
    return f"{cache_of(process)}/models--{model.replace('/', '--')}"


def _folder(process: Process, model: str) -> str:
    return model.rstrip("/") if model.startswith("/") else str(PurePosixPath(process.cwd) / model)


def _is_repository(model: str) -> bool:
    return re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", model) is not None


def identity(process: Process, model: str, snapshot: Snapshot) -> Identity:
    """Raises CouldNotLook when the files are not there, or the commit of a repository is not recorded."""
    folder = _folder(process, model)
    if _is_repository(model) and not snapshot.command(look_name(folder))[1].startswith("/"):
        place = _cached(process, model)
        commit = (snapshot.text(f"{place}/refs/main") or "").strip()
        if not re.fullmatch(r"[0-9a-f]{40}", commit):
            raise CouldNotLook(f"{place}/refs/main holds no commit of {model}")
        return Identity(model, commit, f"{place}/snapshots/{commit}", recorded=True)
    return identity_of_folder(folder, snapshot)


def identity_of_folder(folder: str, snapshot: Snapshot) -> Identity:
    """Raises CouldNotLook when nothing is there."""
    code, output = snapshot.command(look_name(folder))
    lines = output.splitlines()
    if code != 0 or not lines or not lines[0].startswith("/"):
        raise CouldNotLook(f"{folder}: {output.strip()[:200] or 'no such folder'}")
    for name in (lines[0], folder):
        match = _CACHED.search(name) or _KPRO.search(name)
        if match:
            return Identity(f"{match[1]}/{match[2]}", match[3], folder, recorded=True)
    files = [line for line in lines[1:] if not line.startswith("commit=")]
    if not files:
        raise CouldNotLook(f"{folder} holds no files")
    commits = {line.removeprefix("commit=") for line in lines if line.startswith("commit=")}
    name = re.sub(r"[^\w.-]", "-", PurePosixPath(folder).name) or "model"
    if len(commits) == 1 and re.fullmatch(r"[0-9a-f]{40}", commit := commits.pop()):
        return Identity(f"local/{name}", commit, folder, recorded=True)
    digest = hashlib.sha1("\n".join(files).encode(), usedforsecurity=False).hexdigest()
    return Identity(f"local/{name}", digest, folder, recorded=False)
