"""Step 8, engine environments: what is missing, what has changed, and why it cannot be made. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from checks.snapshot import Snapshot
from provision.plan import Item, Refusal, Step
from provision.stack.engine import libraries, preflight, tree
from provision.stack.engine.desired import ENVS, DesiredEngine, Shipped, Tree

UV = "/opt/kpro/bin/uv"


@dataclass(frozen=True)
class EngineBuild:
    """What the act of building an engine environment needs."""

    engine: DesiredEngine
    uv: Shipped | None
    jobs: int | None = None
    """Compilers at once; None where nothing is compiled."""


def requests(engines: Sequence[DesiredEngine]) -> list[str]:
    """What the snapshot of a guest has to look at."""
    wanted = [f"sha:{UV}", f"dir:{ENVS}", *libraries.requests(engines)]
    if any(engine.tree is None for engine in engines):
        wanted.append(f"cmd:{preflight.NAME}:{preflight.LOOK}")
    for engine in engines:
        wanted.append(f"file:{engine.marker}")
        if engine.tree is not None:
            wanted.append(f"cmd:{tree.name(engine)}:{tree.look(engine, engine.tree)}")
    return wanted


def engine_items(
    engine: DesiredEngine,
    host: str,
    inside: Snapshot | None,
    uv: Shipped | None,
    refusals: list[Refusal],
    where: str,
) -> list[Item]:
    """What is to be done for one environment. Raises CouldNotLook."""
    refusals += libraries.missing(engine, inside, f"{where}.engine")
    marker = _marker(inside, engine)
    if engine.tree is not None:
        return _of_tree(engine, engine.tree, host, inside, uv, refusals, f"{where}.engine")
    if marker.get("digest") == engine.digest:
        return []
    if uv is None:
        raise ValueError(f"{engine.path} is to be built, and uv was not brought along")
    items = []
    if inside is None or inside.digest(UV) != uv.sha256:
        items.append(Item(Step.STACK, "stack.uv", host, "uv", f"put {UV}", uv))
    jobs = None
    if inside is not None:
        room = preflight.parse(inside.command(preflight.NAME)[1])
        refusals += preflight.refusals(engine, room, f"{where}.engine")
        jobs = preflight.jobs(engine, room)
    text = f"build {engine.path} with {_contents(engine)}"
    return [*items, _build(engine, host, uv, text + (f", {jobs} compiler(s) at once" if jobs else ""), jobs)]


def earlier(engines: Sequence[DesiredEngine], inside: Snapshot | None) -> list[str]:
    """What to know of environments that no profile of the inventory needs: they are the way back, and take room."""
    if inside is None:
        return []
    now = {engine.name for engine in engines}
    there = sorted((inside.data("dir", ENVS) or b"").decode(errors="replace").split())
    old = [name for name in there if name not in now]
    if not old:
        return []
    more = f" and {len(old) - 1} more" if len(old) > 1 else ""
    return [f"kept for the way back in {ENVS}: {old[0]}{more} (which can go: docs/engines.md)"]


def _of_tree(
    engine: DesiredEngine,
    of: Tree,
    host: str,
    inside: Snapshot | None,
    uv: Shipped | None,
    refusals: list[Refusal],
    where: str,
) -> list[Item]:
    text = (
        f"make {engine.path}: {engine.requirement} as it lies in {', '.join(of.folders)}, by {of.interpreter}"
    )
    if inside is None:
        return [_build(engine, host, uv, text)]
    seen = tree.parse(inside.command(tree.name(engine))[1])
    reasons = list(tree.refusals(engine, of, seen, where))
    refusals += reasons
    marker = _marker(inside, engine)
    if reasons or (marker.get("digest"), marker.get("tree")) == (engine.digest, seen.digest):
        return []
    if marker.get("digest") == engine.digest:
        text = (
            f"see {engine.path} import again: what lies in {', '.join(of.folders)} is not what was verified"
        )
    return [_build(engine, host, uv, text)]


def _contents(engine: DesiredEngine) -> str:
    """What goes into an environment, as the plan shows it."""
    source = "a wheelhouse, offline" if engine.wheels else "the guest's Python index"
    if engine.checkout is not None:
        source = f"commit {engine.checkout.commit[:12]} of {engine.checkout.repository}"
    text = f"{engine.requirement} from {source}"
    if engine.lock is not None:
        text += f", locked ({engine.lock.sha256[:12]}{'' if engine.lock.given else ', by a build before'})"
    return text + "".join(f", patched by {patch.name} ({patch.why})" for patch in engine.patches)


def _build(engine: DesiredEngine, host: str, uv: Shipped | None, text: str, jobs: int | None = None) -> Item:
    return Item(Step.STACK, "stack.engine", host, engine.path, text, EngineBuild(engine, uv, jobs))


def _marker(inside: Snapshot | None, engine: DesiredEngine) -> dict[str, object]:
    """What the environment says of itself; nothing where it was never finished."""
    text = inside.text(engine.marker) if inside is not None else None
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
