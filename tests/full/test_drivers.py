"""Drivers for real: compiled, installed by both routes into a bare root, and taken away again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.snapshot import Section, Snapshot
from provision.acts import driver as act
from provision.acts.voice import Voice
from provision.driver import build, cache, pack
from provision.driver.archive import Prebuilt, is_signed
from provision.driver.process import Failed
from provision.host import driver, view
from provision.host.driver import Install
from provision.plan import Plan
from provision.spec import Driver, Machine
from tests.full.conftest import CACHE
from tests.unit.driver.rooted import Rooted

Bare = Callable[[str], Rooted]
VERSION = "535.261.03"


def kernel_of(host: Rooted) -> str:
    return host.sh("ls /lib/modules").stdout.decode().split()[-1]


def plan(host: Rooted, route: str, version: str = VERSION) -> Plan:
    pinned = Driver(version=version, flavour="open", route=route)  # type: ignore[arg-type]
    machine = Machine(name="box", driver=pinned)
    sections = dict(host.look([*view.requests(machine), *driver.requests(machine)]).sections)
    sections["cmd", "uname-r"] = Section("cmd", "uname-r", kernel_of(host).encode())
    return driver.driver_plan(machine, Snapshot(sections), cache.held())


def install(host: Rooted, wanted: Install, run: str = "run1") -> None:
    act.install(host, wanted, Voice(run, print))  # type: ignore[arg-type]


def packages(host: Rooted) -> str:
    return host.sh("dpkg-query -W; ls -R /lib/modules | grep nvidia").stdout.decode()


@pytest.fixture
def kept_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives outlive the tests: a compile takes minutes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE.parent))


@pytest.mark.usefixtures("kept_archives")
def test_a_prebuilt_driver_is_built_installed_and_taken_away(bare: Bare) -> None:
    host = bare("bookworm")
    before, kernel = packages(host), kernel_of(host)
    prebuilt = Prebuilt(VERSION, "open", kernel)
    build.build(build.Request(prebuilt, "open", "bookworm", cache.path_of(prebuilt)), print)
    (item,) = plan(host, "prebuilt").items
    install(host, item.payload)
    assert not plan(host, "prebuilt").items
    assert host.sh(f"modprobe -S {kernel} -D nvidia_uvm").stdout.decode().count("/updates/kpro/") == 2
    assert f"v{VERSION}" in host.sh("nvidia-smi -h").stdout.decode()
    assert "/opt/kpro/driver/" in host.sh("ldconfig -p | grep libcuda.so.1").stdout.decode()
    assert host.sh("sh /var/lib/kpro/undo.sh").returncode == 0
    assert packages(host) == before


def test_debians_packages_are_compiled_for_the_kernel_and_purged_again(bare: Bare) -> None:
    host = bare("bookworm")
    before = packages(host)
    (item,) = plan(host, "debian").items
    install(host, item.payload)
    after = plan(host, "debian")
    assert not after.items
    assert not after.refusals
    assert "install nvidia " in host.sh("cat /etc/modprobe.d/*.conf").stdout.decode()
    assert host.sh("sh /var/lib/kpro/undo.sh").returncode == 0
    assert packages(host) == before


def test_a_driver_that_does_not_compile_leaves_no_package_and_says_why(bare: Bare) -> None:
    host = bare("trixie")
    before, kernel = packages(host), kernel_of(host)
    if not kernel.startswith("6.12.117"):
        pytest.skip(f"the suite's kernel is {kernel} by now")
    assert "pci_resize_resource" in str(plan(host, "debian", "550.163.01").refusals[0])
    with pytest.raises(Exception, match=r"too (few|many) arguments.*Known: .*\n.*purged again"):
        install(host, Install("debian", "550.163.01", "open", (kernel,)))
    assert packages(host) == before
    assert host.sh("dpkg --audit").stdout == b""


def test_a_build_that_does_not_compile_shows_the_compilers_line_and_writes_nothing(tmp_path: Path) -> None:
    prebuilt = Prebuilt("550.163.01", "open", "6.12.117+deb13-amd64")
    with pytest.raises(Failed, match=r"nv-pci\.c:\d+:\d+: error: .*pci_resize_resource"):
        build.build(build.Request(prebuilt, "open", "trixie", tmp_path / prebuilt.name), print)
    assert [entry.name for entry in tmp_path.iterdir()] == [".lock"]


def test_signed_modules_name_their_signer(
    bare: Bare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = bare("bookworm")
    kernel = kernel_of(host)
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    monkeypatch.setenv("KBUILD_SIGN_PIN", "sesame")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-passout",
            "pass:sesame",
            "-subj",
            "/CN=kpro test",
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
        capture_output=True,
    )
    prebuilt = Prebuilt(VERSION, "open", kernel)
    request = build.Request(
        prebuilt, "open", "bookworm", cache.path_of(prebuilt), build.Signing(key, certificate)
    )
    manifest = pack.manifest_of(build.build(request, print))
    assert manifest.signed == pack.certificate_id(certificate.read_bytes())
    install(host, Install("prebuilt", VERSION, "open", (kernel,), (prebuilt,), signed=True))
    path = host.root / f"lib/modules/{kernel}/updates/kpro/nvidia.ko"
    assert is_signed(path.read_bytes())
    assert b"kpro test" in host.sh(f"modinfo -k {kernel} -F signer nvidia").stdout
