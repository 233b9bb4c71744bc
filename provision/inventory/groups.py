"""Whether the host groups of a file are what its machines make of themselves."""

from __future__ import annotations

from pydantic import ValidationError

from provision.inventory.reading import Reading, machines_of
from provision.spec import Fleet, HostGroup, Machine


def machines(reading: Reading) -> list[tuple[str, Machine]]:
    """The machines that the host groups hold, with the file's names for them; what is wrong with the groups
    goes to the reasons."""
    named = list(machines_of(reading))
    told = len(reading.reasons)
    if told:
        return named
    groups = {name: value for name, value in reading.names.items() if isinstance(value, HostGroup)}
    metal, guests = groups.get("metal"), groups.get("guests")
    if metal is None or guests is None:
        missing = " and ".join(name for name in ("metal", "guests") if name not in groups)
        if not named and not groups:
            text = (
                "describes no machine: build a Machine and end with metal, guests = machine.pyinfra_groups()"
            )
        else:
            subject = named[0][0] if named else "machine"
            text = (
                f"has no {missing}, so pyinfra would find no host: end it with "
                f"metal, guests = {subject.split('[')[0].split('.')[0]}.pyinfra_groups()"
            )
        reading.reasons.append(f"{reading.shown}: {text}")
        return named
    in_groups: list[Machine] = []
    for _, data in [*metal, *guests]:
        machine = data.get("machine") if isinstance(data, dict) else None
        if isinstance(machine, Machine) and not any(machine is other for other in in_groups):
            in_groups.append(machine)
    reading.reasons += _group_reasons(reading, groups, in_groups, named)
    names = {id(machine): name for name, machine in named}
    return [(names.get(id(machine), f"machine {machine.name!r}: machine"), machine) for machine in in_groups]


def _group_reasons(
    reading: Reading, groups: dict[str, HostGroup], machines: list[Machine], named: list[tuple[str, Machine]]
) -> list[str]:
    """Whether ``metal`` and ``guests`` are what the machines would make of themselves."""
    try:
        metal, guests = Fleet(machines=tuple(machines)).pyinfra_groups()
    except ValidationError as error:
        if not machines:
            return [f"{reading.shown}: metal and guests hold no machine"]
        return [f"{reading.shown}: metal: {line['msg']}" for line in error.errors(include_url=False)]
    if groups["metal"] == guests and groups["guests"] == metal and metal != guests:
        return [
            f"{reading.shown}: metal and guests are exchanged: it is metal, guests = machine.pyinfra_groups()"
        ]
    reasons = [
        f"{reading.shown}: {name} is not what the machines make of themselves "
        f"({_difference(groups[name], wanted)}): write metal, guests = machine.pyinfra_groups() and change "
        "the machine instead"
        for name, wanted in (("metal", metal), ("guests", guests))
        if groups[name] != wanted
    ]
    reasons += [
        reading.say(
            machine, name, (), f"{machine.name!r} is in no host group, so nothing would be done to it"
        )
        for name, machine in named
        if not any(machine is other for other in machines)
    ]
    hosts = {host for host, _ in [*metal, *guests]}
    for name in groups.keys() - {"metal", "guests"}:
        strange = [str(entry[0]) for entry in groups[name] if entry[0] not in hosts]
        if strange:
            reasons.append(f"{reading.shown}: {name} names hosts of no machine here: {', '.join(strange)}")
    return reasons


def _difference(found: HostGroup, wanted: HostGroup) -> str:
    have, want = [str(entry[0]) for entry in found], [str(entry[0]) for entry in wanted]
    missing, extra = [name for name in want if name not in have], [name for name in have if name not in want]
    parts = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"too many: {', '.join(extra)}"] * bool(
        extra
    )
    return "; ".join(parts) or "other data or order"
