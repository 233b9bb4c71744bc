"""Steps 8-10 for a guest: what its services lack. Pure.

``inside`` is the snapshot of the guest, None while it cannot be entered (absent or stopped): then all is listed
that a bare guest needs, and decided again when it runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.plan import Item, Plan, Refusal, Step
from provision.spec import Guest, Machine
from provision.stack import libraries, models
from provision.stack.conflicts import drop_ins, taken_port
from provision.stack.cutover import Cutover, Mode
from provision.stack.desired import PYZ, UV, DesiredEngine, DesiredService, sha256

UID = 8100
FOLDERS = (
    "/opt/kpro/bin",
    "/opt/kpro/envs",
    "/etc/kpro/staged",
    "/var/cache/kpro",
    "/var/lib/kpro/good",
)


@dataclass(frozen=True)
class Shipped:
    """A file that kpro brings along: where it lies on the controller and its sha256."""

    path: str
    sha256: str


@dataclass(frozen=True)
class EngineBuild:
    """What the act of building an engine environment needs."""

    engine: DesiredEngine
    uv: Shipped


def requests(services: Sequence[DesiredService]) -> list[str]:
    """What the snapshot of a guest has to look at."""
    wanted = [
        "file:/etc/os-release",
        "file:/etc/kpro/test-host",
        "stat:/etc/kpro/test-host",
        "file:/proc/net/tcp",
        "file:/proc/net/tcp6",
        "tool:python3",
        "tool:systemctl",
        "cmd:uid-kpro:id -u kpro",
        f"cmd:uid-{UID}:getent passwd {UID}",
        f"sha:{PYZ}",
        f"sha:{UV}",
        *(f"stat:{folder}" for folder in FOLDERS),
    ]
    for desired in services:
        unit = desired.service.unit
        wanted += [
            f"file:{desired.engine.marker}",
            *(f"sha:{path}" for path in (*_staged(desired), *_live(desired), desired.record_path)),
            f"file:{desired.good_path}",
            f"cmd:unit-{desired.name}:systemctl show -p ActiveState -p SubState -p UnitFileState -p MainPID {unit}",
            f"dir:{desired.unit_path}.d",
            f"cmd:running-{desired.name}:"
            f'pid=$(systemctl show -p MainPID --value {unit}) && [ "$pid" != 0 ] && '
            "tr '\\0' '\\n' <\"/proc/$pid/environ\" | sed -n 's/^KPRO_DIGEST=//p'",
        ]
    return [*wanted, *libraries.requests(services), *models.requests(services)]


def stack_plan(
    machine: Machine,
    guest: Guest,
    services: Sequence[DesiredService],
    host: Snapshot,
    inside: Snapshot | None,
    pyz: Shipped,
    uv: Shipped | None,
) -> Plan:
    """What the guest lacks, and why it cannot be given. A guest with GPUs and no service gets the gate alone. ``uv``
    may be None where there is no service."""
    where = f"machine.guests[{machine.guests.index(guest)}]"
    name = machine.guest_host_name(guest)
    items: list[Item] = []
    refusals: list[Refusal] = []
    try:
        refusals += models.hidden(machine, guest, where)
        if services:
            items += _base(guest, name, inside, refusals, where)
        elif guest.gpus and inside is not None:
            _tools(inside, ("python3",), refusals, where)
        if (services or guest.gpus) and (inside is None or inside.digest(PYZ) != pyz.sha256):
            items.append(Item(Step.STACK, "stack.provcheck", name, guest.name, f"put {PYZ}", pyz))
        for index, desired in enumerate(services):
            items += _engine(desired, name, inside, uv)
            items += models.model_items(
                machine, guest, desired, host, inside, refusals, f"{where}.services[{index}]"
            )
            items += _service(desired, name, inside)
            taken_port(guest, desired, host, inside, refusals, f"{where}.services[{index}]")
            drop_ins(desired, inside, refusals, f"{where}.services[{index}]")
            refusals += libraries.missing(desired, inside, f"{where}.services[{index}]")
    except CouldNotLook as error:
        refusals.append(
            Refusal(
                where,
                f"inside the guest: {error}",
                "what could not be looked at is never taken for absent",
                "repair the guest until it can be read, then run again",
            )
        )
    return Plan(machine.name, tuple({item.id: item for item in items}.values()), tuple(refusals))


def _base(
    guest: Guest, host: str, inside: Snapshot | None, refusals: list[Refusal], where: str
) -> list[Item]:
    item = Item(Step.STACK, "stack.base", host, guest.name, f"user kpro ({UID}) and folders", FOLDERS)
    if inside is None:
        return [item]
    _tools(inside, ("python3", "systemctl"), refusals, where)
    code, uid = inside.command("uid-kpro")
    _, owner = inside.command(f"uid-{UID}")
    if (code == 0 and uid.strip() != str(UID)) or (owner.strip() and not owner.startswith("kpro:")):
        seen = f"user kpro has uid {uid.strip()}" if code == 0 else f"uid {UID} is {owner.split(':')[0]}"
        refusals.append(
            Refusal(
                where,
                f"in the guest {seen}",
                f"the service runs as kpro, {UID}, so that files on mounts have one owner everywhere",
                f"free user name and uid {UID} in the guest",
            )
        )
        return []
    complete = code == 0 and all(inside.data("stat", folder) is not None for folder in FOLDERS)
    return [] if complete else [item]


def _tools(inside: Snapshot, tools: Sequence[str], refusals: list[Refusal], where: str) -> None:
    for tool in tools:
        if not inside.has_tool(tool):
            refusals.append(
                Refusal(
                    where,
                    f"the guest has no {tool}",
                    "the gate and the service need it",
                    f"install it in the guest: apt-get install {'systemd-sysv' if tool == 'systemctl' else tool}",
                )
            )


def _engine(desired: DesiredService, host: str, inside: Snapshot | None, uv: Shipped | None) -> list[Item]:
    if uv is None:
        raise ValueError(f"{desired.name} has an engine environment to build, and uv was not brought along")
    engine = desired.engine
    marker = inside.text(engine.marker) if inside is not None else None
    if marker is not None and _digest_of(marker) == engine.digest:
        return []
    items = []
    if inside is None or inside.digest(UV) != uv.sha256:
        items.append(Item(Step.STACK, "stack.uv", host, "uv", f"put {UV}", uv))
    source = "a wheelhouse, offline" if engine.wheels else "the guest's Python index"
    text = f"build {engine.path} with {engine.requirement} from {source}"
    items.append(Item(Step.STACK, "stack.engine", host, engine.path, text, EngineBuild(engine, uv)))
    return items


def _digest_of(marker: str) -> str | None:
    try:
        value = json.loads(marker)
    except ValueError:
        return None
    return value.get("digest") if isinstance(value, dict) else None


def _staged(desired: DesiredService) -> tuple[str, str]:
    return desired.staged_unit, desired.staged_environment


def _live(desired: DesiredService) -> tuple[str, str]:
    return desired.unit_path, desired.environment_path


def _digests(desired: DesiredService) -> tuple[str, str]:
    return sha256(desired.unit), sha256(desired.environment)


def _service(desired: DesiredService, host: str, inside: Snapshot | None) -> list[Item]:
    name, unit = desired.name, desired.service.unit
    stage = Item(Step.STACK, "stack.stage", host, name, f"stage and verify {unit}", desired)
    if inside is None:
        return [stage, cutover(Cutover(desired, None, "first"), host)]
    items = []
    wanted = _digests(desired)
    if tuple(inside.digest(path) for path in _staged(desired)) != wanted or not _record_in_place(
        desired, inside
    ):
        items.append(stage)
    if not _in_service(desired, inside, wanted):
        items.append(cutover(Cutover(desired, None, _mode(desired, inside)), host))
    return items


def cutover(asked: Cutover, host: str) -> Item:
    text = f"put {asked.desired.service.unit} into service and see it generate"
    return Item(Step.SERVICE, "service.cutover", host, asked.desired.name, text, asked)


def _mode(desired: DesiredService, inside: Snapshot) -> Mode:
    """Without a trial, only what was seen generating before is told from what was not."""
    good = (inside.text(desired.good_path) or "").strip()
    if not good:
        return "first"
    return "again" if good == desired.digest else "swap"


def _record_in_place(desired: DesiredService, inside: Snapshot) -> bool:
    return desired.record is None or inside.digest(desired.record_path) == sha256(desired.record)


def _in_service(desired: DesiredService, inside: Snapshot, wanted: tuple[str, str]) -> bool:
    """The unit runs the profile that is wanted, starts at boot, and was seen generating with it."""
    _, state = inside.command(f"unit-{desired.name}")
    _, running = inside.command(f"running-{desired.name}")
    lines = state.split()
    good = inside.text(desired.good_path)
    return (
        tuple(inside.digest(path) for path in _live(desired)) == wanted
        and "ActiveState=active" in lines
        and "UnitFileState=enabled" in lines
        and running.strip() == desired.digest
        and (good or "").strip() == desired.digest
    )
