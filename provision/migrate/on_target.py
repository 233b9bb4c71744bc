"""What the steps do on the target: the chain in its three parts, and the way back from them."""

from __future__ import annotations

import shlex
from typing import Any

from provision.migrate import led, on_proof, probe, serving, traces
from provision.migrate.moving import Moving
from provision.migrate.sides import Side
from provision.run.errors import ActFailed
from provision.run.reports import green, kept_findings, red_text, report_of
from provision.stack.desired import gate_command

# Only what the chain has put there for this service; its models are the copy's, its environment serves others too.
_REMOVE = """
set -u
if [ -e {file} ] || systemctl cat {unit} >/dev/null 2>&1; then
  systemctl disable --quiet --now {unit} || exit 1
  case $(systemctl show -p ActiveState --value {unit}) in
    inactive|failed) ;;
    *) echo "{unit} still runs" >&2; exit 1 ;;
  esac
fi
rm -rf -- {file}.d {files} && systemctl daemon-reload
systemctl reset-failed {unit} 2>/dev/null; :
"""


def in_sync(m: Moving, phase: str) -> bool:
    """Has the chain nothing left to do there in this phase? A plan that would be refused has."""
    plan = m.target.plan((phase,))
    return not plan.items and not plan.refusals


def install(m: Moving) -> str:
    m.target.apply(("install",))
    return f"{m.target.name}: steps 1 to 5 of the chain are done"


def configure(m: Moving) -> str:
    m.target.apply(("configure",))
    return f"{m.target.name}: the guest, the engine and the staged unit are as the inventory says"


def unstage(m: Moving) -> str:
    """What waits to become its unit is away; container and environment stay."""
    service = m.target.service
    try:
        done = m.target.inside(f"rm -f -- {shlex.join(traces.staged(service))}")
    except OSError as error:
        # One that was not made yet has nothing in it.
        if " is absent" in str(error):
            return ""
        raise
    if not done.ok:
        raise ActFailed(
            f"{m.target.name}: what is staged of {service.unit} could not be removed: {done.error_text}"
        )
    return f"{m.target.name}: nothing is staged of {service.unit}"


def warm(m: Moving) -> str:
    if m.traffic is not None:
        m.traffic.hold()
    m.target.apply(("activate",))
    proven = led.prove(m, "target")
    return f"{m.target.service.name} generates on {m.target.name}, where no traffic goes yet" + (
        f"; {proven}" if proven else ""
    )


def is_warm(m: Moving) -> bool:
    probe.bring(m.target, m.run)
    return serving.generates(m.target, m.run).generates


def runs(side: Side) -> bool:
    """Is its unit up, or on its way there? What cannot be told counts as running."""
    done = side.inside(f"systemctl show -p ActiveState --value {shlex.quote(side.service.unit)}")
    return not done.ok or done.text.strip() not in ("inactive", "failed")


def cool(m: Moving) -> str:
    """The target's service is away again."""
    service = m.target.service
    script = _REMOVE.format(
        unit=shlex.quote(service.unit),
        file=shlex.quote(traces.unit_file(service)),
        files=shlex.join(traces.of(service)),
    )
    # A guest that does not run serves nothing; its unit is gone before it could start at the next start of the guest.
    done = m.target.inside(script, timeout=300)
    if not done.ok:
        raise ActFailed(f"{m.target.name}: {service.unit} could not be taken away: {done.error_text}")
    if m.traffic is not None:
        m.traffic.release()
    return f"{m.target.name}: {service.unit} is stopped and away"


def activate(m: Moving) -> str:
    service = m.target.service
    unit = shlex.quote(service.unit)
    restart = bool(m.spec.extra_paths)
    if restart:
        done = m.target.inside(f"systemctl restart {unit}", timeout=300)
        if not done.ok:
            raise ActFailed(f"{m.target.name}: {service.unit} could not be restarted: {done.error_text}")
    done = m.target.inside(f"systemctl is-enabled --quiet {unit} || systemctl enable --quiet {unit}")
    if not done.ok:
        raise ActFailed(f"{m.target.name}: {service.unit} could not be enabled: {done.error_text}")
    serving.start(m.target, m.run, service.ready_seconds, m.say)
    on_proof.keep(m, "activated")
    return f"{service.unit} starts with {m.target.name}" + (
        " and has read what was copied last" if restart else ""
    )


def is_activated(m: Moving) -> bool:
    unit = shlex.quote(m.target.service.unit)
    enabled = m.target.inside(f"systemctl is-enabled --quiet {unit}").ok
    return enabled and on_proof.holds(m, "activated")


def tell_gate(m: Moving, side: Side, report: dict[str, Any]) -> None:
    """What the gate said of one side, for the report."""
    m.tell(
        "gate",
        side="target" if side is m.target else "source",
        host=f"@guest/{side.name}/{side.guest.name}",
        service=side.service.name,
        verdict=report["verdict"],
        evidence=report.get("evidence", "none"),
        findings=kept_findings(report),
    )


def gate(m: Moving) -> str:
    """The gate of the GPUs and a generated token, of the very process that will get the requests."""
    service = m.target.service
    if service.replay is None:
        words = gate_command(m.target.guest, None, service)
        report = report_of(m.target.inside(shlex.join((*words, "--json")), timeout=180))
        tell_gate(m, m.target, report)
        if not green(report):
            raise ActFailed(f"{m.target.name}: {red_text(service.name, report)}")
    life = serving.generates(m.target, m.run)
    if not life.generates:
        raise ActFailed(f"{m.target.name}: {service.unit} does not generate: {life.why}")
    return f"{m.target.name}: the gate is green, and it generates"
