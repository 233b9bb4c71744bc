"""The virtual host itself: it boots from its own disk, its GPUs are locked, and nothing of it stays behind.

Tests in order, on one machine that boots three times.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from checks.testhost import PRODUCT
from provision.guest import root, root_recipe
from provision.testhost.vm import host
from provision.testhost.vm.errors import TestHostError
from provision.testhost.vm.host import EmulatedGpu, VirtualHost
from provision.testhost.vm.image import GUEST_SUITE, Image
from tests.vm.rig import CACHE, FUNCTIONS, drivers, file, functions, processes, say

PROOF = "kpro.proof"

# A word on the command line by GRUB's defaults, and a line in the kernel's log by a script of the initramfs.
_MARK = f"""
set -e
sed -i 's/^GRUB_CMDLINE_LINUX="/&{PROOF}=1 /' /etc/default/grub
script=/etc/initramfs-tools/scripts/init-top/proof
printf '#!/bin/sh\\n[ "$1" = prereqs ] || echo {PROOF}-initramfs >/dev/kmsg\\n' >$script
chmod 755 $script
"""

# Four bytes at 0 and at 0xa00 of BAR 0. While vfio-pci has an idle device it sleeps (D3hot), and its BARs with it.
_REGISTERS = """
cd /sys/bus/pci/devices
for bdf in BDFS; do echo $bdf >$bdf/driver/unbind; echo 1 >$bdf/enable; done
python3 -c "
import mmap, os, sys
for bdf in sys.argv[1:]:
    bar = mmap.mmap(os.open(f'{bdf}/resource0', os.O_RDWR | os.O_SYNC), 4096)
    print(*(bar[at:at + 4][::-1].hex() for at in (0, 0xa00)))
" BDFS
"""


def test_both_gpus_and_their_audio_are_on_vfio_pci_at_boot(vm: VirtualHost) -> None:
    assert drivers(vm) == dict.fromkeys(FUNCTIONS, "vfio-pci")


def test_each_gpu_shares_its_group_with_its_audio_and_nothing_else(vm: VirtualHost) -> None:
    seen = functions(vm)
    for gpu, audio in (FUNCTIONS[:2], FUNCTIONS[2:]):
        assert seen[gpu].members == seen[audio].members == {gpu, audio}
    assert len({seen[bdf].group for bdf in FUNCTIONS}) == 2


def test_it_says_that_it_is_a_test_host_in_both_places(vm: VirtualHost, vm_image: Image) -> None:
    assert file(vm, "/sys/class/dmi/id/product_name").strip() == PRODUCT
    assert vm.ssh("stat -c '%u %a' /etc/kpro/test-host; cat /etc/kpro/test-host").stdout == (
        f"0 444\nkpro-test-host {vm_image.marker}\n"
    )


def test_it_is_a_bare_host_without_driver_and_compiler_whose_units_are_up(vm: VirtualHost) -> None:
    said = vm.ssh(
        "command -v gcc make; modinfo nvidia; dpkg -l 'nvidia*' | grep ^ii; systemctl is-system-running --wait",
        check=False,
        timeout=180,
    ).stdout
    assert said == "running\n"


def test_the_root_of_a_container_lies_ready_there(vm: VirtualHost) -> None:
    said = vm.ssh("sh -s", stdin=root.build_script(GUEST_SUITE).encode())
    assert said.stdout.strip() == root_recipe.root_file(GUEST_SUITE)
    assert "already built" in said.stderr


def test_qemu_and_the_servers_of_the_gpus_are_not_roots(vm: VirtualHost) -> None:
    pids = processes(vm.folder.name) + processes(str(vm.sockets))
    users = {Path(f"/proc/{pid}").stat().st_uid for pid in pids if _is_ours(pid)}
    assert users == {65534 if os.geteuid() == 0 else os.geteuid()}


def _is_ours(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_text()
    return "gpu_server" in words or "vfio-user-pci" in words


def test_a_second_host_is_refused_and_told_who_has_the_first(
    vm: VirtualHost, vm_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", CACHE)
    with pytest.raises(TestHostError, match=f"tests/vm, pid {os.getpid()}"):
        VirtualHost(vm_image, say=say).__enter__()


def test_what_the_guest_regenerates_is_what_boots_next(vm: VirtualHost) -> None:
    """Its own GRUB reads its own configuration and its own initramfs: persistence can be proven here."""
    vm.ssh(_MARK)
    started = time.monotonic()
    vm.ssh("update-initramfs -u && update-grub && sync", timeout=400)
    say(f"initramfs and boot loader in {time.monotonic() - started:.0f} s")
    assert PROOF not in file(vm, "/proc/cmdline")
    assert PROOF not in vm.ssh("dmesg").stdout
    vm.reboot()
    assert f" {PROOF}=1 " in file(vm, "/proc/cmdline")
    assert f"{PROOF}-initramfs" in vm.ssh("dmesg").stdout
    assert drivers(vm) == dict.fromkeys(FUNCTIONS, "vfio-pci")


def test_a_gpu_whose_server_ends_reads_ff_and_the_other_is_unharmed(vm: VirtualHost) -> None:
    vm.end_gpu(1)
    ids = "; ".join(f"setpci -s {bdf} VENDOR_ID" for bdf in FUNCTIONS)
    assert vm.ssh(ids).stdout.split() == ["10de", "10de", "ffff", "ffff"]
    assert "Unknown header type 7f" in vm.ssh(f"lspci -v -s {FUNCTIONS[2]}").stdout


def test_after_a_power_cut_the_same_disk_boots_with_what_was_synced(vm: VirtualHost) -> None:
    vm.ssh("echo before >/root/witness; sync")
    vm.gpus = (EmulatedGpu(), EmulatedGpu({0x0: 0x1234, 0xA00: 0}))
    vm.power_cut()
    assert [pid for pid in processes(str(vm.sockets)) if _is_ours(pid)] == []
    with pytest.raises(TestHostError, match="cannot be reached"):
        vm.ssh("true", timeout=30)
    vm.boot()
    assert file(vm, "/root/witness") == "before\n"
    assert drivers(vm) == dict.fromkeys(FUNCTIONS, "vfio-pci")


def test_a_fault_is_in_the_register_that_it_names_and_in_no_other_gpu(vm: VirtualHost) -> None:
    said = vm.ssh(_REGISTERS.replace("BDFS", f"{FUNCTIONS[0]} {FUNCTIONS[2]}")).stdout
    assert said == "b72000a1 172000a1\n00001234 00000000\n"


def test_the_power_button_switches_it_off_in_order(vm: VirtualHost) -> None:
    vm.power_down()
    assert "Power down" in vm.serial.read_text(errors="replace")


def test_the_end_of_the_block_leaves_no_process_and_no_file(
    vm: VirtualHost, vm_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    vm.stop()
    assert _left(vm) == []
    monkeypatch.setenv("XDG_CACHE_HOME", CACHE)

    def interrupted(_: object, __: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(host.VirtualHost, "_wait_up", interrupted)
    cut = VirtualHost(vm_image, say=say, owner="tests/vm", wait=60)
    with pytest.raises(KeyboardInterrupt):
        cut.__enter__()
    assert _left(cut) == []


def _left(machine: VirtualHost) -> list[object]:
    names = (str(machine.folder), str(machine.sockets))
    return [path for path in (machine.folder, machine.sockets) if path.exists()] + [
        pid for name in names for pid in processes(name)
    ]
