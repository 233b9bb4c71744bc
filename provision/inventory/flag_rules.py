"""The command line of a service against the tables of released engines, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from checks.errors import BadInput
from checks.flags.assess import report
from checks.flags.table import BUILDS, history
from checks.model import Finding, Report, Status
from provision.data import engines
from provision.forms import Where
from provision.spec import Service
from provision.stack import engine_words

FOLDER = "/opt/kpro/envs/engine"


def of_service(service: Service) -> Iterator[tuple[Where, str]]:
    """What the engine would refuse, where that is certain: of a version that was read itself, as it was released. Of
    any other the installed parser decides, in step 9. A finding that is silenced is left to it as well."""
    if not certain(service):
        return
    try:
        found = by_table(service, engines.command(service, FOLDER), engines.environment(service))
    except (BadInput, ValueError):
        return  # another rule says what is wrong with engine, version or profile
    hushed = {silence.id for silence in service.silences}
    for finding in found.findings:
        if finding.status is Status.FAIL and finding.id not in hushed:
            yield _where(service, finding), f"{finding.message}{f': {finding.fix}' if finding.fix else ''}"


def certain(service: Service) -> bool:
    """Is this exact version in the tables, and installed without changes to its sources?"""
    engine = service.engine
    if not engine_words.known(engine.kind) or engine.source not in ("index", "wheel"):
        return False
    patched = getattr(engine, "patches", ())
    return not patched and engine.version in history(BUILDS.get(engine.kind, engine.kind)).versions


def by_table(service: Service, command: Sequence[str], variables: Iterable[str]) -> Report:
    """Raises BadInput."""
    engine = service.engine
    words = [*engine_words.judged(variables, engine.kind), *command]
    return report(f"{engine.kind}=={engine.version}", words, parser="table")


def _where(service: Service, finding: Finding) -> Where:
    """The flag that the finding is about, where it is one of the inventory's own."""
    said = finding.message.replace(";", " ").replace(",", " ").split()
    for index, flag in enumerate(service.flags):
        if flag.startswith("-") and flag.partition("=")[0] in said:
            return ("flags", index)
    return ("flags",)
