"""Step 7: the guests' NVIDIA user space is the host's own, of exactly the version of the host's module. Pure.

The host keeps a folder for each version under ``/var/lib/kpro/userspace``; that parent is mounted read-only into the
guest, so another version appears there without a restart, and programs that run keep the one that they started with.
The guest's linker and PATH are led to the one version that fits the module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.host import view
from provision.host.driver_seen import LIBRARIES
from provision.plan import Item, Plan, Refusal, Step, make_seen
from provision.spec import Guest, Machine

FOLDER = "/var/lib/kpro/userspace"
MOUNTED = "/opt/kpro/nvidia"
LINKER = "/etc/ld.so.conf.d/kpro-nvidia.conf"
PROGRAM = "/usr/local/bin/nvidia-smi"
NEEDED = ("libcuda.so", "libnvidia-ml.so")
"""What no guest can do without: CUDA itself, and NVML for nvidia-smi and provcheck."""

# ``files`` is written last and lists size and name of everything in the folder.
_WHOLE = (
    "version={version}; cd {folder}/$version 2>/dev/null || {{ echo absent; exit 0; }}; said=$(cat files 2>/dev/null); "
    "now=$(printf '%s\\n' \"$said\" | cut -d' ' -f2- | xargs -r -d '\\n' stat -c '%s %n' 2>/dev/null); "
    '[ -n "$said" ] && [ "$said" = "$now" ] && echo whole || echo damaged'
)
_LOADED = (
    "$(grep -Eom1 '[[:space:]][0-9]{3}[.][0-9.]+[[:space:]]' /proc/driver/nvidia/version 2>/dev/null | "
    "tr -d '[:space:]'); [ -n \"$version\" ] || { echo absent; exit 0; }"
)


@dataclass(frozen=True)
class UserSpace:
    """The version that host and guests are to have."""

    version: str

    @property
    def folder(self) -> str:
        return f"{FOLDER}/{self.version}"

    @property
    def inside(self) -> str:
        return f"{MOUNTED}/{self.version}"

    @property
    def linker(self) -> str:
        """The content of the guest's linker configuration."""
        return f"{self.inside}/lib\n"


def wants(machine: Machine, guest: Guest) -> bool:
    """Does this guest get its user space from the host? A folder of kpro's own holds it, so a machine whose driver
    somebody else looks after has it too. A Proxmox container that its operator made keeps its mounts and libraries."""
    ours = guest.managed and (guest.backend == "lxc" or guest.proxmox is not None)
    return ours and bool(guest.gpus) and guest.userspace == "bind"


def module_version(machine: Machine, snapshot: Snapshot) -> str | None:
    """The module's version after this run: the pin, or what is loaded where nothing is pinned."""
    if machine.driver is not None:
        return machine.driver.version
    loaded = view.driver(snapshot)
    return loaded[0] if loaded else None


def host_requests(machine: Machine) -> list[str]:
    if not any(wants(machine, guest) for guest in machine.guests):
        return []
    whole = _WHOLE.format(folder=FOLDER, version=machine.driver.version if machine.driver else _LOADED)
    return [f"cmd:userspace:{whole}"]


def guest_requests(machine: Machine, guest: Guest) -> list[str]:
    if not wants(machine, guest):
        return []
    return [
        f"file:{LINKER}",
        f"link:{PROGRAM}",
        "file:/proc/driver/nvidia/version",
        f"cmd:nvidia-libraries:{LIBRARIES}",
    ]


def host_userspace_plan(machine: Machine, snapshot: Snapshot) -> Plan:
    """``userspace.host`` where the folder of the wanted version is not there, or not whole."""
    if not any(wants(machine, guest) for guest in machine.guests):
        return Plan(machine.name)
    folder = FOLDER
    try:
        version = module_version(machine, snapshot)
        if version is None:
            return Plan(machine.name)
        wanted = UserSpace(version)
        folder = wanted.folder
        code, output = snapshot.command("userspace")
        state = output.strip()
        if code != 0 or state not in ("whole", "damaged", "absent"):
            raise CouldNotLook(f"the look at {folder} ended with {code}: {state[:200]}")
    except CouldNotLook as error:
        return Plan(machine.name, (), (unknown("machine.driver", error),))
    if state == "whole":
        return Plan(machine.name)
    text = f"{'make' if state == 'absent' else 'make anew'} the user space of driver {wanted.version} for the guests"
    item = Item(Step.USER_SPACE, "userspace.host", machine.host_name, wanted.version, text, wanted)
    return Plan(machine.name, (item,))


def guest_userspace_plan(machine: Machine, guest: Guest, host: Snapshot, inside: Snapshot | None) -> Plan:
    """``userspace.guest`` where the guest's linker or PATH does not lead to the version of the host's module.

    ``inside`` None: the guest does not run yet."""
    if not wants(machine, guest):
        return Plan(machine.name)
    where = f"machine.guests[{machine.guests.index(guest)}]"
    try:
        version = module_version(machine, host)
        if version is None:
            return Plan(
                machine.name,
                notes=(f"{guest.name}: no driver is pinned or loaded, so no user space is given",),
            )
        wanted = UserSpace(version)
        strange = () if inside is None else _strange(inside, version)
        done = inside is not None and _done(inside, wanted)
    except CouldNotLook as error:
        return Plan(machine.name, (), (unknown(where, error),))
    if strange:
        refusal = Refusal(
            f"{where}.userspace",
            f"the container has NVIDIA libraries of another version than {version}: {', '.join(strange)}",
            "programs that find them fail with 'Driver/library version mismatch'",
            "remove their packages in the container (dpkg -S names them), or set userspace='packages'",
        )
        return Plan(machine.name, (), (refusal,))
    if done:
        return Plan(machine.name)
    text = f"lead {guest.name} to the user space of driver {version}"
    item = Item(
        Step.USER_SPACE, "userspace.guest", machine.guest_host_name(guest), wanted.version, text, wanted
    )
    return Plan(machine.name, (item,))


def _done(inside: Snapshot, wanted: UserSpace) -> bool:
    found = libraries(inside)
    return (
        inside.text(LINKER) == wanted.linker
        and (inside.data("link", PROGRAM) or b"").decode().strip() == f"{wanted.inside}/bin/nvidia-smi"
        and all(f"{wanted.inside}/lib/{name}.{wanted.version}" in found for name in NEEDED)
    )


def _strange(inside: Snapshot, version: str) -> tuple[str, ...]:
    """Libraries that the linker would find outside our folder, of another version (the file's name ends in it)."""
    return tuple(
        path
        for path in libraries(inside)
        if not path.startswith(f"{MOUNTED}/") and not path.endswith(f".so.{version}")
    )


def libraries(inside: Snapshot) -> tuple[str, ...]:
    code, output = inside.command("nvidia-libraries")
    if code not in (0, 1):
        raise CouldNotLook(f"ldconfig -p ended with {code}: {output.strip()[:200]}")
    return tuple(line for line in output.splitlines() if re.match(r"/", line))


def unknown(where: str, error: CouldNotLook) -> Refusal:
    return Refusal(
        where,
        str(error),
        "user space that could not be looked at is never taken for equal",
        make_seen(error),
    )
