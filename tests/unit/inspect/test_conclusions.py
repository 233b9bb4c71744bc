"""Families of recorded machines from the definitions of their formats, each with the conclusion it must give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from provision.cli import main
from tests.unit.inspect.test_texts import tree

_XID = "NVRM: Xid (PCI:0000:61:00): 154, GPU recovery action changed from {} to {}\n"
_NONE, _REBOOT, _RESET = "0x0 (None)", "0x2 (Node Reboot Required)", "0x1 (GPU Reset Required)"
VGA = "VGA compatible controller [0300]"
A6000 = f"0000:42:00.0 {VGA}: NVIDIA Corporation GA102GL [RTX A6000] [10de:2230] (rev a1)\n"
P40 = "01:00.0 3D controller [0302]: NVIDIA Corporation GP102GL [Tesla P40] [10de:1b38] (rev a1)\n"
PRO6000 = f"02:00.0 {VGA}: NVIDIA Corporation GB202GL [RTX PRO 6000 Blackwell] [10de:2bb1] (rev a1)\n"
K420 = f"65:00.0 {VGA}: NVIDIA Corporation GK107GL [Quadro K420] [10de:0ff3] (rev a1)\n"
SMI = "=====NVSMI LOG=====\nGPU 00000000:42:00.0\n    GPU Recovery Action                   : {}\n"
AUDIT = (
    "The following packages are only half configured, probably due to problems\nconfiguring them the first time.\n"
    " {} some words\n"
)
MAKE_LOG = (
    "DKMS {}make.log for nvidia{}580.142 for kernel 7.1.3-1-pve (x86_64)\nnv.c:1: error: too few arguments\n"
)


def identities(told: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in told["findings"]}


@pytest.mark.parametrize(
    ("name", "text", "identity"),
    [
        ("dmesg", _XID.format(_NONE, _REBOOT), "log.node-reboot-required"),
        ("dmesg", _XID.format(_NONE, _RESET), "log.gpu-reset-required"),
        ("dmesg", _XID.format(_NONE, _RESET) + _XID.format(_RESET, _REBOOT), "log.node-reboot-required"),
        ("dmesg", _XID.format(_REBOOT, _NONE), None),
        ("dmesg", _XID.format(_NONE, _REBOOT) + _XID.format(_REBOOT, _NONE), None),
        ("dmesg", "pcieport 0000:40:01.1: Unable to change power state from D3hot to D0\n", "log.d3cold"),
        ("a-log", "modprobe: ERROR: could not insert 'nvidia': No such device\n", "log.no-such-device"),
        ("a-log", "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n", "log.key-rejected"),
        ("a-log", "0000:42:00.0 drivers_probe: write error: Invalid argument\n", "log.probe-refused"),
        ("a-log", "//dev/dri/renderD128 is not a device\n", "symptom.container-node-is-file"),
        ("a-log", "Sub-process /usr/bin/sqv returned an error code (1)\n", "symptom.repository-signature"),
        ("a-log", "E: The repository 'https://x InRelease' is not signed.\n", "symptom.repository-signature"),
        ("a-log", "systemd-modules-load[3]: Failed to find module 'vifio'\n", "symptom.modules-load-failed"),
        ("nvidia-smi-q", SMI.format("Reboot"), "gpu.recovery"),
        ("nvidia-smi-q", SMI.format("Drain P2P"), "gpu.recovery"),
        ("nvidia-smi-q", SMI.format("None"), None),
        ("dpkg-audit", AUDIT.format("proxmox-kernel-7.0.2-7-pve-signed"), "dpkg.unfinished"),
        ("dpkg-audit", "", None),
        (
            "apt-upgrade",
            "Error! Bad return status for module build on kernel: 6.8.12-1-pve (x86_64)\n"
            "Consult /var/lib/dkms/vendor-reset/0.1.1/build/make.log for more information.\n",
            "dkms.foreign-failed",
        ),
        ("make-log", MAKE_LOG.format("", "-"), "dkms.make-log"),
        ("make-log", MAKE_LOG.format("(dkms-3.2.2) ", "/"), "dkms.make-log"),
        ("dkms-status", "drbd/9.2.14-1, 7.0.2-7-pve, x86_64: built\n", "dkms.built-only"),
        ("dkms-status", "x/1: added (WARNING! Missing source)\n", "dkms.broken"),
        ("dkms-status", "x/1, 6.8, x86_64: installed (WARNING! Missing some built modules!)\n", "dkms.differs"),
        ("dkms-status", "x/1, 6.8, x86_64: installed (Original modules exist)\n", None),
        ("lspci-nn", P40 + PRO6000, "gpu.no-common-driver"),
    ],
)  # fmt: skip
def test_a_text_gives_its_one_conclusion(name: str, text: str, identity: str | None, tmp_path: Path) -> None:
    assert identities(tree(tmp_path, **{f"cmd__{name}": text})) == ({identity} if identity else set())


@pytest.mark.parametrize("header", [("", "-"), ("(dkms-3.2.2) ", "/")])
def test_a_make_log_s_header_names_module_and_kernel(header: tuple[str, str], tmp_path: Path) -> None:
    (finding,) = tree(tmp_path, **{"cmd__make-log": MAKE_LOG.format(*header)})["findings"]
    assert finding["subject"] == "nvidia/580.142 for 7.1.3-1-pve"
    assert "580.159.04" in json.dumps(finding)


def test_bytes_that_are_no_utf_8_are_shown_and_end_nothing(tmp_path: Path) -> None:
    for name, data in (
        ("etc/modprobe.d/a.conf", b"options vfio-pci ids=10de:2230 # caf\xe9\n"),
        (".kpro/cmd/lspci-Dnnk.out", A6000.encode()),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    for form in (["--json"], []):
        ended = CliRunner().invoke(main, ["inspect", "--sysroot", str(tmp_path), *form])
        assert (ended.exit_code, ended.exception) == (0, None)
        assert "caf\\udce9" in ended.stdout
    (machine,) = json.loads(
        CliRunner().invoke(main, ["inspect", "--sysroot", str(tmp_path), "--json"]).stdout
    )["machines"]
    assert machine["gpus"][0]["holders"][0]["takes"] == ["0000:42:00.0"]


def test_a_compiler_that_crashes_is_not_called_a_driver_that_fits(tmp_path: Path) -> None:
    log = "DKMS make.log for nvidia-595.71.05 for kernel 6.12.74 (x86_64)\ncc: internal compiler error: Bus error\n"
    (finding,) = tree(tmp_path, **{"cmd__make-log": log})["findings"]
    assert finding["meaning"] == "it does not compile (hardware)"


@pytest.mark.parametrize("listing", [A6000 + K420, A6000 + PRO6000, P40 + K420, P40])
def test_gpus_that_one_module_serves_are_no_conflict(listing: str, tmp_path: Path) -> None:
    assert "gpu.no-common-driver" not in identities(tree(tmp_path, **{"cmd__lspci-nn": listing}))


def test_a_card_that_lspci_has_no_name_for_is_told_by_its_number(tmp_path: Path) -> None:
    listing = "01:00.0 VGA compatible controller: NVIDIA Corporation Device 2bb1 (rev a1)\n"
    (gpu,) = tree(tmp_path, **{"cmd__lspci-k": listing})["gpus"]
    assert (gpu["device"], gpu["architecture"], gpu["flavours"]) == ("10de:2bb1", "blackwell", ["open"])


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("SecureBoot enabled\n", "enabled"),
        ("SecureBoot enabled\nSecureBoot validation is disabled in shim\n", "disabled in shim"),
        ("SecureBoot disabled\nPlatform is in Setup Mode\n", "disabled"),
        ("EFI variables are not supported on this system\n", "disabled"),
        ("This system doesn't support Secure Boot\n", "disabled"),
        ("mokutil: something else\n", "unknown"),
    ],
)
def test_the_words_of_mokutil(said: str, state: str, tmp_path: Path) -> None:
    (tmp_path / ".kpro/cmd").mkdir(parents=True)
    (tmp_path / ".kpro/cmd/mokutil-sb-state.rc").write_text("0\n")
    assert tree(tmp_path, **{"cmd__mokutil-sb-state": said})["host"]["secure_boot"] == state


@pytest.mark.parametrize(
    ("state", "key", "told"),
    [
        ("SecureBoot enabled\n", "/var/lib/dkms/mok.pub is not enrolled\n", True),
        ("SecureBoot enabled\n", "/var/lib/dkms/mok.pub is already in the enrollment request\n", True),
        ("SecureBoot enabled\n", "/var/lib/dkms/mok.pub is already enrolled\n", False),
        ("SecureBoot disabled\n", "/var/lib/dkms/mok.pub is not enrolled\n", False),
    ],
)
def test_a_key_that_the_firmware_does_not_know_is_told_where_it_matters(
    state: str, key: str, told: bool, tmp_path: Path
) -> None:
    (tmp_path / ".kpro/cmd").mkdir(parents=True)
    for name in ("mokutil-sb-state", "mokutil-test-key"):
        (tmp_path / f".kpro/cmd/{name}.rc").write_text("0\n")
    found = tree(tmp_path, **{"cmd__mokutil-sb-state": state, "cmd__mokutil-test-key": key})
    assert ("secure-boot.key" in identities(found)) is told


@pytest.mark.parametrize(
    ("line", "typo"),
    [
        ("vifo-pci.ids=10de:2230", True),
        ("vfiopci.ids=10de:2230", True),
        ("vfio-pci.id=10de:2230", True),
        ("vfio_pci.idss=10de:2230", True),
        ("vfio-pci.disable_vga=1", False),
        ('"vfio-pci.ids=10de:2230"', False),
        ("vfio-pci.ids=10de:2230", False),
    ],
)
def test_a_parameter_that_does_nothing_is_a_warning_and_no_other(
    line: str, typo: bool, tmp_path: Path
) -> None:
    found = tree(tmp_path, proc__cmdline=f"BOOT_IMAGE=/vmlinuz ro {line} quiet\n")
    assert ("cmdline.typo" in identities(found)) is typo


RADEON = f"03:00.0 {VGA}: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [1002:744c]\n"


@pytest.mark.parametrize(
    ("listing", "verdict"),
    [
        (A6000, "unknown: only a part of the bus was listed"),
        (A6000 + RADEON, "not needed: no NVSwitch"),
        (A6000 + "00:01.0 PCI bridge [0604]: Advanced Micro Devices, Inc. [AMD] X [1022:1483]\n", "not needed"),
        ("1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n" + RADEON, "unknown: no NVS"),
        ("1b:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:20b2]\n" + RADEON, "unknown: no NVS"),
        ("1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 PCIe] (rev a1)\n" + RADEON, "not needed"),
    ],
)  # fmt: skip
def test_a_switch_that_was_not_looked_for_is_not_absent(listing: str, verdict: str, tmp_path: Path) -> None:
    told = tree(tmp_path, cmd__lspci=listing)
    assert told["host"]["fabric_manager"].startswith(verdict)


DOMAIN = (
    "<domain><name>w</name><devices><hostdev mode='subsystem' type='pci' managed='yes'><source>"
    "<address domain='0' bus='0x42' slot='0' function='0'/></source></hostdev></devices></domain>"
)


def vm(root: Path, conf: str) -> dict[str, Any]:
    found = tree(
        root,
        etc__hostname="pve\n",
        **{"etc__pve__nodes__pve__qemu-server__101.conf": conf, "cmd__lspci-Dnnk": A6000},
    )
    (gpu,) = found["gpus"]
    return {"gpu": gpu, "vms": found["host"]["virtual_machines"]}


@pytest.mark.parametrize("key", ["hostpci0", "hostpci9", "hostpci10", "hostpci15"])
def test_every_slot_of_a_machine_takes_what_it_names(key: str, tmp_path: Path) -> None:
    (holder,) = vm(tmp_path, f"{key}: 42:00,pcie=1\n")["gpu"]["holders"]
    assert holder["takes"] == ["0000:42:00.0"]


@pytest.mark.parametrize(
    "conf", ["hostpci16: 42:00\n", "hostpci00: 42:00\n", "[special:cloudinit]\nhostpci0: 42:00\n"]
)
def test_what_qemu_server_passes_over_takes_nothing(conf: str, tmp_path: Path) -> None:
    assert vm(tmp_path, conf)["vms"] == []


def test_a_domain_of_which_nothing_tells_whether_it_runs_is_unknown(tmp_path: Path) -> None:
    (one,) = tree(tmp_path, **{"etc__libvirt__qemu__w.xml": DOMAIN})["host"]["virtual_machines"]
    assert one["status"] == "unknown"
    found = tree(tmp_path, **{".kpro__absent": "/run/libvirt/qemu\n"})
    assert found["host"]["virtual_machines"][0]["status"] == "stopped"


def test_a_domain_with_a_process_runs(tmp_path: Path) -> None:
    found = tree(tmp_path, **{"etc__libvirt__qemu__w.xml": DOMAIN, "run__libvirt__qemu__w.pid": "7\n"})
    assert found["host"]["virtual_machines"][0]["status"] == "running"


@pytest.mark.parametrize(
    ("nodes", "missing"),
    [
        (("nvidia0",), "/dev/nvidiactl and /dev/nvidia-uvm"),
        (("nvidia0", "nvidiactl"), "/dev/nvidia-uvm"),
        (("nvidia0", "nvidiactl", "nvidia-uvm"), None),
        (("nvidiactl",), None),
    ],
)
def test_a_container_with_a_gpu_and_without_the_nodes_that_cuda_needs(
    nodes: tuple[str, ...], missing: str | None, tmp_path: Path
) -> None:
    conf = "arch: amd64\n" + "".join(f"dev{at}: /dev/{name},mode=0666\n" for at, name in enumerate(nodes))
    found = tree(tmp_path, **{"etc__pve__lxc__500.conf": conf})
    told = [finding["seen"] for finding in found["findings"] if finding["id"] == "container.nodes"]
    assert told == ([f"/dev/nvidia0 without {missing}"] if missing else [])
