"""Observes: reads the drafter's and the target's folders, bounded, and brings them into typed values.

Anything that cannot be trusted (cut-off or lying headers, monstrous configs) raises BadInput: that is the
caller's bad input, exit code 2, not a judgement about a drafter.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path

from checks.bounded_json import BadJson, read_object
from checks.drafter.config import ModelConfig, parse
from checks.drafter.folder import Folder
from checks.drafter.tokenizer import read_tokens
from checks.errors import BadInput
from checks.safetensors import BadSafetensors, Tensor, read_header

MAX_CONFIG_BYTES = 4 * 2**20
MAX_INDEX_BYTES = 16 * 2**20
MAX_FILES = 1024
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


def read_drafter(path: Path) -> Folder:
    """Reads a drafter: a folder, or one bare .safetensors or .gguf file. Raises BadInput."""
    folder = _folder(path)
    only = path if path != folder else None
    gguf = (
        [only] if only and only.suffix == ".gguf" else sorted(folder.glob("*.gguf")) if only is None else []
    )
    if gguf and gguf[0] is not None and not any(folder.glob("*.safetensors")):
        return _read_gguf(folder, gguf[0])
    return _read(folder, with_tensors=True, only=only)


def read_target(path: Path, *, with_tensors: bool) -> Folder:
    """Reads the target: its config is needed, its weights only where multi-token prediction is judged."""
    model = _read(_folder(path), with_tensors=with_tensors, only=None)
    if model.config is None:
        raise BadInput(
            f"the target folder {path} has no config.json, so nothing can be compared; "
            "fetch the target's config.json (a few kilobytes, no weights needed)"
        )
    return model


def _folder(path: Path) -> Path:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read ({error.strerror}); give the folder that holds config.json"
        ) from None
    if stat.S_ISDIR(mode):
        return path
    if stat.S_ISREG(mode) and path.suffix in {".safetensors", ".gguf"}:
        return path.parent
    raise BadInput(f"{path} is neither a folder nor a .safetensors or .gguf file")


def _read(folder: Path, *, with_tensors: bool, only: Path | None) -> Folder:
    try:
        config_file = folder / "config.json"
        config = parse(read_object(config_file, MAX_CONFIG_BYTES)) if config_file.exists() else None
        wanted, absent = _weight_files(folder, only) if with_tensors else ([], [])
        tensors: dict[str, Tensor] = {}
        digests: list[str] = []
        size = 0
        for file in wanted:
            header = read_header(file)
            tensors.update(header.tensors)
            digests.append(header.digest)
            size += header.file_bytes
        tokens = read_tokens(folder)
    except (BadJson, BadSafetensors) as error:
        raise BadInput(f"{folder}: {error}") from None
    except OSError as error:
        raise BadInput(f"{error.filename or folder} cannot be read ({error.strerror})") from None
    return Folder(
        str(folder),
        config,
        tensors,
        tuple(file.name for file in wanted),
        tuple(absent),
        size,
        tuple(digests),
        _revisions(folder, config),
        tokens,
    )


def _weight_files(folder: Path, only: Path | None) -> tuple[list[Path], list[str]]:
    if only is not None:
        return [only], []
    index = folder / "model.safetensors.index.json"
    if index.exists():
        mapping = read_object(index, MAX_INDEX_BYTES).get("weight_map")
        if not isinstance(mapping, dict) or not all(isinstance(name, str) for name in mapping.values()):
            raise BadInput(f"{index} has no proper weight_map; download it again")
        names = sorted(set(mapping.values()))
        if any("/" in name or name.startswith(".") for name in names):
            raise BadInput(f"{index} points outside its folder; do not use it")
    else:
        names = sorted(file.name for file in folder.glob("*.safetensors"))
    if len(names) > MAX_FILES:
        raise BadInput(f"{folder} has {len(names)} weight files; more than {MAX_FILES} are not read")
    present = [folder / name for name in names if (folder / name).exists()]
    return present, [name for name in names if not (folder / name).exists()]


def _read_gguf(folder: Path, file: Path) -> Folder:
    from checks.drafter.gguf import BadGguf, read_metadata, to_config

    try:
        config = parse(to_config(read_metadata(file)), fmt="gguf")
    except BadGguf as error:
        raise BadInput(f"{folder}: {error}") from None
    except OSError as error:
        raise BadInput(f"{file} cannot be read ({error.strerror})") from None
    return Folder(str(folder), config, files=(file.name,), revisions=_revisions(folder, config))


def _revisions(folder: Path, config: ModelConfig | None) -> dict[str, str]:
    """Commits named by the folder (``name@commit``), the hub cache, or the downloader's own notes."""
    found: dict[str, str] = {}
    resolved = folder.resolve()
    for part in (folder, resolved):
        if _COMMIT.fullmatch(commit := part.name.rpartition("@")[2]) and "@" in part.name:
            found.setdefault(commit, "the folder's name")
        if part.parent.name == "snapshots" and _COMMIT.fullmatch(part.name):
            found.setdefault(part.name, "the hub cache")
    notes = folder / ".cache" / "huggingface" / "download"
    for note in sorted(notes.glob("*.metadata"))[:64] if notes.is_dir() else []:
        with note.open("rb") as stream:
            first = stream.read(80).split(b"\n")[0].decode("ascii", "replace").strip()
        if _COMMIT.fullmatch(first):
            found.setdefault(first, f"the download note of {note.name.removesuffix('.metadata')}")
    if config and config.revision and _COMMIT.fullmatch(config.revision):
        found.setdefault(config.revision, "config.json")
    return found
