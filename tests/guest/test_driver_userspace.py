"""A guest's own user space: by packages, by NVIDIA's installer; equal to the module to the last digit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from provision import acts
from provision.acts import userspace_own as own_act
from provision.acts.voice import Voice
from provision.driver import cache
from provision.driver.installer import Installer
from provision.guest import userspace_own
from provision.plan import Plan
from provision.run.errors import ActFailed
from provision.spec import Driver, Gpu, Guest, Machine
from tests.doubles import run_installer
from tests.doubles.apt.archive import Key
from tests.doubles.apt.catalogue import NEWER, VERSION
from tests.guest.apt_host import Contained, Served


def machine(userspace: Literal["run", "packages"], version: str = VERSION) -> Machine:
    guest = Guest(name="llm", backend="lxc", id="llm", gpus=("42:00.0",), userspace=userspace)
    driver = Driver(version=version, route="nvidia")
    return Machine(name="box", gpus=[Gpu(bdf="42:00.0", model="RTX A6000")], driver=driver, guests=(guest,))


def plan(inside: Contained, wanted: Machine, *held: Installer) -> Plan:
    guest = wanted.guests[0]
    seen = inside.look(userspace_own.requests(wanted, guest))
    return userspace_own.plan(wanted, guest, seen, seen, held)


def carry_out(inside: Contained, found: Plan, vendor: Served | None = None, key: Key | None = None) -> None:
    (item,) = found.items
    assert item.kind == "userspace.own"
    payload = item.payload
    if vendor and key and payload.repository:
        near = {"address": f"{vendor.address}/debian12", "fingerprint": key.fingerprint}
        payload = dataclasses.replace(payload, repository=dataclasses.replace(payload.repository, **near))
    voice = Voice("20261130T030000Z-aaaaaa", inside.said.append)
    acts.carry_out(inside, dataclasses.replace(item, payload=payload), voice)  # type: ignore[arg-type]


@pytest.fixture
def inside(host: Contained) -> Iterator[Contained]:
    """The container as a guest; what the test put there goes again."""
    packages = host.packages()
    yield host
    host.must("[ ! -e /usr/bin/nvidia-uninstall ] || nvidia-uninstall --silent; rm -f /etc/run-double")
    new = " ".join(set(host.packages()) - set(packages))
    host.must(
        f"rm -f /etc/apt/preferences.d/kpro-nvidia.pref; [ -z '{new}' ] || dpkg --purge --force-hold {new}"
    )


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    path, digest = run_installer.write(tmp_path, VERSION)
    return cache.installer(VERSION, str(path), digest)


def test_the_installer_gives_a_guest_the_user_space_beside_a_loaded_module(
    inside: Contained, installer: Installer
) -> None:
    inside.must("echo loaded >/etc/run-double")
    wanted = machine("run")
    carry_out(inside, plan(inside, wanted, installer))
    call = inside.must("grep -e --silent /var/log/run-double | grep -v uninstall | tail -n 1").split()
    for flag in (
        "--no-kernel-modules",
        "--no-dkms",
        "--no-install-compat32-libs",
        "--no-nvidia-modprobe",
        "--no-drm",
    ):
        assert flag in call
    assert "--dkms" not in call
    again = plan(inside, wanted, installer)
    assert not again.items
    assert not again.refusals
    assert inside.must("ls -A /opt/kpro/installer") == ""


def test_an_older_installer_gets_the_singular_flag(inside: Contained, tmp_path: Path) -> None:
    inside.must("echo loaded >/etc/run-double")
    path, digest = run_installer.write(tmp_path, VERSION, older=True)
    carry_out(inside, plan(inside, machine("run"), cache.installer(VERSION, str(path), digest)))
    assert "--no-kernel-module " in inside.must("cat /var/log/run-double")


def test_another_version_of_the_module_changes_the_guest_with_it(
    inside: Contained, installer: Installer, tmp_path: Path
) -> None:
    carry_out(inside, plan(inside, machine("run"), installer))
    path, digest = run_installer.write(tmp_path, NEWER)
    newer = cache.installer(NEWER, str(path), digest)
    assert plan(inside, machine("run", NEWER), newer).items, (
        "a version that differs in one digit is another one"
    )


def test_packages_of_nvidias_repository_give_a_guest_the_user_space_and_no_module(
    inside: Contained, vendor: Served, key: Key
) -> None:
    wanted = machine("packages")
    carry_out(inside, plan(inside, wanted), vendor, key)
    there = inside.packages()
    assert there["libcuda1"] == there["nvidia-driver-cuda"] == f"{VERSION}-1"
    assert not [name for name in there if "dkms" in name or "headers" in name]
    assert "libcuda1" in inside.must("apt-mark showhold").split()
    again = plan(inside, wanted)
    assert not again.items
    assert not again.refusals, again.refusals
    newer = machine("packages", NEWER)
    carry_out(inside, plan(inside, newer), vendor, key)
    assert inside.packages()["libcuda1"] == f"{NEWER}-1"
    assert not plan(inside, newer).items


def test_the_two_ways_are_never_mixed(
    inside: Contained, installer: Installer, vendor: Served, key: Key
) -> None:
    carry_out(inside, plan(inside, machine("run"), installer))
    (refusal,) = plan(inside, machine("packages")).refusals
    assert "nvidia-uninstall" in refusal.next_step
    inside.must("nvidia-uninstall --silent")
    carry_out(inside, plan(inside, machine("packages")), vendor, key)
    (refusal,) = plan(inside, machine("run"), installer).refusals
    assert "apt-get purge" in refusal.next_step


def test_a_guest_whose_linker_takes_another_version_is_not_called_done(
    inside: Contained, installer: Installer
) -> None:
    inside.must("mkdir -p /opt/other && echo /opt/other >/etc/ld.so.conf.d/000-other.conf")
    try:
        path = Path(installer.path)
        inside.sh("cat >/opt/other/x", path.read_bytes())
        inside.must(
            "sed -n 's/^# libcuda //p' /opt/other/x | base64 -d >/opt/other/libcuda.so.570.26; ldconfig"
        )
        with pytest.raises(ActFailed, match=r"which is not 580\.159\.04"):
            carry_out(inside, plan(inside, machine("run"), installer))
    finally:
        inside.must("rm -r /opt/other /etc/ld.so.conf.d/000-other.conf; ldconfig")


def test_a_library_put_in_anothers_place_within_a_second_is_found(
    inside: Contained, installer: Installer
) -> None:
    carry_out(inside, plan(inside, machine("run"), installer))
    said = inside.must(
        """
        cd "$(dirname "$(readlink -f "$(ldconfig -p | sed -n 's|.*libcuda[.]so[.]1 .* => ||p')")")"
        cuda=libcuda.so.VERSION other=libnvidia-ml.so.VERSION
        cp $cuda /tmp/kept; cp $other /tmp/other; truncate -s "$(stat -c %s $cuda)" /tmp/other
        for _ in $(seq 20); do
          sleep 1.1; cat /tmp/other >$cuda; ldconfig; first=$(stat -c %Z $cuda)
          cat /tmp/kept >$cuda; rm -f libcuda.so.1; ldconfig
          [ "$first" = "$(stat -c %Z $cuda)" ] && break
        done
        ldconfig -p
        """.replace("VERSION", VERSION)
    )
    assert "libcuda.so.1 " not in said, "the linker's memory did not mistake it: nothing is tested"
    own_act.prove(inside, VERSION)
