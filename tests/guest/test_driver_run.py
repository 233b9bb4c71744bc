"""Route ``run``: the installer's file judged on the controller, run on the machine, in sync, taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.driver import cache
from provision.driver.installer import Installer
from provision.run.errors import ActFailed
from provision.spec import Driver, Machine
from tests.doubles import run_installer
from tests.doubles.apt import catalogue
from tests.guest.apt_host import Contained, carry_out, plan, undone

VERSION, OTHER = "580.159.04", "580.178.04"
MACHINE = Machine(name="box", driver=Driver(version=VERSION, route="run"))


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    path, digest = run_installer.write(tmp_path, VERSION)
    return cache.installer(VERSION, str(path), digest)


def calls(host: Contained) -> list[str]:
    """What the installer was called with, to install."""
    lines = host.must("cat /var/log/run-double").splitlines()
    host.must("rm /var/log/run-double")
    return [line for line in lines if "--silent" in line and "--uninstall" not in line]


def test_the_installer_is_put_run_for_every_kernel_in_sync_and_taken_back_whole(
    host: Contained, installer: Installer
) -> None:
    before, packages = host.everything(), host.packages()
    (item,) = plan(host, MACHINE, installer).items
    carry_out(host, item)
    (call,) = calls(host)
    for flag in ("--silent", "--dkms", "--kernel-module-type=open", "--no-questions", "--ui=none"):
        assert flag in call.split()
    for flag in ("--disable-nouveau", "--no-x-check", "--no-opengl-files"):
        assert flag in call.split()
    for kernel in (catalogue.KERNEL, catalogue.NEXT):
        assert host.must(f"modinfo -k {kernel} -F version nvidia").strip() == VERSION
    assert host.packages()["linux-headers-amd64"]
    again = plan(host, MACHINE, installer)
    assert not again.items
    assert not again.refusals, again.refusals
    undone(host)
    assert host.packages() == packages
    assert host.everything() == before
    assert host.must("ls /var/lib/kpro/prebuilt /tmp /var/tmp | grep -v '^systemd\\|:$' || :").strip() == ""


def test_a_tmp_that_runs_nothing_is_passed_by(host: Contained, installer: Installer) -> None:
    host.must("mount -t tmpfs -o noexec tmpfs /tmp")
    try:
        carry_out(host, plan(host, MACHINE, installer).items[0])
    finally:
        host.must("umount /tmp")
    (call,) = calls(host)
    assert "--tmpdir=/var/tmp/" in call
    undone(host)


def test_an_older_installer_gets_its_own_words(host: Contained, tmp_path: Path) -> None:
    path, digest = run_installer.write(tmp_path, VERSION, older=True)
    older = cache.installer(VERSION, str(path), digest)
    carry_out(host, plan(host, MACHINE, older).items[0])
    (call,) = calls(host)
    assert "-m=kernel-open" in call.split()
    undone(host)


@pytest.mark.parametrize(
    ("bad", "why"),
    [("loaded", "appears to already be loaded"), ("build", r"does not compile.*too few arguments")],
)
def test_an_installer_that_fails_leaves_nothing_and_says_why(
    host: Contained, installer: Installer, bad: str, why: str
) -> None:
    before, packages = host.everything(), host.packages()
    item = plan(host, MACHINE, installer).items[0]
    host.must(f"echo {bad} >/etc/run-double")
    try:
        with pytest.raises(ActFailed, match=why):
            carry_out(host, item)
    finally:
        host.must("rm /etc/run-double")
    assert host.packages() == packages
    assert host.everything() == before


def test_a_file_without_the_wanted_sha256_is_never_run(
    host: Contained, installer: Installer, tmp_path: Path
) -> None:
    for held, seen in (
        (cache.installer(VERSION, installer.path, "0" * 64), "has sha256"),
        (cache.installer(VERSION, installer.path, None), "nobody says which sha256"),
        (cache.installer(VERSION, str(tmp_path / "none"), None), "there is no"),
    ):
        found = plan(host, MACHINE, held)
        assert not found.items
        assert any(seen in refusal.seen for refusal in found.refusals)
    item = plan(host, MACHINE, installer).items[0]
    Path(installer.path).write_text("#!/bin/sh\ntouch /etc/was-run\n")
    with pytest.raises(ActFailed, match="has not the sha256"):
        carry_out(host, item)
    assert host.sh("ls /etc/was-run").returncode != 0


def test_what_another_installer_put_since_is_left_by_the_undo(
    host: Contained, installer: Installer, tmp_path: Path
) -> None:
    carry_out(host, plan(host, MACHINE, installer).items[0])
    path, _ = run_installer.write(tmp_path, OTHER)
    host.sh("cat >/root/other.run", path.read_bytes())
    host.must("nvidia-uninstall --silent && sh /root/other.run --silent --dkms --tmpdir=/tmp")
    done = host.sh("KPRO_RUN=x sh /var/lib/kpro/undo.sh")
    assert done.returncode == 1
    assert f"another driver than {VERSION} since" in done.stdout.decode()
    host.must("nvidia-uninstall --silent; rm /root/other.run")
    undone(host)
