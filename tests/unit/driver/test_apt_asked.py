"""What apt and the compiler say, in the operator's words."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from provision.data.driver_packages import PARTS, upstream
from provision.driver.makelog import first_error
from provision.host.apt_asked import explain
from provision.host.apt_question import HEADERS_FOR_ALL


@pytest.mark.parametrize(
    ("said", "cause", "step"),
    [
        (
            "kpro: no nvidia-smi 580.159.04, there is: 535.261.03-1 535.309.01-1 \n",
            "no nvidia-smi of that version; they have 535.261.03-1, 535.309.01-1",
            "pin what the suite carries",
        ),
        (
            "kpro: no nvidia-smi 535.261.03, there is: \nkpro: no libcuda1 535.261.03, there is: \n",
            "nvidia-smi, libcuda1",
            "non-free",
        ),
        (
            "E: Unable to locate package linux-headers-6.1.0-13-amd64\n",
            "no linux-headers-6.1.0-13-amd64 any more",
            "newer kernel",
        ),
        (
            " a : Depends: b (= 1-1) but 2-1 is to be installed\nE: you have held broken packages.\n",
            "a needs b 1-1, apt would take 2-1",
            "prebuilt",
        ),
        ("E: Unable to correct problems, you have held broken packages.\n", "held or broken", "showhold"),
        ("E: The repository is not signed.\n", "not signed", "sources"),
        ("", "gave no reason", "apt-get update"),
    ],
)
def test_a_refusal_of_apt_is_told_with_cause_and_next_step(said: str, cause: str, step: str) -> None:
    found = explain(said)
    assert any(cause in seen and step in next_step for seen, next_step in found), found


MAKE_LOG = """make[1]: Entering directory
  CC [M]  /var/lib/dkms/nvidia-current-open/550.163.01/build/nvidia/nv-pci.o
/var/lib/dkms/nvidia-current-open/550.163.01/build/nvidia/nv-pci.c: In function 'nv_resize_pcie_bars':
/var/lib/dkms/nvidia/550.163.01/build/nvidia/nv-pci.c:244:9: error: too few arguments to function 'pci_resize_resource'
/var/lib/dkms/nvidia-current-open/550.163.01/build/nvidia/nv.c:3:9: error: another
make[3]: *** [scripts/Makefile.build:243: nvidia/nv-pci.o] Error 1
"""


def test_the_first_error_of_the_compiler_is_shown_not_makes() -> None:
    assert (
        first_error(MAKE_LOG)
        == "nvidia/nv-pci.c:244:9: error: too few arguments to function 'pci_resize_resource'"
    )
    assert "Error 1" in first_error("CC x\nmake[3]: *** [x:1: y.o] Error 1\nlast\n")
    assert first_error("a\nb\n") == "b"
    assert first_error("") == "make.log is empty"
    assert "Segmentation fault" in first_error("cc1: internal: Segmentation fault\n*** x\n")


def test_the_first_error_of_recorded_logs(shared: Path) -> None:
    log = (shared / "fixtures/host/dkms/makelog_nvidia_pve_6.17.txt").read_text()
    assert "Error 2" in first_error(log)


def test_rows_have_sources_and_versions_compare() -> None:
    assert all(len(row.source) > 10 for row in PARTS)
    assert upstream("535.261.03-1") == "535.261.03"
    assert upstream("550.163.01-4~bpo13+1") == "550.163.01"
    assert upstream("1:535.261.03-1~deb12u1") == "535.261.03"


def test_headers_are_asked_for_metapackages_of_kernels_and_not_for_helpers_of_proxmox(tmp_path: Path) -> None:
    names = (
        "default-kernel",
        "kernel-6.17",
        "kernel-helper",
        "kernel-libc-dev",
        "kernel-6.17.13-2-pve-signed",
    )
    there = "".join(f"ii |proxmox-{name}\\n" for name in names) + "ii |pve-kernel-helper\\n"
    (tmp_path / "dpkg-query").write_text(f"#!/bin/sh\nprintf '{there}'\n")
    (tmp_path / "dpkg-query").chmod(0o755)
    script = f"PATH={tmp_path}:$PATH; set --; {HEADERS_FOR_ALL}; printf '%s\\n' \"$@\""
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    asked = {name for name in done.stdout.split() if name.startswith(("proxmox", "pve"))}
    assert asked == {"proxmox-default-headers", "proxmox-headers-6.17"}
