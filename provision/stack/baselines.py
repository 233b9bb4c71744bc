"""What a service did when it was well: which reading belongs to which profile, which one is kept. Pure.

A reading belongs to a model and its commit, an engine and the digest of its environment, the GPUs, and the prompts
that it was measured with: ``/var/lib/kpro/baselines/<service>/<key>.json``, as ``provcheck serve --save-baseline``
writes it, and ``kpro``: who took it, for what. ``<key>.<profile>.json`` is the reading of one profile among those: what
was measured before is held against itself, what is new against the best of its kind. ``stated.json`` is what the
inventory says (``Service.baseline``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checks.data import prompts
from checks.serving.baseline import SCHEMA
from provision.data import noise
from provision.spec import Baseline, Guest, Machine
from provision.stack.desired import DesiredService
from provision.stack.figures import number

FOLDER = "/var/lib/kpro/baselines"
STATED = "stated"
PROMPTS = f"shipped/{prompts.VERSION}"


@dataclass(frozen=True)
class Belongs:
    """What a reading belongs to. ``gpus``: their models, one word for each."""

    model: str
    engine: str
    environment: str
    gpus: tuple[str, ...]
    prompts: str = PROMPTS

    @property
    def key(self) -> str:
        """Twelve hex digits."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()[:12]

    def as_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "engine": self.engine,
            "environment": self.environment,
            "gpus": list(self.gpus),
            "prompts": self.prompts,
        }


@dataclass(frozen=True)
class Reading:
    """``tok_s`` decode tokens/s of one request, ``length`` the mean acceptance length (None without speculation);
    ``belongs``, ``run``, ``digest`` (the profile that it was taken of), ``shape`` (``sameness.shape`` of that) as far
    as the file says them."""

    key: str
    tok_s: float
    length: float | None = None
    taken: str = ""
    run: str = ""
    digest: str = ""
    source: str = ""
    shape: str = ""
    belongs: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "tok_s": self.tok_s,
            "acceptance_length": self.length,
            "taken": self.taken,
            "run": self.run,
            "profile": self.digest,
            "source": self.source,
            "belongs_to": dict(self.belongs) if self.belongs else None,
        }


class NoReading(ValueError):
    """The file is there and holds no reading; the text says what it holds."""


def belongs(machine: Machine, guest: Guest, desired: DesiredService) -> Belongs:
    """What a reading of this profile in this guest belongs to."""
    service = desired.service
    models = {gpu.bdf: gpu.model for gpu in machine.gpus}
    return Belongs(
        f"{service.model.repo}@{service.model.revision}",
        f"{service.engine.kind} {service.engine.version}",
        desired.engine.digest[:12],
        tuple(sorted(models.get(bdf, "a GPU") for bdf in guest.gpus)),
    )


def path(service: str, key: str) -> str:
    return f"{FOLDER}/{service}/{key}.json"


def own_key(key: str, digest: str) -> str:
    """The key of a profile's own reading."""
    return f"{key}.{digest[:12]}"


def fresh(kept: str) -> str:
    """Where a measurement lies until it is decided whether it takes the place of the kept one."""
    return f"{kept.removesuffix('.json')}.fresh"


def read(key: str, text: str | None) -> Reading | None:
    """A kept reading; None when there is no file. Raises NoReading."""
    if text is None:
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise NoReading("it is no JSON") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise NoReading(f"it is no {SCHEMA}")
    tok_s = number(data.get("tok_s"))
    if not tok_s:
        raise NoReading("it has no decode speed")
    by = data.get("kpro")
    by = by if isinstance(by, dict) else {}
    belongs = by.get("belongs")
    return Reading(
        key,
        tok_s,
        number(data.get("length")),
        taken=_text(data.get("taken")),
        run=_text(by.get("run")),
        digest=_text(by.get("digest")),
        source=_text(by.get("source")),
        shape=_text(by.get("shape")),
        belongs=belongs if isinstance(belongs, dict) else None,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def stated(baseline: Baseline) -> bytes:
    """The figure of an inventory as a file that ``provcheck serve --baseline`` reads. Its ``method`` makes it count
    for a run with speculation as for one without; lengths and steps are not in it, so none are compared."""
    rate = (
        {"tok_s": baseline.decode_tok_s}
        if baseline.concurrency == 1
        else {
            "tok_s": None,
            "by_concurrency": {str(baseline.concurrency): baseline.decode_tok_s},
        }
    )
    data = {
        "schema": SCHEMA,
        "taken": "",
        "method": STATED,
        **rate,
        "kpro": {"source": baseline.source},
    }
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()


def with_origin(measured: bytes, run: str, digest: str, to: Belongs | None, shape: str = "") -> bytes:
    """A fresh reading with who took it and for what; ``to`` None: of a profile that the inventory no longer has. Raises
    NoReading."""
    read("", measured.decode(errors="replace"))
    origin = {"run": run, "digest": digest, "shape": shape, "belongs": to.as_dict() if to else None}
    data = json.loads(measured) | {"kpro": origin}
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()


def worth_keeping(kept: str | None, measured: str) -> str | None:
    """Why a fresh reading takes the place of the kept one; None: the kept one stays.

    A baseline is never lowered by a run, and raised only by more than readings of one service differ by: the best of
    many equal runs would else become what each of them is held against. What is kept and cannot be read gives way.
    Raises NoReading when the fresh one is none.
    """
    new = read("", measured)
    if new is None:
        raise NoReading("there is none")
    try:
        old = read("", kept)
    except NoReading as error:
        return f"what was kept cannot be read ({error})"
    if old is None:
        return "none was kept"
    least = noise.ratio("tok_s") * old.tok_s
    if new.tok_s >= least:
        return f"{new.tok_s:.1f} tok/s are more than {least:.1f}: {old.tok_s:.1f} and what readings differ by"
    return None
