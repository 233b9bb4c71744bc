"""``--finalize``: the source is given up. Its unit, environment and key go; engine and models stay unless asked for."""

from __future__ import annotations

import shlex

from provision.guest.mounts import on_machine
from provision.migrate import fence, on_target, record, traces
from provision.migrate.moving import Moving
from provision.migrate.probe import inside
from provision.migrate.sides import Side
from provision.run.errors import ActFailed

_DISABLE = """
set -u
if systemctl cat {unit} >/dev/null 2>&1; then
  systemctl disable --quiet {unit} || exit 1
fi
"""
_REMOVE = """
set -u
rm -rf -- {files} && systemctl daemon-reload
systemctl reset-failed {unit} 2>/dev/null; :
"""


def lines(m: Moving, *, remove_models: bool) -> list[str]:
    """What would be done, before it is asked for."""
    name = m.target.service.name
    said = [
        f"{name}: stays on {m.target.name}, which is seen generating first; migration {m.run} is closed for good"
    ]
    if m.source is None:
        return [*said, f"  {m.peer:<12}  is dead: nothing is done there"]
    service = m.source.service
    what = (
        f"{service.unit} is disabled" if service.found else f"{service.unit}, its environment and its key go"
    )
    kept = service.found is not None or not remove_models
    models = "model files stay" if kept else "its model files go, but for those that another service has"
    return [*said, f"  {m.peer:<12}  {what}; {models}; there is no way back"]


def finalize(m: Moving, *, remove_models: bool) -> list[str]:
    """Gives the source up, for good; what was done, a line each. Raises ActFailed, and nothing is given up, unless the
    service generates on the target. May be repeated."""
    if not on_target.is_warm(m):
        raise ActFailed(
            f"{m.target.service.name} does not generate on {m.target.name}: the source is the only way back, and is "
            "not given up. Next: mend the target, or --rollback"
        )
    said = []
    if m.source is not None:
        said += _give_up(m, m.source, remove_models=remove_models)
    if m.copy is not None:
        m.copy.clean()
        m.copy.forget()
    if m.traffic is not None:
        said += m.traffic.afterwards()
    line = m.tell("step", step="finalize", state="done")
    if m.source is not None:
        # It stays, so that no plan of the old inventory starts the service there.
        record.write(m.source, m.record(m.source, "stop", "finalized"), line)
        record.settle(m.source)
    # It says that nobody else has the service any more.
    record.write(m.target, m.record(m.target, "stop", "finalized"), line)
    record.settle(m.target)
    return said


def _give_up(m: Moving, source: Side, *, remove_models: bool) -> list[str]:
    service = source.service
    standing = fence.look(source)
    if standing.run not in ("", m.run) or on_target.runs(source):
        raise ActFailed(
            f"{source.name}: {service.unit} runs, or is fenced by another migration: it is not given up. Next: look at "
            f"it in the guest (systemctl status {service.unit})"
        )
    words = {"unit": shlex.quote(service.unit), "files": shlex.join(traces.of(service))}
    inside(source, _DISABLE.format(**words), "disabling its unit", timeout=120)
    said = [f"{source.name}: {service.unit} is disabled"]
    if service.found is None:
        inside(source, _REMOVE.format(**words), "removing its unit", timeout=120)
        said = [f"{source.name}: {service.unit}, its environment and its key are removed"]
    if remove_models:
        said += _models(source)
    # Last: until here it kept the unit from starting.
    fence.take_away(source, m.run)
    return said


def _models(source: Side) -> list[str]:
    """Model folders that no other service of the source's inventory has."""
    others = {
        model.directory
        for guest in source.machine.guests
        for service in guest.services
        if service.name != source.service.name
        for model in (service.model, service.drafter)
        if model is not None
    }
    said = []
    for model in (source.service.model, source.service.drafter):
        if model is None or model.directory in others or source.service.found is not None:
            continue
        place = on_machine(source.machine, source.guest, model.directory)
        run = source.inside if place is None else source.host
        path = place or model.directory
        done = run(f"rm -rf --one-file-system -- {shlex.quote(path)}", timeout=600)
        if not done.ok:
            raise ActFailed(f"{source.name}: {path} could not be removed: {done.error_text}")
        said.append(f"{source.name}: {path} is removed")
    return said
