"""Step 7: host and guest have the user space of exactly the module's version, and whatever differs is an item again."""

from __future__ import annotations

import pytest

from provision.acts import userspace as act
from provision.acts.voice import Voice
from provision.guest import userspace
from provision.guest.decide import container_plan
from provision.guest.userspace import (
    FOLDER,
    LINKER,
    PROGRAM,
    UserSpace,
    guest_userspace_plan,
    host_userspace_plan,
)
from provision.run.errors import ActFailed
from provision.spec import Guest, Machine
from tests.unit.driver.conftest import VERSION
from tests.unit.driver.rooted import Overlaid
from tests.unit.plan.seen import Seen

LOADED = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build\n"
INSIDE = f"/opt/kpro/nvidia/{VERSION}"


@pytest.fixture
def served(machine: Machine) -> Machine:
    guest = Guest(name="llm", backend="lxc", id="c1", gpus=["42:00.0"])
    return machine.model_copy(update={"guests": (guest,)})


@pytest.fixture
def host() -> Seen:
    return Seen().cmd("userspace", "whole\n").put("file", "/proc/driver/nvidia/version", LOADED)


@pytest.fixture
def inside() -> Seen:
    seen = Seen().put("file", LINKER, f"{INSIDE}/lib\n").put("link", PROGRAM, f"{INSIDE}/bin/nvidia-smi\n")
    return seen.cmd(
        "nvidia-libraries", f"{INSIDE}/lib/libcuda.so.{VERSION}\n{INSIDE}/lib/libnvidia-ml.so.{VERSION}\n"
    )


def kinds(machine: Machine, host: Seen, inside: Seen | None) -> list[str]:
    parts = (
        host_userspace_plan(machine, host.snapshot),
        guest_userspace_plan(machine, machine.guests[0], host.snapshot, inside.snapshot if inside else None),
    )
    assert not [part.refusals for part in parts if part.refusals]
    return [item.id for part in parts for item in part.items]


GUEST = f"userspace.guest {VERSION} on @guest/@local/llm"


def test_equal_user_space_is_left_alone(served: Machine, host: Seen, inside: Seen) -> None:
    assert kinds(served, host, inside) == []


@pytest.mark.parametrize("state", ["absent", "damaged"])
def test_a_folder_that_is_not_whole_is_made(served: Machine, host: Seen, inside: Seen, state: str) -> None:
    assert kinds(served, host.cmd("userspace", f"{state}\n"), inside) == [
        f"userspace.host {VERSION} on @local"
    ]


def test_a_guest_that_is_not_there_yet_gets_it_too(served: Machine, host: Seen) -> None:
    assert kinds(served, host, None) == [GUEST]


@pytest.mark.parametrize(
    ("kind", "path", "text"),
    [
        ("file", LINKER, None),
        ("file", LINKER, "/opt/kpro/nvidia/580.159.04/lib\n"),
        ("link", PROGRAM, None),
        ("link", PROGRAM, "/opt/kpro/nvidia/580.159.04/bin/nvidia-smi\n"),
        ("cmd", "nvidia-libraries", ""),
        ("cmd", "nvidia-libraries", f"{INSIDE}/lib/libcuda.so.{VERSION}\n"),
    ],
)
def test_a_guest_that_leads_elsewhere_is_an_item_again(
    served: Machine, host: Seen, inside: Seen, kind: str, path: str, text: str | None
) -> None:
    assert kinds(served, host, inside.put(kind, path, text)) == [GUEST]


def test_libraries_of_another_version_in_the_container_are_named(
    served: Machine, host: Seen, inside: Seen
) -> None:
    code, seen = inside.snapshot.command("nvidia-libraries")
    inside.cmd("nvidia-libraries", f"{seen}/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01\n", code)
    plan = guest_userspace_plan(served, served.guests[0], host.snapshot, inside.snapshot)
    assert not plan.items
    assert "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01" in str(plan.refusals[0])
    inside.cmd("nvidia-libraries", f"{seen}/usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}\n")
    assert kinds(served, host, inside) == []


def test_what_could_not_be_looked_at_is_never_taken_for_equal(
    served: Machine, host: Seen, inside: Seen
) -> None:
    inside.put("file", LINKER, None, "cannot be read")
    assert guest_userspace_plan(served, served.guests[0], host.snapshot, inside.snapshot).refusals
    assert host_userspace_plan(served, host.cmd("userspace", "sh: stat: not found\n").snapshot).refusals


@pytest.mark.parametrize(
    "change",
    [
        {"gpus": ()},
        {"userspace": "packages"},
        {"backend": "pct", "id": "105"},
    ],
)
def test_a_machine_or_guest_that_is_not_ours_to_fill_is_left_alone(
    served: Machine, change: dict[str, object]
) -> None:
    served = served.model_copy(update={"guests": (served.guests[0].model_copy(update=change),)})
    assert userspace.host_requests(served) == []
    assert host_userspace_plan(served, Seen().snapshot).items == ()
    assert userspace.guest_requests(served, served.guests[0]) == []
    assert guest_userspace_plan(served, served.guests[0], Seen().snapshot, Seen().snapshot).items == ()


def test_a_machine_whose_driver_nobody_pinned_gives_the_user_space_of_the_one_that_is_loaded(
    served: Machine, host: Seen
) -> None:
    theirs = served.model_copy(update={"managed": False, "driver": None})
    host.cmd("userspace", "absent\n")
    assert kinds(theirs, host, None) == [f"userspace.host {VERSION} on @local", GUEST]
    host.put("file", "/proc/driver/nvidia/version", None)
    assert kinds(theirs, host, None) == []


def test_the_container_mounts_the_folder_of_all_versions_read_only(served: Machine, host: Seen) -> None:
    host.cmd("lxc-path", "/var/lib/lxc\n").cmd("lxc-ls", "").put(
        "file", "/proc/devices", "Character devices:\n195 nvidia\n508 nvidia-uvm\n"
    )
    host.put("file", "/proc/driver/nvidia/gpus/0000:42:00.0/information", "Device Minor: \t 0\n")
    host.put("file", "/sys/module/apparmor/parameters/enabled", None)
    host.put("file", "/etc/kpro/test-host", None).put("stat", "/etc/kpro/test-host", None)
    line = f"lxc.mount.entry = {FOLDER} opt/kpro/nvidia none bind,create=dir,ro 0 0\n"
    assert line in container_plan(served, served.guests[0], host.snapshot).items[0].payload.config
    left = served.model_copy(
        update={"guests": (served.guests[0].model_copy(update={"userspace": "packages"}),)}
    )
    assert line not in container_plan(left, left.guests[0], host.snapshot).items[0].payload.config


def fill(place: Overlaid, version: str = VERSION) -> None:
    """A host's user space as Debian has it. ldconfig -n makes the links that a library's own name asks for."""
    place.sh(
        "mkdir -p /usr/lib/x86_64-linux-gnu/nvidia/current && cd /usr/lib/x86_64-linux-gnu/nvidia/current && "
        f"for l in libcuda libnvidia-ml libnvidia-nvvm; do echo $l >$l.so.{version}; done; "
        f"printf '#!/bin/sh\\necho {version}\\n' >/usr/bin/nvidia-smi; chmod 755 /usr/bin/nvidia-smi"
    )
    (place.folder / "bin/ldconfig").write_text(
        '#!/bin/sh\n[ "$1" = -n ] || exit 0\ncd "$2" || exit 1\n'
        'for f in *.so.*.*; do [ ! -f "$f" ] || ln -sf "$f" "${f%%.so.*}.so.1"; done\n'
    )


def test_user_space_is_taken_from_where_the_linker_of_the_machine_finds_it(
    place: Overlaid, served: Machine
) -> None:
    fill(place)
    place.sh(
        "mkdir -p /usr/local/nvidia && mv /usr/lib/x86_64-linux-gnu/nvidia/current /usr/local/nvidia/somewhere && "
        "mkdir -p /usr/local/nvidia/bin && mv /usr/bin/nvidia-smi /usr/local/nvidia/bin/"
    )
    with pytest.raises(ActFailed, match=rf"has no libcuda\.so\.{VERSION}"):
        host_act(place)
    script = place.folder / "bin/ldconfig"
    found = "libcuda.so.1 (libc6,x86-64) => /usr/local/nvidia/somewhere/libcuda.so.1"
    script.write_text(script.read_text().replace("|| exit 0", f"|| {{ echo '\t{found}'; exit 0; }}", 1))
    host_act(place)
    assert state(place, served) == "whole"


def test_what_is_loaded_says_which_folder_is_looked_at(place: Overlaid, served: Machine) -> None:
    """This test runs where no driver is loaded: the look ends with ``absent``, and never with another's folder."""
    fill(place)
    host_act(place)
    assert state(place, served) == "whole"
    assert state(place, served.model_copy(update={"driver": None})) == "absent"


def host_act(place: Overlaid, version: str = VERSION) -> None:
    act.host(place, UserSpace(version), Voice("run", place.said.append))  # type: ignore[arg-type]


def state(place: Overlaid, served: Machine) -> str:
    return place.look(userspace.host_requests(served)).command("userspace")[1].strip()


def test_the_host_folder_holds_the_hosts_own_files_and_links(place: Overlaid, served: Machine) -> None:
    assert state(place, served) == "absent"
    fill(place)
    host_act(place)
    assert state(place, served) == "whole"
    assert place.text(f"{FOLDER}/{VERSION}/lib/libcuda.so") == "libcuda\n"
    assert place.text(f"{FOLDER}/{VERSION}/lib/libnvidia-ml.so.1") == "libnvidia-ml\n"
    assert place.sh(f"{FOLDER}/{VERSION}/bin/nvidia-smi").stdout.decode().strip() == VERSION
    place.sh(f"rm {FOLDER}/{VERSION}/lib/libcuda.so.1")
    assert state(place, served) == "damaged"
    host_act(place)
    assert state(place, served) == "whole"
    assert not [path for path in place.find(FOLDER) if "partial" in path or ".old" in path]


def test_user_space_of_another_version_is_never_passed_off_as_this_one(
    place: Overlaid, served: Machine
) -> None:
    fill(place, "535.309.01")
    with pytest.raises(ActFailed, match=rf"has no libcuda\.so\.{VERSION}"):
        host_act(place)
    assert state(place, served) == "absent"
    fill(place)
    place.sh("printf '#!/bin/sh\\necho 535.309.01\\n' >/usr/bin/nvidia-smi")
    with pytest.raises(ActFailed, match=f"is not of version {VERSION}"):
        host_act(place)
    assert state(place, served) == "absent"
