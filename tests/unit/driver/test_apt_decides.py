"""What apt itself says about a driver, on archives with the real names and relations: asked, never installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.acts.driver_apt import PREFERENCES
from provision.data import driver_routes
from provision.host import apt_asked, apt_question
from provision.spec import Driver
from tests.doubles.apt import archive, catalogue
from tests.doubles.apt.archive import Deb
from tests.unit.driver.apt_rig import Asked

pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("apt-get", "dpkg-deb", "unshare")),
    reason="apt, dpkg-deb and unshare",
)

BOOKWORM, TRIXIE = "535.261.03", "550.163.01"
VERSION, NEWER = "580.159.04", "580.178.04"


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archives")
    made: dict[str, tuple[str, str, list[Deb]]] = {
        "base": ("Debian", "bookworm", list(catalogue.BASE)),
        "bookworm": ("Debian", "bookworm", catalogue.debian(catalogue.OLD)),
        "security": ("Debian", "bookworm-security", catalogue.debian(catalogue.OLD, security=catalogue.NEW)),
        "trixie": ("Debian", "trixie", catalogue.debian("550.163.01-2")),
        "proxmox": ("Proxmox", "bookworm", list(catalogue.PROXMOX)),
        "nvidia": ("NVIDIA", "", catalogue.nvidia(VERSION, NEWER, "620.10.01")),
        "ubuntu": ("Ubuntu", "noble", catalogue.ubuntu("580.159.03", "6.8.0-51-generic")),
        "unsigned": ("Ubuntu", "noble", catalogue.ubuntu("580.159.03", "6.8.0-40-generic")),
    }
    for name, (origin, suite, debs) in made.items():
        label = "NVIDIA CUDA" if origin == "NVIDIA" else ""
        archive.write(folder / name, origin, suite, debs, label=label, build=False)
    return folder


@pytest.fixture
def machine(tmp_path: Path, archives: Path) -> Callable[..., Asked]:
    def make(*sources: str, system: str = 'ID=debian\nVERSION_ID="12"\n') -> Asked:
        asked = Asked(tmp_path / "machine", system)
        probe = asked.sh("true")
        if probe.returncode:
            pytest.skip(f"no user namespace with mounts here: {probe.stderr.decode().strip()[-120:]}")
        return asked.sources(*(archives / name for name in sources))

    return make


def pin(version: str, route: str, flavour: str = "open") -> Driver:
    return Driver(version=version, route=route, flavour=flavour)  # type: ignore[arg-type]


def ask(host: Asked, driver: Driver) -> tuple[list[str], str]:
    """Every reason against it, and what apt said."""
    done = host.sh(f"({apt_question.question(driver)})")
    said = done.stdout.decode() + done.stderr.decode()
    reasons = [f"{seen}. Next: {step}" for seen, step in apt_asked.why_not(driver, done.returncode, said)]
    return reasons, said


def test_a_suite_whose_archives_fit_gives_the_driver(machine: Callable[..., Asked]) -> None:
    host = machine("base", "bookworm").kernels(catalogue.KERNEL)
    reasons, said = ask(host, pin(BOOKWORM, "debian"))
    assert not reasons
    assert f"Inst nvidia-open-kernel-dkms ({catalogue.OLD}" in said


def test_user_space_that_security_made_newer_than_the_kernel_package_is_found_before_installing(
    machine: Callable[..., Asked],
) -> None:
    host = machine("base", "bookworm", "security").kernels(catalogue.KERNEL)
    reasons, said = ask(host, pin("535.309.01", "debian"))
    assert any("no nvidia-open-kernel-dkms" in reason and catalogue.OLD in reason for reason in reasons), said


def test_exact_versions_of_the_older_archive_are_still_found_beside_a_newer_one(
    machine: Callable[..., Asked],
) -> None:
    host = machine("base", "bookworm", "security").kernels(catalogue.KERNEL)
    reasons, said = ask(host, pin(BOOKWORM, "debian"))
    assert not reasons, reasons
    assert f"Inst nvidia-alternative ({catalogue.OLD}" in said
    assert catalogue.NEW not in said


def test_a_suite_whose_own_archives_do_not_fit_is_told_in_versions(
    machine: Callable[..., Asked], archives: Path, tmp_path: Path
) -> None:
    broken = [deb for deb in catalogue.debian(catalogue.OLD) if deb.name != "nvidia-open-kernel-support"]
    broken.append(Deb("nvidia-open-kernel-support", catalogue.OLD, "nvidia-alternative (= 535.247.01-1)"))
    archive.write(tmp_path / "broken", "Debian", "bookworm", broken, build=False)
    host = machine("base").sources(archives / "base", tmp_path / "broken").kernels(catalogue.KERNEL)
    reasons, _ = ask(host, pin(BOOKWORM, "debian"))
    assert any(
        "nvidia-open-kernel-support needs nvidia-alternative 535.247.01-1" in reason for reason in reasons
    )


def test_a_suite_without_the_pinned_version_says_what_it_has(machine: Callable[..., Asked]) -> None:
    host = machine("base", "trixie").kernels(catalogue.KERNEL)
    (reason,) = ask(host, pin(BOOKWORM, "debian"))[0]
    assert "they have 550.163.01-2" in reason
    assert "pin what the suite carries" in reason


def test_a_held_package_that_stands_in_the_way_is_said(machine: Callable[..., Asked]) -> None:
    host = machine("base", "bookworm").kernels(catalogue.KERNEL)
    host.has([Deb("nvidia-alternative", "535.247.01-1"), Deb("libcuda1", "535.247.01-1")], held=True)
    (reason,), said = ask(host, pin(BOOKWORM, "debian"))
    assert "on hold are in the way" in reason
    assert "apt-mark unhold" in reason
    ours = frozenset(("nvidia-alternative", "libcuda1"))
    assert not apt_asked.why_not(pin(BOOKWORM, "debian"), 0, said, ours), (
        "a new pin may change what kpro holds itself"
    )
    assert apt_asked.why_not(pin(BOOKWORM, "debian"), 0, said, frozenset(("libcuda1",)))


def test_missing_headers_are_found_before_the_compile(machine: Callable[..., Asked]) -> None:
    host = machine("base", "bookworm").kernels(catalogue.KERNEL, "6.1.0-13-amd64")
    reasons, _ = ask(host, pin(BOOKWORM, "debian"))
    assert any("no linux-headers-6.1.0-13-amd64 any more" in reason for reason in reasons)
    assert not any(catalogue.KERNEL in reason for reason in reasons)


def test_headers_of_every_kernel_and_of_the_next_one_come_with_the_driver(
    machine: Callable[..., Asked],
) -> None:
    host = machine("base", "bookworm").kernels(catalogue.KERNEL, catalogue.NEXT)
    host.has([Deb("linux-image-amd64", "6.1.176-1"), catalogue.kernel(catalogue.KERNEL)])
    said = ask(host, pin(BOOKWORM, "debian"))[1]
    for name in (
        f"linux-headers-{catalogue.KERNEL}",
        f"linux-headers-{catalogue.NEXT}",
        "linux-headers-amd64",
    ):
        assert f"Inst {name} (" in said


def test_on_proxmox_its_own_headers_and_their_metapackages_come(machine: Callable[..., Asked]) -> None:
    host = machine("base", "proxmox", "nvidia").kernels(catalogue.PVE)
    host.has(
        [
            Deb("proxmox-default-kernel", "2.0.1"),
            Deb("proxmox-kernel-6.17", "6.17.4-2"),
            catalogue.kernel(catalogue.PVE, "6.17.4-2"),
        ]
    )
    reasons, said = ask(host, pin(VERSION, "nvidia"))
    assert not reasons, reasons
    for name in (f"proxmox-headers-{catalogue.PVE}", "proxmox-headers-6.17", "proxmox-default-headers"):
        assert f"Inst {name} (" in said
    assert "linux-headers" not in said


def test_headers_that_a_proxmox_without_its_archive_cannot_have_are_said(
    machine: Callable[..., Asked],
) -> None:
    host = machine("base", "nvidia").kernels(catalogue.PVE)
    host.has([Deb("proxmox-default-kernel", "2.0.1")])
    reasons, said = ask(host, pin(VERSION, "nvidia"))
    assert any("proxmox-default-headers" in reason and "headers" in reason for reason in reasons), said


def test_the_pinned_version_of_nvidias_repository_is_taken_and_nothing_newer(
    machine: Callable[..., Asked],
) -> None:
    host = machine("base", "bookworm", "nvidia").kernels(catalogue.KERNEL)
    reasons, said = ask(host, pin(VERSION, "nvidia"))
    assert not reasons, reasons
    for name in ("nvidia-driver-pinning-580.159.04", "nvidia-driver-cuda", "libcuda1", "libnvidia-cfg1"):
        assert f"Inst {name} ({VERSION}-1 " in said
    assert NEWER not in said
    assert "620" not in said


def test_the_branch_s_pinning_package_serves_where_the_version_has_none(
    machine: Callable[..., Asked], archives: Path, tmp_path: Path
) -> None:
    debs = [
        deb
        for deb in catalogue.nvidia(VERSION, NEWER)
        if not deb.name.startswith("nvidia-driver-pinning-580.")
    ]
    archive.write(tmp_path / "branch", "NVIDIA", "", debs, label="NVIDIA CUDA", build=False)
    host = machine("base").sources(archives / "base", tmp_path / "branch").kernels(catalogue.KERNEL)
    reasons, said = ask(host, pin(VERSION, "nvidia"))
    assert not reasons
    assert "Inst nvidia-driver-pinning-580 (" in said
    (pinning,) = [deb for deb in debs if deb.name == "nvidia-driver-pinning-580"]
    (path, text), *_ = pinning.files.items()
    (host.folder / path.removeprefix("/etc/")).write_text(text)
    assert f"Candidate: {NEWER}-1" in host.sh("apt-cache policy libcuda1").stdout.decode()
    reasons, said = ask(host, pin(VERSION, "nvidia"))
    assert not reasons, reasons
    assert f"Inst libnvidia-cfg1 ({VERSION}-1 " in said, "the branch's pin alone takes the newest"


def test_debians_nvidia_smi_is_never_removed_in_passing(machine: Callable[..., Asked]) -> None:
    host = machine("base", "bookworm", "nvidia").kernels(catalogue.KERNEL)
    host.has(
        [deb for deb in catalogue.debian(catalogue.OLD) if deb.name in ("nvidia-smi", "nvidia-alternative")]
    )
    host.has([Deb("libnvidia-ml1", catalogue.OLD, f"nvidia-alternative (= {catalogue.OLD})")])
    (reason,) = ask(host, pin(VERSION, "nvidia"))[0]
    assert "nvidia-smi" in reason
    assert "apt-get purge" in reason


def test_a_version_that_nvidias_repository_lacks_says_what_it_has(machine: Callable[..., Asked]) -> None:
    host = machine("base", "nvidia").kernels(catalogue.KERNEL)
    (reason,) = ask(host, pin("580.142", "nvidia"))[0]
    assert f"{VERSION}-1" in reason


def test_a_machine_without_the_repository_is_told_apart_from_one_without_the_version(
    machine: Callable[..., Asked],
) -> None:
    host = machine("base", "bookworm").kernels(catalogue.KERNEL)
    reasons, said = ask(host, pin(VERSION, "nvidia"))
    assert said == f"{apt_question.NO_REPOSITORY}\n"
    assert not reasons


NOBLE = 'ID=ubuntu\nVERSION_ID="24.04"\n'


def test_ubuntu_s_signed_modules_come_for_the_kernel_and_its_flavour_without_dkms(
    machine: Callable[..., Asked],
) -> None:
    host = machine("ubuntu", "base", system=NOBLE).kernels("6.8.0-51-generic")
    host.has([Deb("linux-image-generic", "6.8.0-51.52"), Deb("linux-image-6.8.0-51-generic", "6.8.0-51.52")])
    reasons, said = ask(host, pin("580.159.03", "ubuntu"))
    assert not reasons, reasons
    begin = "linux-modules-nvidia-580-server-open"
    assert f"Inst {begin}-6.8.0-51-generic (" in said
    assert f"Inst {begin}-generic (" in said
    assert "dkms" not in said


def test_a_kernel_for_which_ubuntu_signed_nothing_is_refused_instead_of_compiled(
    machine: Callable[..., Asked],
) -> None:
    host = machine("unsigned", "base", system=NOBLE).kernels("6.8.0-51-generic")
    reasons, said = ask(host, pin("580.159.03", "ubuntu"))
    assert any("linux-modules-nvidia-580-server-open-6.8.0-51-generic" in reason for reason in reasons), said


@pytest.mark.parametrize(
    ("name", "candidate"), [(Path(PREFERENCES).name, VERSION), ("zz-read-last.pref", NEWER)]
)
def test_the_pins_count_because_their_file_is_read_before_the_vendor_s(
    machine: Callable[..., Asked], name: str, candidate: str
) -> None:
    host = machine("base", "bookworm", "nvidia")
    (host.folder / "apt/preferences.d" / name).write_text(driver_routes.preferences(VERSION))
    branch = "Package: *nvidia* libcuda1\nPin: version 580.*\nPin-Priority: 1000\n"
    (host.folder / "apt/preferences.d/nvidia-driver-pinning-580").write_text(branch)
    said = host.sh("apt-cache policy libcuda1 nvidia-smi firmware-nvidia-gsp").stdout.decode()
    assert f"Candidate: {candidate}-1" in said
    assert said.count("Candidate: (none)") == 2, "Debian's packages of the driver are never a candidate"
