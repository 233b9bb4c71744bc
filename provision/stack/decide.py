"""Steps 8-10 for a guest: what its services lack. Pure.

``inside`` is the snapshot of the guest, None while it cannot be entered (absent or stopped): then all is listed
that a bare guest needs, and decided again when it runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from checks.snapshot import CouldNotLook, Snapshot
from provision.plan import Item, Plan, Refusal, Step
from provision.spec import Guest, Machine
from provision.stack import former, models, serving, under_way
from provision.stack.chosen import chosen
from provision.stack.desired import PYZ, DesiredService
from provision.stack.engine import decide as engine_decide
from provision.stack.engine.desired import Shipped as Shipped
from provision.stack.fetching import Answers
from provision.stack.scene import scene

UID = 8100
FOLDERS = (
    "/opt/kpro/bin",
    "/opt/kpro/envs",
    "/etc/kpro/staged",
    "/var/cache/kpro",
    "/var/lib/kpro/good",
    "/var/lib/kpro/trials",
    "/var/lib/kpro/baselines",
)


def requests(guest: Guest, services: Sequence[DesiredService]) -> list[str]:
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
        *(f"stat:{folder}" for folder in FOLDERS),
        former.REQUEST,
    ]
    for desired in services:
        unit = desired.service.unit
        wanted += [
            *(f"sha:{path}" for path in (desired.unit_path, desired.environment_path)),
            f"file:{desired.good_path}",
            f"cmd:unit-{desired.name}:systemctl show -p ActiveState -p SubState -p UnitFileState -p MainPID {unit}",
            f"dir:{desired.unit_path}.d",
            f"cmd:running-{desired.name}:"
            f'pid=$(systemctl show -p MainPID --value {unit}) && [ "$pid" != 0 ] && '
            "tr '\\0' '\\n' <\"/proc/$pid/environ\" | sed -n 's/^KPRO_DIGEST=//p'",
            under_way.request(desired.name),
            *serving.requests(guest, desired),
        ]
    profiles = [one for desired in services for one in serving.family(desired)]
    wanted += engine_decide.requests([one.engine for one in profiles])
    return [*wanted, *models.requests(profiles)]


def stack_plan(
    machine: Machine,
    guest: Guest,
    services: Sequence[DesiredService],
    host: Snapshot,
    inside: Snapshot | None,
    pyz: Shipped,
    uv: Shipped | None,
    answers: Answers | None = None,
    arriving: Collection[str] = (),
) -> Plan:
    """What the guest lacks, and why it cannot be given. A guest with GPUs and no service gets the gate alone. ``uv``
    may be None where there is no service; ``answers`` are what the hub said about models; ``arriving``: the folders of
    those that come from another host."""
    where = f"machine.guests[{machine.guests.index(guest)}]"
    name = machine.guest_host_name(guest)
    items: list[Item] = []
    refusals: list[Refusal] = []
    notes: list[str] = []
    try:
        refusals += models.hidden(machine, guest, where)
        if services:
            items += _base(guest, name, inside, refusals, where)
        elif guest.gpus and inside is not None:
            _tools(inside, ("python3",), refusals, where)
        if (services or guest.gpus) and (inside is None or inside.digest(PYZ) != pyz.sha256):
            items.append(Item(Step.STACK, "stack.provcheck", name, guest.name, f"put {PYZ}", pyz))
        for index, desired in enumerate(services):
            said, wrong = chosen(desired, f"{where}.services[{index}]")
            notes += said
            refusals += wrong
            at = scene(machine, guest, desired, host, inside, f"{where}.services[{index}]")
            choice = serving.choice(at)
            # What runs from a tree that has changed since is not what was seen generating.
            changed = set()
            for profile in choice.profiles:
                field = at.field(profile)
                made = engine_decide.engine_items(profile.engine, name, inside, uv, refusals, field)
                if made and profile.engine.tree is not None:
                    changed.add(profile.digest)
                items += made
                items += models.model_items(
                    machine, guest, profile, host, inside, refusals, field, answers, notes, arriving
                )
            cut = under_way.read(desired.name, inside)
            notes += [*choice.notes, *([cut.text] if cut else [])]
            if cut is not None and cut.at_work:
                # Whoever applies it waits for the end, and decides then: what stands against it may be its doing.
                items += map(cut.later, serving.decide(at, choice, changed, []))
            else:
                items += serving.decide(at, choice, changed, refusals)
        profiles = [one.engine for desired in services for one in serving.family(desired)]
        notes += engine_decide.earlier(profiles, inside)
        notes += former.notes(inside, {desired.service.unit for desired in services})
    except CouldNotLook as error:
        refusals.append(
            Refusal(
                where,
                f"inside the guest: {error}",
                "what could not be looked at is never taken for absent",
                "repair the guest until it can be read, then run again",
            )
        )
    return Plan(
        machine.name,
        tuple({item.id: item for item in items}.values()),
        tuple(dict.fromkeys(refusals)),
        tuple(dict.fromkeys(notes)),
    )


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
