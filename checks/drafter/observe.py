"""Observes: reads both folders (and relatives, where asked) and builds the case that the doctor judges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from checks.drafter.case import Case, kind_of
from checks.drafter.config import ModelConfig, parse
from checks.drafter.engine import Engine
from checks.drafter.expected import Siblings, expected_values
from checks.drafter.files import MAX_CONFIG_BYTES, read_drafter, read_target
from checks.drafter.folder import Folder
from checks.drafter.tokenizer import is_ordinary
from checks.drafter.weights import derive
from checks.errors import BadInput


def observe(
    drafter_path: Path,
    target_path: Path,
    engine: Engine,
    *,
    k: int | None = None,
    context: int | None = None,
) -> Case:
    """Reads everything but relatives. Raises BadInput for paths and files that cannot be judged."""
    drafter = read_drafter(drafter_path)
    same = (
        Path(drafter.path).resolve()
        == (target_path if target_path.is_dir() else target_path.parent).resolve()
    )
    target = drafter if same and drafter.config is not None else read_target(target_path, with_tensors=False)
    return build(drafter, target, engine, same=same, k=k, context=context)


def build(
    drafter: Folder,
    target: Folder,
    engine: Engine,
    *,
    same: bool = False,
    k: int | None = None,
    context: int | None = None,
    siblings: Siblings | None = None,
) -> Case:
    """The case of two models already read.

    Looks the mask id up in the target's tokenizer (the one read here).
    """
    shape = derive(drafter.tensors) if drafter.tensors else None
    if same:
        shape = replace(shape, kind="mtp") if shape else None
    kind = "mtp" if same else kind_of(drafter.config, shape)
    goal = target.config or ModelConfig()
    case = Case(
        drafter,
        target,
        engine,
        shape,
        expected_values(shape, drafter.config, goal, kind, drafter.label, siblings),
        k=k,
        context=context,
        in_target=same,
    )
    mask = drafter.config.mask if drafter.config else None
    if mask is None or target.tokens is None:
        return case
    try:
        ordinary = is_ordinary(target.tokens, mask)
    except OSError as error:
        raise BadInput(f"{target.tokens.vocabulary} cannot be read ({error.strerror})") from None
    return replace(case, mask_ordinary=ordinary, mask_text=target.tokens.added.get(mask))


def local_siblings(folder: Path) -> list[tuple[str, ModelConfig]]:
    """The configs of relatives in a folder: ``*/config.json`` and ``*.json``. Raises BadInput."""
    from checks.bounded_json import BadJson, read_object

    if not folder.is_dir():
        raise BadInput(
            f"--siblings: {folder} is no folder; give one that holds configs of published relatives"
        )
    found: list[tuple[str, ModelConfig]] = []
    for file in [*sorted(folder.glob("*/config.json")), *sorted(folder.glob("*.json"))][:64]:
        try:
            config = parse(read_object(file, MAX_CONFIG_BYTES))
        except BadJson as error:
            raise BadInput(f"--siblings: {file}: {error}") from None
        except OSError as error:
            raise BadInput(f"--siblings: {file} cannot be read ({error.strerror})") from None
        found.append((file.parent.name if file.name == "config.json" else file.stem, config))
    return found


def original_config(folder: Path) -> dict[str, object] | None:
    """The config.json that is there, as it stands; None where there is none. Raises BadInput."""
    from checks.bounded_json import BadJson, read_object

    file = folder / "config.json"
    if not file.exists():
        return None
    try:
        return read_object(file, MAX_CONFIG_BYTES)
    except BadJson as error:
        raise BadInput(f"{folder}: {error}") from None
    except OSError as error:
        raise BadInput(f"{file} cannot be read ({error.strerror})") from None
