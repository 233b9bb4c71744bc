"""Is the pinned driver in place; if not, can it be put there; if not, why: all reasons at once."""

from __future__ import annotations

import json

import pytest

from provision.driver.archive import Prebuilt
from provision.host.boot import PROXMOX_LOADERS
from provision.host.driver import Install, driver_plan, requests
from provision.host.driver_foreign import foreign
from provision.host.kernels import DROP_IN, MARK, NOTHING, ONCE, PIN, Hold, drop_in
from provision.plan import Plan
from provision.spec import Driver, Machine
from tests.unit.driver.conftest import KERNEL, VERSION
from tests.unit.plan.seen import Seen

NEXT = "6.1.0-53-amd64"
ENTRY = f"gnulinux-advanced-1234>gnulinux-{KERNEL}-advanced-1234"
HELD = Prebuilt(VERSION, "open", KERNEL)
MAGIC = "SMP preempt mod_unload modversions"
KPRO = f"/lib/modules/{KERNEL}/updates/kpro/nvidia.ko"
DKMS = f"/lib/modules/{KERNEL}/updates/dkms/nvidia-current-open.ko"
PACKAGES = (
    "nvidia-open-kernel-dkms",
    "firmware-nvidia-gsp",
    "nvidia-open-kernel-support",
    "nvidia-alternative",
    "nvidia-smi",
    "libnvidia-ml1",
    "libcuda1",
    "libnvidia-ptxjitcompiler1",
)


def module(
    path: str = KPRO,
    version: str = VERSION,
    license: str = "Dual MIT/GPL",
    kernel: str = KERNEL,
    dep: str = "yes",
    built: str = "",
) -> str:
    return f"{kernel}|{path}|{version}|{license}|{built or kernel} {MAGIC} |{dep}\n"


@pytest.fixture
def host() -> Seen:
    """A bare host with one A6000 on vfio-pci and one kernel."""
    seen = Seen().boots(KERNEL).put("pci", "/sys/bus/pci/devices", "").gpu("0000:42:00.0", driver="vfio-pci")
    seen.put("dir", "/var/lib/kpro/prebuilt", None).tools("zstd", "dkms")
    seen.put("stat", "/usr/bin/nvidia-uninstall", None).put("stat", "/usr/bin/nvidia-installer", None)
    seen.cmd("driver-modules", f"{KERNEL}|||||\n").cmd("driver-packages", "").cmd("driver-receipts", "")
    seen.cmd("apt-driver", "Inst nvidia-smi (535.261.03-1 Debian:12 [amd64])\n").cmd("dpkg-audit", "")
    seen.put("file", "/sys/module/module/parameters/sig_enforce", "N\n")
    seen.put("file", "/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    seen.put("file", "/etc/os-release", "NAME=x\nVERSION_CODENAME=bookworm\n")
    seen.put("file", "/proc/modules", "loop 40960 0 - Live 0x0\n").put(
        "file", "/proc/driver/nvidia/version", None
    )
    return seen


def installed(host: Seen) -> Seen:
    return host.cmd("driver-modules", module()).cmd(
        "driver-receipts", f"{KERNEL}|whole|# prebuilt {VERSION} open\n"
    )


def debian(machine: Machine, **other: str) -> Machine:
    return machine.model_copy(
        update={"driver": Driver(version=VERSION, flavour="open", route="debian").model_copy(update=other)}
    )


def plan(machine: Machine, host: Seen, *held: Prebuilt) -> Plan:
    return driver_plan(machine, host.snapshot, held)


def reasons(found: Plan) -> str:
    assert not found.items, "a refused driver has no item"
    return "\n".join(map(str, found.refusals))


def kinds(found: Plan) -> list[str]:
    assert not found.refusals, found.refusals
    return [item.kind for item in found.items]


def test_a_bare_host_gets_the_pinned_driver_for_its_kernel(machine: Machine, host: Seen) -> None:
    (item,) = plan(machine, host, HELD).items
    assert item.id == f"driver.install {VERSION} open on @local"
    assert item.payload == Install("prebuilt", VERSION, "open", (KERNEL,), (HELD,), False)


def test_a_driver_that_is_in_place_is_left_alone(machine: Machine, host: Seen) -> None:
    found = plan(machine, installed(host))
    assert not found.items
    assert not found.refusals


@pytest.mark.parametrize(
    ("modules", "receipts"),
    [
        (module(), f"{KERNEL}|damaged|# prebuilt {VERSION} open\n"),
        (module(), ""),
        (module(), f"{KERNEL}|whole|# prebuilt 580.159.04 open\n"),
        (module(), f"{KERNEL}|whole|\n"),
        (module(dep="no"), f"{KERNEL}|whole|# prebuilt {VERSION} open\n"),
        (module(version="535.309.01"), f"{KERNEL}|whole|# prebuilt {VERSION} open\n"),
        (module(license="NVIDIA"), f"{KERNEL}|whole|# prebuilt {VERSION} open\n"),
        (module(built="6.1.0-49-amd64"), f"{KERNEL}|whole|# prebuilt {VERSION} open\n"),
        (f"{KERNEL}|||||\n", f"{KERNEL}|whole|# prebuilt {VERSION} open\n"),
    ],
    ids=[
        "damaged",
        "no receipt",
        "other receipt",
        "empty receipt",
        "no depmod",
        "version",
        "flavour",
        "vermagic",
        "gone",
    ],
)
def test_an_install_that_is_not_whole_is_done_again(
    machine: Machine, host: Seen, modules: str, receipts: str
) -> None:
    host.cmd("driver-modules", modules).cmd("driver-receipts", receipts)
    assert [item.kind for item in plan(machine, host, HELD).items] == ["driver.install"]


def test_the_kernel_that_will_boot_gets_its_module_before(machine: Machine, host: Seen) -> None:
    installed(host).kernels(KERNEL, NEXT, "6.1.0-9-amd64")
    (item,) = plan(machine, host, HELD, Prebuilt(VERSION, "open", NEXT)).items
    assert item.payload.kernels == (NEXT,)
    host.put("file", "/etc/default/grub", f'GRUB_DEFAULT="Advanced options>Linux {KERNEL}"\n')
    assert not plan(machine, host, HELD).items, "what GRUB is told to boot counts, not the newest"


def test_a_kernel_without_a_driver_is_not_booted_into(machine: Machine, host: Seen) -> None:
    found = plan(machine, installed(host).kernels(KERNEL, NEXT), HELD)
    assert not found.refusals
    (item,) = found.items
    assert (item.id, item.payload) == (f"kernel.hold {KERNEL} on @local", Hold(KERNEL, "grub"))
    command = f"build-driver --driver {VERSION} --kernel {NEXT} --flavour open --suite bookworm"
    assert any(command in note and NEXT in note for note in found.notes), found.notes
    host.put("file", "/etc/default/grub", 'GRUB_DEFAULT="some title"\n')
    assert kinds(plan(machine, host, HELD)) == ["kernel.hold"], "where it cannot be told, every kernel counts"


def test_a_kernel_that_arrives_holds_up_no_driver_for_the_one_that_runs(machine: Machine, host: Seen) -> None:
    found = plan(machine, host.kernels(KERNEL, NEXT), HELD)
    assert kinds(found) == ["kernel.hold", "driver.install"], "held first: a boot may come at any time"
    assert found.items[1].payload.kernels == (KERNEL,)
    assert "build-driver" in reasons(plan(machine, host)), (
        "without one for the running kernel nothing is done"
    )


def test_a_held_kernel_is_held_until_the_other_has_its_driver(machine: Machine, host: Seen) -> None:
    installed(host).kernels(KERNEL, NEXT)
    host.put("file", DROP_IN, drop_in(KERNEL, ENTRY)).cmd("grub-default", f"0\n{ENTRY}\n")
    assert kinds(plan(machine, host, HELD)) == []
    found = plan(machine, host, HELD, Prebuilt(VERSION, "open", NEXT))
    assert kinds(found) == ["driver.install", "kernel.release"], "released when it has it, not before"
    assert found.items[0].payload.kernels == (NEXT,)
    assert kinds(plan(machine, host.kernels(KERNEL), HELD)) == ["kernel.release"]
    host.put("file", DROP_IN, NOTHING)
    assert kinds(plan(machine, host, HELD)) == []


def test_what_the_boot_loader_does_not_follow_is_not_held(machine: Machine, host: Seen) -> None:
    installed(host).kernels(KERNEL, NEXT)
    host.put("file", DROP_IN, drop_in(KERNEL, ENTRY)).cmd("grub-default", "0\n")
    assert kinds(plan(machine, host, HELD)) == ["kernel.hold"]
    del host.sections["cmd", "grub-default"]
    assert "grub-default" in reasons(plan(machine, host, HELD))


def test_a_pin_of_proxmox_is_kpros_only_by_its_mark(machine: Machine, host: Seen) -> None:
    installed(host).kernels(KERNEL, NEXT).put("file", PROXMOX_LOADERS, "1234-ABCD\n")
    (item,) = plan(machine, host, HELD).items
    assert item.payload == Hold(KERNEL, "proxmox-boot-tool")
    host.put("file", PIN, f"{KERNEL}\n")
    assert kinds(plan(machine, host, HELD)) == [], "its operator chose the kernel that has its driver"
    host.put("file", MARK, f"{KERNEL}\n")
    assert kinds(plan(machine, host, HELD)) == []
    assert kinds(plan(machine, host, HELD, Prebuilt(VERSION, "open", NEXT)))[-1] == "kernel.release"


@pytest.mark.parametrize("case", ["another pin", "one boot", "no loader", "gone"])
def test_a_kernel_that_cannot_be_held_refuses_all(machine: Machine, host: Seen, case: str) -> None:
    installed(host).kernels(KERNEL, NEXT)
    if case == "another pin":
        host.put("file", PROXMOX_LOADERS, "1234-ABCD\n").put("file", PIN, f"{NEXT}\n")
    elif case == "one boot":
        host.put("file", PROXMOX_LOADERS, "1234-ABCD\n").put("file", ONCE, f"{NEXT}\n")
    elif case == "no loader":
        host.tools("update-grub", there=False)
    else:
        host.kernels(NEXT)
    said = reasons(plan(machine, host, HELD))
    assert f"kernel {NEXT} boots next, and " in said
    assert "build-driver" in said


def test_without_an_archive_the_exact_command_is_named(machine: Machine, host: Seen) -> None:
    for other in (
        Prebuilt(VERSION, "proprietary", KERNEL),
        Prebuilt("580.159.04", "open", KERNEL),
        Prebuilt(VERSION, "open", NEXT),
    ):
        said = reasons(plan(machine, host, other))
        assert f"provision build-driver --driver {VERSION} --kernel {KERNEL} --flavour open" in said
    host.put("dir", "/var/lib/kpro/prebuilt", f"{HELD.name}\n.unpacked\nx\n")
    assert plan(machine, host).items, "an archive on the host itself counts"


def test_a_pair_that_is_known_not_to_compile_is_said_instead_of_a_command_that_fails(
    machine: Machine, host: Seen
) -> None:
    kernel = "6.12.117+deb13-amd64"
    host.boots(kernel)
    pinned = machine.model_copy(
        update={"driver": Driver(version="550.163.01", flavour="open", route="prebuilt")}
    )
    said = reasons(plan(pinned, host))
    assert "pci_resize_resource" in said
    assert "build-driver" not in said
    assert "pci_resize_resource" in reasons(plan(debian(machine, version="550.163.01"), host))


def test_every_reason_is_given_at_once(machine: Machine, host: Seen) -> None:
    pinned = machine.model_copy(update={"driver": Driver(version=VERSION, flavour="open", route="prebuilt")})
    host.tools("zstd", there=False).put("stat", "/usr/bin/nvidia-uninstall", "755 0 0 1 regular file\n")
    host.cmd("driver-packages", "ii |libcuda1|550.163.01-2\nrc |nvidia-smi|535.261.03-1\n")
    said = reasons(plan(pinned, host))
    assert "zstd" in said
    assert ".run installer" in said
    assert "libcuda1 550.163.01-2" in said
    assert "nvidia-smi" not in said, "removed, only its configuration is left"
    assert "build-driver" in said


def test_an_unknown_version_is_refused_with_the_nearest(machine: Machine, host: Seen) -> None:
    pinned = machine.model_copy(update={"driver": Driver(version="535.261.04", flavour="open")})
    assert "did you mean '535.261.03'" in reasons(plan(pinned, host))


NVIDIA = {"driver": Driver(version="580.159.04", flavour="open", route="nvidia")}


def system(host: Seen, name: str, version: str) -> Seen:
    return host.put("file", "/etc/os-release", f'ID={name}\nVERSION_ID="{version}"\n')


def test_a_repository_that_apt_does_not_know_is_added_first_and_shown(machine: Machine, host: Seen) -> None:
    system(host, "debian", "12").cmd("apt-driver", "kpro: no repository\n")
    pinned = machine.model_copy(update=NVIDIA)
    first, second = plan(pinned, host).items
    assert (first.kind, second.kind) == ("driver.repository", "driver.install")
    assert "add NVIDIA's repository debian12 (keyring cuda-keyring_1.1-1_all.deb, key 3BF863CC)" in first.text
    assert first.payload.address.endswith("/debian12")
    host.cmd("apt-driver", "Inst nvidia-driver-cuda (580.159.04-1 NVIDIA CUDA:x [amd64])\n")
    assert [item.kind for item in plan(pinned, host).items] == ["driver.install"]
    system(host, "debian", "11").cmd("apt-driver", "kpro: no repository\n")
    assert "no repository for debian 11" in reasons(plan(pinned, host))


def test_a_kernel_of_which_nothing_is_known_is_tried_first(machine: Machine, host: Seen) -> None:
    host.cmd("apt-driver", "Inst nvidia-driver-cuda (580.178.04-1 NVIDIA CUDA:x [amd64])\n")
    pinned = machine.model_copy(
        update={"driver": Driver(version="580.178.04", flavour="open", route="nvidia")}
    )
    system(host, "debian", "12")
    assert plan(pinned, host).items[0].payload.trial == (), "6.1 is known to do"
    host.boots("7.9.1-1-pve").cmd("driver-modules", "7.9.1-1-pve|||||\n")
    found = plan(pinned, host)
    assert not found.refusals, found.refusals
    (item,) = found.items
    assert item.payload.trial == ("7.9.1-1-pve",)
    assert "compiled on trial first for 7.9.1-1-pve" in item.text


def test_ubuntus_modules_are_for_ubuntu_alone(machine: Machine, host: Seen) -> None:
    pinned = machine.model_copy(
        update={"driver": Driver(version="580.159.03", flavour="open", route="ubuntu")}
    )
    assert "this machine is debian" in reasons(plan(pinned, system(host, "debian", "12")))
    host.cmd(
        "apt-driver",
        "Inst nvidia-headless-580-server-open (580.159.03-0ubuntu1 Ubuntu:24.04/noble [amd64])\n",
    )
    assert plan(pinned, system(host, "ubuntu", "24.04")).items
    host.cmd(
        "apt-driver", "Inst nvidia-dkms-580-server-open (580.159.03-0ubuntu1 Ubuntu:24.04/noble [amd64])\n"
    )
    assert "would compile" in reasons(plan(pinned, host))


@pytest.mark.parametrize(
    ("route", "package", "mixed"),
    [
        ("nvidia", "nvidia-alternative", True),
        ("nvidia", "nvidia-smi", True),
        ("nvidia", "nvidia-headless-580-server-open", True),
        ("nvidia", "nvidia-driver-pinning-580", False),
        ("nvidia", "libcuda1", False),
        ("debian", "nvidia-kernel-open-dkms", True),
        ("debian", "nvidia-alternative", False),
        ("ubuntu", "nvidia-dkms-580-server-open", True),
        ("ubuntu", "nvidia-utils-580-server", False),
        ("ubuntu", "linux-modules-nvidia-580-server-open-generic", False),
        ("run", "libcuda1", True),
    ],
)
def test_packages_of_two_archives_are_never_mixed(
    machine: Machine, host: Seen, route: str, package: str, mixed: bool
) -> None:
    found = foreign(route, host.snapshot, (), {package: "1-1"})
    assert bool(found) == mixed, found


def test_an_impossible_flavour_is_refused(machine: Machine, host: Seen) -> None:
    host.gpu("0000:42:00.0", driver="vfio-pci", device="0x1b38")
    assert "only the proprietary module" in reasons(plan(machine, host, HELD))


def test_packages_and_prebuilt_files_are_never_mixed(machine: Machine, host: Seen) -> None:
    host.cmd(
        "driver-packages", "ii |nvidia-open-kernel-dkms|535.261.03-1\nii |linux-headers-amd64|6.1.176-1\n"
    )
    assert "apt-get purge nvidia-open-kernel-dkms, or" in reasons(plan(machine, host, HELD))
    host.cmd("driver-packages", "").cmd("driver-modules", module())
    assert "was put there by route prebuilt" in reasons(plan(debian(machine), host))
    host.cmd("driver-modules", module(f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko"))
    assert "belongs to no package" in reasons(plan(machine, host, HELD))
    host.cmd("driver-modules", f"{KERNEL}|||||\n").cmd(
        "driver-packages", "ii |nvidia-driver-cuda|580.159.04-1\n"
    )
    assert "packages of another archive" in reasons(plan(debian(machine), host))


def test_debians_packages_in_place_are_left_alone_and_a_missing_one_is_not_overlooked(
    machine: Machine, host: Seen
) -> None:
    packages = "".join(f"ii |{name}|{VERSION}-1\n" for name in PACKAGES)
    host.cmd("driver-modules", module(DKMS)).cmd("driver-packages", packages.replace("ii |", "hi |"))
    assert not plan(debian(machine), host).items
    assert not plan(debian(machine), host).refusals
    host.cmd("driver-packages", packages)
    assert not plan(debian(machine), host).items, "what somebody else installed is theirs to hold"
    manifest = {"changes": [{"kind": "packages", "names": list(PACKAGES)}]}
    host.put("file", "/var/lib/kpro/manifest.json", json.dumps(manifest))
    (item,) = plan(debian(machine), host).items
    assert (item.kind, set(item.payload.names)) == ("driver.hold", set(PACKAGES))
    host.put("file", "/var/lib/kpro/manifest.json", "{")
    assert "not readable" in reasons(plan(debian(machine), host))
    host.put("file", "/var/lib/kpro/manifest.json", None)
    host.cmd("driver-packages", packages.replace(f"ii |libcuda1|{VERSION}-1\n", ""))
    assert plan(debian(machine), host).items
    host.cmd("driver-packages", packages.replace("ii |libcuda1", "rc |libcuda1"))
    assert plan(debian(machine), host).items
    host.cmd("driver-packages", packages.replace(f"nvidia-smi|{VERSION}", "nvidia-smi|535.309.01"))
    assert plan(debian(machine), host).items


def test_apt_is_asked_before_anything_is_touched(machine: Machine, host: Seen) -> None:
    assert any(request.startswith("cmd:apt-driver:") for request in requests(debian(machine)))
    assert plan(debian(machine), host).items
    skew = (
        " nvidia-open-kernel-dkms : Depends: nvidia-alternative (= 535.261.03-1) but 535.309.01-1 is to be "
    )
    skew += "installed\n"
    host.cmd("apt-driver", f"The following packages have unmet dependencies:\n{skew}", 100)
    assert (
        "nvidia-open-kernel-dkms needs nvidia-alternative 535.261.03-1, apt would take 535.309.01-1"
        in reasons(plan(debian(machine), host))
    )
    host.cmd("apt-driver", "Remv proxmox-ve [8.2]\nInst nvidia-smi (1 x)\n")
    assert "would remove proxmox-ve" in reasons(plan(debian(machine), host))
    host.cmd("dpkg-audit", "The following packages are only half configured\n drbd-dkms   the module\n")
    assert "half-configured: drbd-dkms" in reasons(plan(debian(machine), host))


def test_what_could_not_be_looked_at_is_never_taken_for_absent(machine: Machine, host: Seen) -> None:
    for kind, path in (
        ("cmd", "driver-modules"),
        ("cmd", "uname-r"),
        ("names", "/boot/vmlinuz-*"),
        ("cmd", "driver-packages"),
    ):
        seen = Seen()
        seen.sections = dict(host.sections)
        seen.put(kind, path, None, "cannot be read")
        assert "never taken for absent" in reasons(plan(machine, seen, HELD))


def test_a_machine_that_is_not_managed_is_not_even_looked_at(machine: Machine) -> None:
    left = machine.model_copy(update={"managed": False})
    assert requests(left) == []
    assert plan(left, Seen()) == Plan("box")
    assert plan(machine.model_copy(update={"driver": None}), Seen()) == Plan("box")


def test_signed_modules_are_asked_for_where_the_kernel_takes_no_others(machine: Machine, host: Seen) -> None:
    host.put("file", "/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    assert plan(machine, host, HELD).items[0].payload.signed
    host.put("file", "/sys/kernel/security/lockdown", None)
    assert not plan(machine, host, HELD).items[0].payload.signed
    host.put("file", "/sys/module/module/parameters/sig_enforce", "Y\n")
    assert plan(machine, host, HELD).items[0].payload.signed
