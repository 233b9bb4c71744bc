"""A drafter that lies on the controller, judged as its gate would judge it in the guest: by its files, before an engine
is built for it.

The gate asks again, of what was put there. Here only what certainly fails is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from checks.drafter.run import Request, answer
from checks.errors import BadInput
from checks.model import Finding, Status
from provision.data import engines
from provision.forms import Where
from provision.inventory.flag_rules import FOLDER
from provision.spec import Model, Service
from provision.stack import engine_words

CONFIG = "config.json"


def of_service(service: Service) -> Iterator[tuple[Where, str]]:
    """The service's own drafter and its candidate's."""
    yield from _of(service)
    promoted = service.promoted()
    if promoted is not None:
        for where, text in _of(promoted):
            yield ("candidate", *where), text


def _of(service: Service) -> Iterator[tuple[Where, str]]:
    drafter = service.drafter
    if drafter is None or drafter.folder is None or not drafter.folder.is_dir():
        return
    if not engine_words.known(service.engine.kind) or not any(drafter.folder.iterdir()):
        return
    where: Where = ("drafter", "folder")
    target = _target(service.model)
    asked = _request(service, drafter.folder, target)
    if target is None or asked is None:
        # The target lies elsewhere: nothing can be compared, but weights alone are seen all the same.
        if any(drafter.folder.glob("*.safetensors")) and not (drafter.folder / CONFIG).exists():
            engine = f"{service.engine.kind}=={service.engine.version}"
            yield where, _bare(drafter.folder, Path(f"<folder of {service.model.repo}>"), engine)
        return
    try:
        report = answer(asked)
    except BadInput as error:
        yield where, str(error)
        return
    hushed = {silence.id for silence in service.silences}
    red = [found for found in report.findings if found.status is Status.FAIL and found.id not in hushed]
    if any(found.id == "drafter.config" for found in red) and not (drafter.folder / CONFIG).exists():
        # Everything else is a consequence: without a config each value is a guess.
        yield where, _bare(drafter.folder, target, asked.engine)
        return
    for found in red:
        yield where, _told(drafter.folder, found)


def _target(model: Model) -> Path | None:
    """The target's folder, where it lies on the controller and can be read."""
    return model.folder if model.folder and (model.folder / CONFIG).is_file() else None


def _request(service: Service, drafter: Path, target: Path | None) -> Request | None:
    try:
        said = engine_words.said(
            service.engine.kind, service.engine.version, engines.command(service, FOLDER)
        )
    except (BadInput, ValueError):
        return None  # another rule says what is wrong with engine, version, profile or flags
    context = int(said.context) if said.context.isdecimal() and said.context != "1" else None
    return Request(str(drafter), str(target), said.option, k=said.drafts or None, context=context)


def _bare(drafter: Path, target: Path, engine: str) -> str:
    return (
        f"{drafter} has weights and no {CONFIG}: layer ids, mask token, RoPE and window would be guesses, and a "
        f"guessed drafter starts and has nothing accepted; get it from the publisher, or let it be worked out: "
        f"provcheck drafter {drafter} --target '{target}' --engine {engine} --write"
    )


def _told(drafter: Path, found: Finding) -> str:
    return f"{drafter}: {found.message}" + "".join(f"; {text}" for text in (found.cause, found.fix) if text)
