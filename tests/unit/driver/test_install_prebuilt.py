"""Route prebuilt, run by a real shell on an overlaid machine: whole, or as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from checks.snapshot import Section, Snapshot
from provision.acts import driver as act
from provision.acts.voice import Voice
from provision.driver.archive import Prebuilt
from provision.host import boot, driver_seen
from provision.host.driver import Install, driver_plan
from provision.run.errors import ActFailed
from provision.spec import Machine
from tests.unit.driver.conftest import KERNEL, VERSION
from tests.unit.driver.rooted import Overlaid

MODULES = f"/lib/modules/{KERNEL}/updates/kpro"
PLACES = (
    "/lib/modules",
    "/lib/firmware",
    "/opt/kpro",
    "/var/lib/kpro/driver",
    "/etc/modprobe.d",
    "/etc/ld.so.conf.d",
)
Make = Callable[..., Path]


def wanted(version: str = VERSION, signed: bool = False) -> Install:
    return Install("prebuilt", version, "open", (KERNEL,), (Prebuilt(version, "open", KERNEL),), signed)


def install(place: Overlaid, install: Install | None = None, run: str = "run1") -> None:
    act.install(place, install or wanted(), Voice(run, place.said.append))  # type: ignore[arg-type]


def placed(place: Overlaid) -> list[str]:
    return [
        path
        for path in place.find(*PLACES, "/usr/local/bin/nvidia-smi", "/usr/bin/nvidia-modprobe")
        if "loop" not in path
    ]


def test_everything_of_the_archive_is_there_and_modprobe_would_find_it(
    place: Overlaid, make_archive: Make
) -> None:
    make_archive()
    install(place)
    there = placed(place)
    assert f"{MODULES}/nvidia.ko" in there
    assert f"{MODULES}/nvidia-uvm.ko" in there
    assert f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin" in there
    assert "updates/kpro/nvidia.ko:" in (place.text(f"/lib/modules/{KERNEL}/modules.dep") or "")
    assert place.sh("nvidia-smi").stdout.decode().strip() == VERSION
    assert place.sh("stat -L -c %a /usr/bin/nvidia-modprobe").stdout.strip() == b"4755"
    assert place.text("/etc/ld.so.conf.d/kpro-nvidia.conf") == f"/opt/kpro/driver/{VERSION}-open/lib\n"
    assert "blacklist nouveau" in (place.text("/etc/modprobe.d/kpro-nvidia.conf") or "")
    assert not [
        path
        for path in place.find("/lib/modules", "/opt/kpro", "/var/lib/kpro")
        if "/.kpro-" in path or ".kpro." in path or "unpacked" in path
    ]


KERNEL_FILES = tuple(request for request in boot.REQUESTS if request.startswith("file:"))


def in_place(place: Overlaid, machine: Machine) -> bool:
    """Does the plan see the driver as in place, by its own look at the machine?"""
    seen = dict(
        place.look(
            [*driver_seen.requests(), "cmd:uname-r:uname -r", "pci:", "file:/etc/os-release", *KERNEL_FILES]
        ).sections
    )
    for kind, path, text in (
        ("cmd", "uname-r", KERNEL),
        ("names", "/boot/vmlinuz-*", f"/boot/vmlinuz-{KERNEL}\n"),
        ("names", "/lib/modules/*", f"/lib/modules/{KERNEL}\n"),
        ("tool", "zstd", "/usr/bin/zstd"),
    ):
        seen[kind, path] = Section(kind, path, text.encode())
    plan = driver_plan(
        machine.model_copy(update={"gpus": ()}), Snapshot(seen), (Prebuilt(VERSION, "open", KERNEL),)
    )
    assert not plan.refusals, plan.refusals
    return not plan.items


def test_what_is_damaged_is_seen_and_mended(place: Overlaid, make_archive: Make, machine: Machine) -> None:
    assert not in_place(place, machine)
    make_archive()
    install(place)
    assert in_place(place, machine)
    for damage in (
        f"rm {MODULES}/nvidia-uvm.ko",
        f"truncate -s 3 /lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin",
        "rm /usr/local/bin/nvidia-smi",
        f"printf 'kernel/loop.ko:\\n' >/lib/modules/{KERNEL}/modules.dep",
        f"truncate -s 0 /var/lib/kpro/driver/{KERNEL}.files",
    ):
        place.sh(damage)
        assert not in_place(place, machine), damage
        install(place, run="run2")
        assert in_place(place, machine), damage


def test_a_second_install_changes_nothing_and_sends_nothing(place: Overlaid, make_archive: Make) -> None:
    make_archive()
    install(place)
    before, said = placed(place), len(place.said)
    install(place, run="run2")
    assert placed(place) == before
    assert len(place.said) == said


def test_what_kpro_keeps_on_this_machine_is_out_of_reach_of_these_tests(place: Overlaid) -> None:
    """undo.sh is run here: with this machine's own manifest it would stop this machine's own containers."""
    assert place.find("/var/lib/kpro", "/var/lib/lxc", "/run/kpro", "/boot") == []
    for program in ("lxc-stop", "rmmod", "update-initramfs", "reboot"):
        assert place.sh(f"{program} x").returncode == 99
    assert place.sh("cat /proc/net/unix").stdout.count(b"@") == 0


def test_undo_takes_away_exactly_what_came(place: Overlaid, make_archive: Make) -> None:
    before = placed(place)
    make_archive()
    install(place)
    assert placed(place) != before
    done = place.sh("sh /var/lib/kpro/undo.sh")
    assert done.returncode == 0, done.stdout
    assert placed(place) == before
    assert "updates" not in (place.text(f"/lib/modules/{KERNEL}/modules.dep") or "")
    assert place.sh("sh /var/lib/kpro/undo.sh").returncode == 0


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        ({"claims": "0" * 64}, "nvidia-uvm.ko of the archive is damaged"),
        ({"inside": "6.1.0-49-amd64"}, "nvidia-uvm.ko was built for '6.1.0-49-amd64|nvidia.ko was built for"),
        ({"license": "NVIDIA"}, "not of the flavour"),
        ({"module_version": "535.0"}, "is version 535.0"),
    ],
)
def test_an_archive_that_is_not_what_it_says_leaves_nothing(
    place: Overlaid, make_archive: Make, archive: dict[str, str], why: str
) -> None:
    before = placed(place)
    make_archive(**archive)
    with pytest.raises(ActFailed, match=why):
        install(place)
    assert placed(place) == before


def test_modules_for_another_kernel_build_are_refused_by_vermagic(
    place: Overlaid, make_archive: Make
) -> None:
    make_archive()
    other = place.folder / "up/usr/lib/modules" / KERNEL / "kernel/loop.ko"
    other.write_bytes(other.read_bytes().replace(b"SMP preempt", b"SMP preempt_rt"))
    with pytest.raises(ActFailed, match=r"takes '6.1.0-50-amd64 SMP preempt_rt.*build them for this kernel"):
        install(place)


def test_a_kernel_that_takes_signed_modules_only_gets_no_others(place: Overlaid, make_archive: Make) -> None:
    make_archive()
    with pytest.raises(ActFailed, match="signed modules only"):
        install(place, wanted(signed=True))
    assert f"{MODULES}/nvidia.ko" not in placed(place)
    make_archive(signed=True)
    install(place, wanted(signed=True))
    assert f"{MODULES}/nvidia.ko" in placed(place)


def test_a_failed_install_leaves_nothing_that_modprobe_finds(place: Overlaid, make_archive: Make) -> None:
    make_archive()
    (place.control / "depmod").write_text(
        f"[ -e {place.control}/once ] || {{ : >{place.control}/once; exit 1; }}\n"
    )
    with pytest.raises(ActFailed, match="could not be put in place"):
        install(place)
    assert not [path for path in placed(place) if path.endswith(".ko")]
    assert "nvidia" not in (place.text(f"/lib/modules/{KERNEL}/modules.dep") or "")
    assert not place.find("/var/lib/kpro/driver")
    install(place, run="run2")
    assert f"{MODULES}/nvidia.ko" in placed(place)


def test_a_failed_upgrade_leaves_the_old_driver(place: Overlaid, make_archive: Make) -> None:
    make_archive()
    install(place)
    make_archive(version="580.159.04")
    (place.control / "depmod").write_text(
        f"[ -e {place.control}/once ] || {{ : >{place.control}/once; exit 1; }}\n"
    )
    with pytest.raises(ActFailed):
        install(place, wanted("580.159.04"), run="run2")
    assert f"version={VERSION}" in place.sh(f"tr '\\0' '\\n' <{MODULES}/nvidia.ko").stdout.decode()


@pytest.mark.parametrize("at", ["before depmod", "in the old one's place"])
def test_an_install_cut_by_a_power_loss_is_repaired_by_the_next(
    place: Overlaid, make_archive: Make, at: str
) -> None:
    make_archive()
    if at == "before depmod":
        (place.control / "depmod").write_text("kill -9 $PPID; exit 1\n")
        with pytest.raises(ActFailed):
            install(place)
        assert not place.find("/var/lib/kpro/driver"), "no receipt: the next plan sees that it is not whole"
        (place.control / "depmod").unlink()
    else:
        install(place)
        place.sh(
            f"cd /lib/modules && mv {MODULES} .kpro-{KERNEL}.old && mkdir .kpro-{KERNEL} && rm /var/lib/kpro/driver/*"
        )
    install(place, run="run2")
    assert f"{MODULES}/nvidia.ko" in placed(place)
    assert place.find("/var/lib/kpro/driver")
    assert not [path for path in place.find("/lib/modules") if "/.kpro" in path]


def test_a_file_of_somebody_else_is_not_overwritten(place: Overlaid, make_archive: Make) -> None:
    make_archive()
    place.sh("printf mine >/usr/local/bin/nvidia-smi")
    with pytest.raises(ActFailed, match="/usr/local/bin/nvidia-smi is there and not kpro's"):
        install(place)
    assert place.text("/usr/local/bin/nvidia-smi") == "mine"
    place.sh(
        f"rm /usr/local/bin/nvidia-smi; mkdir -p /lib/firmware/nvidia/{VERSION}; "
        f"echo x >/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin"
    )
    with pytest.raises(ActFailed, match="is there with other contents"):
        install(place, run="run2")
    assert not [path for path in placed(place) if path.endswith(".ko")]


def test_an_archive_that_lies_on_the_host_is_used_without_the_controllers(
    place: Overlaid, make_archive: Make
) -> None:
    path = make_archive()
    install(place)
    place.sh("sh /var/lib/kpro/undo.sh")
    path.unlink()
    install(place, run="run2")
    assert f"{MODULES}/nvidia.ko" in placed(place)
