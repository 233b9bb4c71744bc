"""Driver routes that end in packages, on a Debian with its own apt: planned, installed, in sync, taken back."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from provision.plan import Item
from provision.run.errors import ActFailed
from provision.spec import Driver, Machine
from tests.doubles.apt import archive, catalogue
from tests.doubles.apt.archive import Key
from tests.guest.apt_host import Contained, Served, carry_out, plan, undone

VERSION, NEWER = "580.159.04", "580.178.04"


def pinned(version: str = VERSION, flavour: Literal["open", "proprietary"] = "open") -> Machine:
    return Machine(name="box", driver=Driver(version=version, flavour=flavour, route="nvidia"))


def at(item: Item, vendor: Served, key: Key, **other: str) -> Item:
    """The item with the loopback's address and the test's key in the place of NVIDIA's."""
    payload = dataclasses.replace(
        item.payload, **{"address": f"{vendor.address}/debian12", "fingerprint": key.fingerprint, **other}
    )
    return dataclasses.replace(item, payload=payload)


def test_a_pin_of_nvidias_repository_is_planned_installed_in_sync_and_taken_back_whole(
    host: Contained, vendor: Served, key: Key
) -> None:
    before, packages = host.everything(), host.packages()
    machine = pinned()
    found = plan(host, machine)
    assert not found.refusals, found.refusals
    assert [item.kind for item in found.items] == ["driver.repository", "driver.install"]
    carry_out(host, at(found.items[0], vendor, key))
    found = plan(host, machine)
    assert not found.refusals, found.refusals
    (install,) = found.items
    carry_out(host, install)
    there = host.packages()
    assert (
        there["nvidia-kernel-open-dkms"] == there["nvidia-driver-cuda"] == there["libcuda1"] == f"{VERSION}-1"
    )
    assert "nvidia-alternative" not in there, "Debian's packages of the driver stay out"
    assert there["nvidia-driver-pinning-580.159.04"] == f"{VERSION}-1"
    assert there["linux-headers-amd64"], "the next kernel's headers come by themselves"
    for kernel in (catalogue.KERNEL, catalogue.NEXT):
        assert host.must(f"modinfo -k {kernel} -F version nvidia").strip() == VERSION
    held = host.must("apt-mark showhold").split()
    assert {"nvidia-kernel-open-dkms", "nvidia-driver-cuda", "libcuda1", "libnvidia-ml1"} <= set(held)
    again = plan(host, machine)
    assert not again.items, again.items
    assert not again.refusals, again.refusals
    undone(host)
    assert host.packages() == packages
    assert host.everything() == before
    assert host.must("apt-mark showhold") == ""


@pytest.mark.parametrize(
    ("folder", "why"),
    [("forged/", "reading the lists"), ("unsigned/", "reading the lists"), ("nowhere/", "fetching")],
)
def test_a_repository_that_is_not_signed_by_nvidia_is_refused_and_gone_again(
    host: Contained, vendor: Served, key: Key, folder: str, why: str
) -> None:
    before, packages, lists = host.everything(), host.packages(), host.must("ls /var/lib/apt/lists")
    item = plan(host, pinned()).items[0]
    with pytest.raises(ActFailed, match=why):
        carry_out(host, at(item, vendor, key, address=f"{vendor.address}/{folder}debian12"))
    assert host.packages() == packages
    assert host.everything() == before
    assert host.must("ls /var/lib/apt/lists") == lists
    assert "Allow" not in host.must("apt-config dump | grep '^Acquire::Allow.*\"true\"' || :")


def test_a_keyring_with_another_key_is_refused_before_it_is_installed(
    host: Contained, vendor: Served, key: Key
) -> None:
    packages = host.packages()
    item = plan(host, pinned()).items[0]
    with pytest.raises(ActFailed, match="its key is"):
        carry_out(host, at(item, vendor, key, fingerprint="EB693B3035CD5710E231E123A4B469963BF863CC"))
    assert host.packages() == packages


def test_a_repository_that_lacks_the_pin_does_not_stay(host: Contained, vendor: Served, key: Key) -> None:
    before, packages = host.everything(), host.packages()
    item = plan(host, pinned(version="580.142")).items[0]
    with pytest.raises(ActFailed, match=r"no nvidia-kernel-open-dkms.*they have .*580\.159\.04-1"):
        carry_out(host, at(item, vendor, key))
    assert (host.packages(), host.everything()) == (packages, before)


def test_a_driver_that_does_not_compile_on_trial_is_refused_and_nothing_is_installed(
    host: Contained, vendor: Served, key: Key
) -> None:
    carry_out(host, at(plan(host, pinned()).items[0], vendor, key))
    before, packages = host.everything(), host.packages()
    (item,) = plan(host, pinned()).items
    broken = dataclasses.replace(item.payload, trial=(catalogue.KERNEL, catalogue.BROKEN))
    host.must(f"mkdir -p /lib/modules/{catalogue.BROKEN}/build")
    try:
        with pytest.raises(ActFailed, match=r"10.*too few arguments") as failed:
            carry_out(host, dataclasses.replace(item, payload=broken))
    finally:
        host.must(f"rm -r /lib/modules/{catalogue.BROKEN}")
    assert catalogue.BROKEN in str(failed.value)
    assert "nothing was installed" in str(failed.value)
    assert (host.packages(), host.everything()) == (packages, before)
    assert host.sh("ls -d /var/lib/kpro/trial /var/lib/dkms").returncode != 0
    good = dataclasses.replace(item.payload, trial=(catalogue.KERNEL,))
    carry_out(host, dataclasses.replace(item, payload=good))
    assert any("compiled on trial" in said for said in host.said)
    undone(host)


def test_a_driver_that_fails_in_the_install_itself_takes_its_packages_back(
    host: Contained, vendor: Served, key: Key
) -> None:
    carry_out(host, at(plan(host, pinned()).items[0], vendor, key))
    packages = host.packages()
    (item,) = plan(host, pinned()).items
    host.must(f"mkdir -p /lib/modules/{catalogue.BROKEN}/build")
    try:
        with pytest.raises(ActFailed, match=r"does not compile.*too few arguments"):
            carry_out(host, item)
    finally:
        host.must(f"rm -r /lib/modules/{catalogue.BROKEN}")
    assert host.packages() == packages
    assert host.must("dpkg --audit") == ""
    undone(host)


def test_a_new_pin_changes_what_kpro_holds_and_a_package_let_go_is_held_again(
    host: Contained, vendor: Served, key: Key
) -> None:
    carry_out(host, at(plan(host, pinned()).items[0], vendor, key))
    carry_out(host, plan(host, pinned()).items[0])
    host.must("apt-mark unhold libcuda1")
    (item,) = plan(host, pinned()).items
    assert (item.kind, item.payload.names) == ("driver.hold", ("libcuda1",))
    carry_out(host, item)
    newer = pinned(version=NEWER)
    (item,) = plan(host, newer).items
    carry_out(host, item, "20261130T040000Z-bbbbbb")
    there = host.packages()
    assert there["libcuda1"] == there["nvidia-kernel-open-dkms"] == f"{NEWER}-1"
    assert not plan(host, newer).items
    undone(host)


def test_ubuntu_s_signed_modules_are_installed_in_sync_and_taken_back(
    host: Contained, tmp_path: Path
) -> None:
    before, packages = host.everything(), host.packages()
    archive.write(
        tmp_path / "ubuntu",
        "Ubuntu",
        "noble",
        catalogue.ubuntu("580.159.03", catalogue.KERNEL, catalogue.NEXT),
    )
    subprocess.run(
        ["cp", "-r", str(tmp_path / "ubuntu"), str(host.container.rootfs / "srv/archives")], check=True
    )
    host.must(
        "cp -P /etc/os-release /etc/os-release.was && rm /etc/os-release && "
        "printf 'ID=ubuntu\\nVERSION_ID=\"24.04\"\\n' >/etc/os-release && "
        "echo 'deb [trusted=yes] file:/srv/archives/ubuntu ./' >/etc/apt/sources.list.d/ubuntu.list && "
        "apt-get -q update"
    )
    machine = Machine(name="box", driver=Driver(version="580.159.03", route="ubuntu"))
    try:
        carry_out(host, plan(host, machine).items[0])
        there = host.packages()
        for kernel in (catalogue.KERNEL, catalogue.NEXT):
            assert f"linux-modules-nvidia-580-server-open-{kernel}" in there
        assert not [name for name in there if "dkms" in name]
        again = plan(host, machine)
        assert not again.items, again.items
        assert not again.refusals, again.refusals
        undone(host)
    finally:
        host.must(
            "mv /etc/os-release.was /etc/os-release && rm /etc/apt/sources.list.d/ubuntu.list && "
            "rm -r /srv/archives/ubuntu && apt-get -q update"
        )
    assert host.packages() == packages
    assert host.everything() == before
