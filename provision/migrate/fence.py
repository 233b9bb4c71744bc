"""The fence: a service that moved away does not start on its old host, neither at a boot nor by hand.

A drop-in makes the unit ask for a marker, and the marker keeps it from starting; the unit's own file is never touched.
The drop-in comes first and does nothing by itself; the marker is put last and taken away first. So a cut at any moment
leaves the service either fenced or free, and what is left of it is seen and finished by the next run.
"""

from __future__ import annotations

import base64
import binascii
import json
import shlex
from dataclasses import dataclass

from provision.migrate import standing
from provision.migrate.probe import InGuest, inside
from provision.migrate.standing import DROP_IN, FENCES
from provision.plan import Refusal
from provision.run.errors import ActFailed
from provision.run.journal import now
from provision.spec import Service

_SCHEMA = "kpro-fence/1"


def marker(service: Service) -> str:
    return standing.fence(service.name)


def drop_in(service: Service) -> str:
    return f"/etc/systemd/system/{service.unit}.d/{DROP_IN}"


def text(service: Service, run: str, peer: str) -> str:
    """The drop-in; ``systemctl cat`` and ``systemctl status`` lead whoever wonders to it."""
    return (
        f"# Written by kpro: {service.name} was moved to {peer} (migration {run}).\n"
        f"# While {marker(service)} is there it does not start here, so that two hosts never answer for it.\n"
        "# The way back, on the controller: provision migrate SOURCE-INVENTORY TARGET-INVENTORY --rollback\n"
        "[Unit]\n"
        f"RequiresMountsFor={FENCES}\n"
        f"{_condition(service)}\n"
    )


def _condition(service: Service) -> str:
    return f"ConditionPathExists=!{marker(service)}"


@dataclass(frozen=True)
class Standing:
    """``run``: whose marker is there; empty: there is none, None: one that cannot be read. ``drop_in``: is a drop-in
    there? ``holds``: does systemd, as it is now, ask for the marker? ``unit``: LoadState and more of the unit."""

    run: str | None
    drop_in: bool
    holds: bool
    unit: dict[str, str]

    @property
    def up(self) -> bool:
        return self.run != "" and self.holds

    @property
    def away(self) -> bool:
        return self.run == "" and not self.holds and not self.drop_in


_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "FragmentPath",
    "UnitFileState",
    "Transient",
    "CanStart",
    "CanStop",
    "NeedDaemonReload",
)

# A later drop-in with an empty condition takes all earlier ones away (systemd.unit(5)).
_LOOK = """
set -u
systemctl show {show} {unit} || exit 1
[ ! -e {drop_in} ] || echo drop_in=yes
if systemctl cat {unit} 2>/dev/null | awk -v want={condition} '
  $0 == want {{ holds = 1; next }}
  /^[ \\t]*Condition[A-Za-z]*[ \\t]*=[ \\t]*$/ {{ holds = 0 }}
  END {{ exit !holds }}'; then echo holds=yes; fi
[ ! -e {marker} ] || printf 'marker=%s\\n' "$(base64 -w0 {marker})"
"""

_PUT = """
set -u
put() {{ # TEXT TO
  d=$(dirname "$2")
  install -d -m 755 "$d" && sync "$(dirname "$d")" && t=$(mktemp "$d/.kpro-put.XXXXXX") && printf '%s' "$1" >"$t" &&
    chmod 644 "$t" && sync "$t" && mv -fT -- "$t" "$2" && sync "$d"
}}
put {drop_in_text} {drop_in} && systemctl daemon-reload && put {marker_text} {marker}
"""

_TAKE = """
set -u
folder={folder}
rm -f {marker} || exit 1
[ ! -d {markers} ] || sync {markers}
rm -f {drop_in} "$folder"/.kpro-put.* {markers}/.kpro-put.* || exit 1
[ ! -d "$folder" ] || {{ sync "$folder"; rmdir "$folder" 2>/dev/null; }}
systemctl daemon-reload
"""


def look(side: InGuest) -> Standing:
    """Raises ActFailed."""
    service = side.service
    done = inside(
        side,
        _LOOK.format(
            show=" ".join(f"-p {name}" for name in _PROPERTIES),
            unit=shlex.quote(service.unit),
            drop_in=shlex.quote(drop_in(service)),
            marker=shlex.quote(marker(service)),
            condition=shlex.quote(_condition(service)),
        ),
        "looking at its unit",
    )
    pairs = dict(line.partition("=")[::2] for line in done.text.splitlines() if "=" in line)
    return Standing(_run_of(pairs.get("marker")), "drop_in" in pairs, "holds" in pairs, pairs)


def _run_of(encoded: str | None) -> str | None:
    if encoded is None:
        return ""
    try:
        found = json.loads(base64.b64decode(encoded))
    except (ValueError, binascii.Error):
        return None
    run = found.get("run") if isinstance(found, dict) else None
    return run if isinstance(run, str) and run else None


def check(side: InGuest, run: str) -> list[Refusal]:
    """What stands against fencing the service, and against starting it again afterwards. Changes nothing, raises
    nothing: what cannot be looked at is refused."""
    where = f"{side.name}: {side.service.unit}"
    try:
        return reasons(side.service, look(side), run, where)
    except ActFailed as error:
        seen = str(error).removeprefix(f"{side.name}: ")
        why = "whether it could be kept from starting, and started again, is not known"
        return [Refusal(where, seen, why, "bring its guest up, where systemd answers, and run again")]


def reasons(service: Service, seen: Standing, run: str, where: str) -> list[Refusal]:
    """All of them at once."""
    unit, found = seen.unit, []
    if unit.get("LoadState") != "loaded":
        found.append(
            Refusal(
                where,
                f"systemd has no such unit ({unit.get('LoadState') or 'nothing was said'})",
                "what is no unit cannot be kept from starting, and could answer beside the target",
                "run the service as a systemd unit in its guest first, and name it in the inventory (found.unit)",
            )
        )
        return found
    path = unit.get("FragmentPath", "")
    if unit.get("Transient") == "yes" or path.startswith("/run/"):
        found.append(
            Refusal(
                where,
                f"its file is {path or 'in memory'}, which is gone once it stops",
                "the way back would be to start it again",
                "write it into /etc/systemd/system (systemctl cat shows it), start that one, then migrate",
            )
        )
    if unit.get("NeedDaemonReload") == "yes":
        found.append(
            Refusal(
                where,
                "its file was changed since systemd read it",
                "after a way back another service would start than the one that runs",
                "systemctl daemon-reload and restart it when it suits you, or put the file back",
            )
        )
    for name, verb in (("CanStart", "started"), ("CanStop", "stopped")):
        if unit.get(name) == "no":
            found.append(
                Refusal(
                    where,
                    f"it may not be {verb} by hand",
                    "a migration stops it, and a way back starts it",
                    f"take RefuseManual{name.removeprefix('Can')}= out of it",
                )
            )
    if seen.run not in ("", run):
        whose = f"migration {seen.run}" if seen.run else "a migration that its marker does not name"
        found.append(
            Refusal(
                where,
                f"{whose} has fenced it ({marker(service)})",
                "it has moved away already",
                "go back from there first: provision migrate SOURCE-INVENTORY TARGET-INVENTORY --rollback",
            )
        )
    return found


def put(side: InGuest, run: str, peer: str) -> None:
    """Fences the service; one that runs goes on. Raises ActFailed, also for a fence of another migration."""
    service, seen = side.service, look(side)
    wrong = [one for one in reasons(service, seen, run, service.unit) if "has fenced it" in one.seen]
    if wrong:
        raise ActFailed(f"{side.name}: {wrong[0]}")
    if seen.run == run and seen.up:
        return
    told = {"schema": _SCHEMA, "run": run, "service": service.name, "peer": peer, "since": now()}
    script = _PUT.format(
        drop_in_text=shlex.quote(text(service, run, peer)),
        drop_in=shlex.quote(drop_in(service)),
        marker_text=shlex.quote(json.dumps(told) + "\n"),
        marker=shlex.quote(marker(service)),
    )
    inside(side, script, "fencing it")
    seen = look(side)
    if not seen.up or seen.run != run:
        raise ActFailed(
            f"{side.name}: {service.unit} was fenced, and systemd does not hold to it: "
            + (
                "another drop-in takes all conditions away (an empty Condition…=). "
                if seen.drop_in and not seen.holds
                else f"{marker(service)} is not there. "
            )
            + f"It could answer beside the target. Next: systemctl cat {service.unit}, in the guest"
        )


def take_away(side: InGuest, run: str) -> None:
    """The service may start again. Raises ActFailed, also for a fence of another migration, which is left."""
    service, seen = side.service, look(side)
    if seen.away:
        return
    if seen.run not in ("", run):
        raise ActFailed(
            f"{side.name}: the fence of {service.unit} is that of {seen.run or 'an unknown migration'}, not of {run}: "
            "it is left as it is. Next: go back from that migration"
        )
    path = drop_in(service)
    script = _TAKE.format(
        marker=shlex.quote(marker(service)),
        markers=FENCES,
        drop_in=shlex.quote(path),
        folder=shlex.quote(path.rpartition("/")[0]),
    )
    inside(side, script, "taking its fence away")
    if not look(side).away:
        raise ActFailed(
            f"{side.name}: the fence of {service.unit} is still there after it was taken away. Next: look at "
            f"{marker(service)} and {path} in the guest"
        )
