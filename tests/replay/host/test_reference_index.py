"""Every row of the reference inputs of hosts: file -> command -> the conclusion that it must give.

A row is put alone into an otherwise empty tree and read with ``provision inspect --sysroot``. What is measured is read
with ``provcheck gpus --replay`` too, what a program complained of with ``provcheck explain --symptom``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.cli import main as provcheck
from provision.data.gpu_arch import TABLE
from tests.replay.host.inspected import Document, found, inspected, place, said

CMD = ".kpro/cmd/"


def gpus(machine: Document) -> dict[str, Document]:
    return {gpu["bdf"].removeprefix("0000:"): gpu for gpu in machine["gpus"]}


def parts(machine: Document, bdf: str) -> dict[str, Document]:
    return {part["bdf"].removeprefix("0000:"): part for part in gpus(machine)[bdf]["companions"]}


def no_gpu_told(machine: Document) -> None:
    """Where nothing lists the bus, nothing is said of GPUs, and never that there are none."""
    assert machine["gpus"] == "unknown"
    assert "GPUs" in machine["unknown"]


# --- lspci and IOMMU groups


def two_unbound_blackwell(machine: Document) -> None:
    assert set(gpus(machine)) == {"01:00.0", "02:00.0"}
    for gpu in machine["gpus"]:
        assert (gpu["driver"], gpu["architecture"], gpu["flavours"]) == ("none", "blackwell", ["open"])
        assert all(row["flavour"] == "open" for row in gpu["drivers"] if row["fits"])
        assert not [row for row in gpu["drivers"] if row["flavour"] == "proprietary" and not row["why_not"]]


def already_on_nvidia(machine: Document) -> None:
    (gpu,) = machine["gpus"]
    assert (gpu["driver"], gpu["release"]["how"]) == ("nvidia", "nothing")
    assert "all boards with this chip" in parts(machine, "3e:00.0")["3e:00.1"]["note"]


def names_without_ids(machine: Document) -> None:
    (gpu,) = machine["gpus"]
    assert (gpu["bdf"], gpu["driver"], gpu["device"]) == ("0000:07:00.0", "vfio-pci", "unknown")
    assert gpu["architecture"] == "ampere"
    assert parts(machine, "07:00.0")["07:00.1"]["driver"] == "none"


def two_a6000(machine: Document) -> None:
    assert {bdf: gpu["driver"] for bdf, gpu in gpus(machine).items()} == {
        "42:00.0": "vfio-pci",
        "61:00.0": "vfio-pci",
    }
    assert parts(machine, "42:00.0")["42:00.1"]["driver"] == "vfio-pci"
    assert parts(machine, "61:00.0")["61:00.1"]["driver"] == "snd_hda_intel"


def eight_h200(machine: Document) -> None:
    assert len(machine["gpus"]) == 8
    switches = machine["host"]["nvswitches"]
    assert {switch["iommu_group"] for switch in switches} == {"114"}
    assert len(switches) == 3
    assert machine["host"]["fabric_manager"].startswith("needed")
    assert "no GPUs" in said(machine, "fabric.needed")


def console_card_of_another_age(machine: Document) -> None:
    there = gpus(machine)
    assert set(there) == {"41:00.0", "42:00.0", "61:00.0"}
    assert there["41:00.0"]["flavours"] == []
    assert "hinders no other GPU" in said(machine, "gpu.unserved")
    for bdf in ("42:00.0", "61:00.0"):
        assert any(row["fits"] for row in there[bdf]["drivers"])


def bridge_in_the_group(machine: Document) -> None:
    around = parts(machine, "01:00.0")
    assert around["00:01.0"]["bridge"]
    assert "never unbound" in around["00:01.0"]["note"]
    assert {bdf for bdf, part in around.items() if not part["bridge"]} == {"01:00.1", "01:00.2", "01:00.3"}


# --- the driver


def version_is(version: str, flavour: str) -> Callable[[Document], None]:
    def check(machine: Document) -> None:
        assert machine["host"]["driver"] == {"version": version, "flavour": flavour}
        no_gpu_told(machine)

    return check


def every_form_of_status(machine: Document) -> None:
    rows = [
        (row["module"], row["version"], row["kernel"], row["state"], len(row["remarks"]))
        for row in machine["host"]["dkms"]
    ]
    assert rows == [
        ("nvidia", "580.119.02", "6.17.4-2-pve", "installed", 0),
        ("nvidia", "580.119.02", "6.17.13-2-pve", "built", 0),
        ("nvidia-current", "550.163.01", "none", "added", 0),
        ("nvidia-srv", "580.159.03", "6.17.0-35-generic", "installed", 1),
        ("nvidia", "450.102.04", "5.8.0-36-generic", "installed", 2),
        ("nvidia-current-open", "550.163.01", "6.12.95+deb12-amd64", "installed", 0),
    ]
    assert [row["arch"] for row in machine["host"]["dkms"]].count("not said") == 2


def foreign_module_named(machine: Document) -> None:
    text = said(machine, "dkms.foreign-failed")
    assert "intel-i915-dkms/1.24.1.19.240119.1.nodrm" in text
    assert "no module of NVIDIA" in text
    assert "proxmox-kernel-6.8.12-1-pve-signed" in said(machine, "dpkg.half-configured")
    assert not found(machine, "dkms.nvidia-failed")


def below_the_floor_of_7(machine: Document) -> None:
    text = said(machine, "dkms.nvidia-failed")
    for word in ("580.119.02", "7.0.9-1-cachyos", "exit code 10", "below the floor", "580.159.04"):
        assert word in text
    assert not found(machine, "dpkg.half-configured")


def debian_s_does_not_build(machine: Document) -> None:
    text = said(machine, "dkms.make-log")
    for word in ("nvidia-current-open/550.163.01", "6.17.13-2-pve", "580.105.08 or newer", "refuse"):
        assert word in text


# --- the kernel's log


def unbind_first(machine: Document) -> None:
    assert "ENODEV" in said(machine, "log.no-devices-probed")
    assert "another driver" in said(machine, "log.probe-not-called")


def older_than_turing(machine: Document) -> None:
    text = said(machine, "log.no-gsp")
    for word in ("10de:1b38", "0000:01:00.0", "proprietary", "580"):
        assert word in text


def mismatch(machine: Document) -> None:
    text = said(machine, "log.api-mismatch")
    assert "user space is 570.148.08" in text
    assert "the loaded module is 570.148.06" in text


def off_the_bus(machine: Document) -> None:
    lost = {finding["subject"] for finding in found(machine, "log.off-the-bus")}
    assert lost == {"0000:06:00.0", "0000:44:00.0"}
    (reboot,) = found(machine, "log.node-reboot-required")
    assert reboot["subject"] == "0000:06:00.0"
    assert "reboot" in reboot["meaning"]


def unbind_blocks(machine: Document) -> None:
    assert "0000:8a:00.0" in said(machine, "log.removed-while-used")
    assert "fuser" in said(machine, "log.vfio-in-use")


def cold_reboot(machine: Document) -> None:
    assert "cold reboot" in said(machine, "log.d3cold")


def iommu_both(machine: Document) -> None:
    assert "active (AMD)" in said(machine, "log.iommu-amd")
    assert "active (Intel)" in said(machine, "log.iommu-intel")


# --- device nodes, modules


def nodes_all_there(machine: Document) -> None:
    nodes = {node["path"]: node for node in machine["host"]["device_nodes"]}
    assert {path for path, node in nodes.items() if node["number"] == "fixed"} == {
        *("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-modeset")
    }
    assert nodes["/dev/nvidia-uvm"]["number"] == nodes["/dev/nvidia-caps/nvidia-cap1"]["number"] == "dynamic"
    assert not found(machine, "nodes.uvm")


def no_uvm(machine: Document) -> None:
    text = said(machine, "nodes.uvm")
    assert "999" in text
    assert "nvidia-modprobe -u -c 0" in text


def majors_by_name(machine: Document) -> None:
    numbers = {name: text.split()[0] for name, text in machine["host"]["majors"].items()}
    assert numbers == {
        "nvidia": "195",
        "nvidia-modeset": "195",
        "nvidiactl": "195",
        "nvidia-uvm": "508",
        "nvidia-caps": "511",
        "nvidia-caps-imex-channels": "234",
        "nvidia-nvswitch": "510",
    }


def in_use_147_times(machine: Document) -> None:
    text = said(machine, "driver.in-use")
    assert "147" in text
    assert "gdrdrv holds it too" in text


# --- command lines and configuration


def no_vfio(booted_by: str, **iommu: str) -> Callable[[Document], None]:
    def check(machine: Document) -> None:
        line = machine["host"]["command_line"]
        assert line["binds"] == []
        assert line["booted_by"].startswith(booted_by)
        assert line["iommu"] == iommu
        assert machine["holders"] == []

    return check


def nouveau_away(machine: Document) -> None:
    assert "as it should be" in said(machine, "cmdline.nouveau")
    assert machine["holders"] == []


def typo_binds_nothing(machine: Document) -> None:
    (finding,) = found(machine, "cmdline.typo")
    assert finding["kind"] == "warning"
    assert "no effect" in finding["meaning"]
    assert machine["holders"] == machine["host"]["command_line"]["binds"] == []


def ids_and_false_isolation(machine: Document) -> None:
    (holder,) = machine["holders"]
    assert holder["acts_on"] == ["10de:2204", "10de:1aef"]
    assert "take it out" in holder["next"]
    assert "isolation is false" in said(machine, "cmdline.acs-override")


def ids_cannot_split(machine: Document) -> None:
    (holder,) = machine["holders"]
    assert (holder["line"], holder["acts_on"]) == (1, ["10de:2230", "10de:1aef"])
    text = said(machine, "holder.ids")
    assert "identical cards cannot be told apart" in text
    assert "sound function" in text


def only_nvidia_goes(machine: Document) -> None:
    assert [holder["text"] for holder in machine["holders"]] == ["blacklist nvidia"]
    kept = {finding["seen"] for finding in found(machine, "modprobe.kept")}
    assert kept >= {"blacklist nvidiafb", "blacklist nouveau"}


def never_loaded(machine: Document) -> None:
    (holder,) = machine["holders"]
    assert (holder["text"], holder["what"]) == (
        "install nvidia /bin/false",
        "keeps nvidia from being loaded at all",
    )


def loads_and_binds_nothing(machine: Document) -> None:
    assert machine["holders"] == []
    assert len(found(machine, "list.loads-only")) == 3
    assert "binds nothing" in said(machine, "list.loads-only")


def rows_by_address(machine: Document) -> None:
    assert [holder["acts_on"] for holder in machine["holders"]] == [["0000:01:00.0"], ["0000:01:00.1"]]


def override_that_lasts(machine: Document) -> None:
    (holder,) = machine["holders"]
    assert holder["acts_on"] == ["0000:42:00.0"]
    assert "unset-override 0000:42:00.0" in holder["what"]


# --- virtual machines and containers


def by_key(machine: Document) -> dict[tuple[str, str], Document]:
    return {(row["text"].split(":")[0], row["section"]): row for row in machine["host"]["virtual_machines"]}


def mapped(machine: Document) -> None:
    row = by_key(machine)["hostpci0", "current"]
    assert row["functions"] == ["0000:07:00 (all functions of the slot)"]
    assert row["onboot"]
    text = said(machine, "vm.takes")
    assert "--onboot 0" in text
    assert "would not last" in text


def every_spelling(machine: Document) -> None:
    rows = by_key(machine)
    assert rows["hostpci0", "current"]["functions"] == ["0000:01:00 (all functions of the slot)"]
    assert rows["hostpci1", "current"]["functions"] == ["0000:02:00.0", "0000:02:00.1"]
    assert rows["hostpci2", "current"]["functions"] == ["0000:41:00.0"]
    assert "no mapping UnRaid-Cache" in rows["hostpci3", "current"]["unresolved"]
    assert "weaker" in rows["hostpci0", "snapshot before-upgrade"]["meaning"]


def still_used(machine: Document) -> None:
    row = by_key(machine)["hostpci0", "current"]
    assert row["functions"] == ["0000:42:00.0"]
    assert row["leaves_at_next_start"]
    assert "until its next start" in row["meaning"]


def by_node(machine: Document) -> None:
    rows = [(row["mapping"], row["node"], row["functions"]) for row in machine["host"]["mappings"]]
    assert rows == [
        ("gpu-rtx5090", "pve", ["0000:07:00"]),
        ("rtx4000ada", "pve", ["0000:07:00"]),
        ("rtx4000ada", "pve2", ["0000:42:00.0", "0000:42:00.1"]),
    ]
    assert "gpu-rtx5090, rtx4000ada" in said(machine, "mapping.shared")


def container(machine: Document) -> Document:
    (one,) = machine["host"]["containers"]
    assert isinstance(one, dict)
    return one


def accepted_in_order(machine: Document) -> None:
    one = container(machine)
    assert one["verdict"] == "accepted"
    assert [device["how"].split()[0] for device in one["devices"]] == [
        *("dev0", "dev1", "dev2", "dev3", "dev4", "raw")
    ]


def goes_stale(machine: Document) -> None:
    text = said(machine, "container.report")
    assert "major 509" in text
    assert "migrate to devN" in text


def in_the_snapshot(machine: Document) -> None:
    text = said(machine, "container.report")
    assert "snapshot [clean] and not in the current configuration" in text


def refused(words: str) -> Callable[[Document], None]:
    def check(machine: Document) -> None:
        assert container(machine)["verdict"].startswith("refused by Proxmox")
        assert words in json.loads(said(machine, "container.refused"))[0]["seen"]

    return check


def refused_by_us(words: str) -> Callable[[Document], None]:
    def check(machine: Document) -> None:
        assert container(machine)["verdict"] == "refused by kpro: Proxmox takes it though it is wrong"
        assert words in said(machine, "container.wrong")

    return check


def accepted(words: str = "") -> Callable[[Document], None]:
    def check(machine: Document) -> None:
        assert container(machine)["verdict"] == "accepted"
        assert not words or words in said(machine, "container.report")

    return check


# --- boot loaders


def loader(name: str, edit: str, then: str, seen: str) -> Callable[[Document], None]:
    def check(machine: Document) -> None:
        (one,) = machine["host"]["boot_loaders"]
        assert (one["name"], one["edit"]) == (name, edit)
        assert then in one["then"]
        assert seen in one["seen"]

    return check


def only_the_line_in_effect(machine: Document) -> None:
    (holder,) = machine["holders"]
    assert (holder["path"], holder["line"], holder["acts_on"]) == (
        "/etc/default/grub",
        4,
        ["10de:2204", "10de:1aef"],
    )
    assert "kept as it is" in said(machine, "grub.comment")


# --- what programs complained of, and what was measured


def complaint(name: str, *words: str) -> Callable[[Document], None]:
    def check(machine: Document) -> None:
        text = said(machine, f"symptom.{name}")
        assert all(word in text for word in words), text

    return check


def three_cuda_errors(machine: Document) -> None:
    complaint("uvm-missing", "nvidia-uvm", "Xid 79 or 154")(machine)
    complaint("driver-mismatch-cuda", "two versions")(machine)
    complaint("fabric-not-ready", "fabric")(machine)


def redirect_on_then_off(machine: Document) -> None:
    first, second = found(machine, "pcie.acs")
    assert (first["kind"], second["kind"]) == ("problem", "note")
    assert "ReqRedir+" in first["meaning"]
    assert "SrcValid" not in first["meaning"]


def joined(**pairs: str) -> Callable[[Document], None]:
    def check(machine: Document) -> None:
        seen = {finding["subject"]: finding["seen"].split()[0] for finding in machine["findings"]}
        assert seen == {f"pair {name[1]}-{name[2]}": word for name, word in pairs.items()}

    return check


def no_proof(machine: Document) -> None:
    joined(p01="OK")(machine)
    assert "no proof" in said(machine, "pair.ok")
    assert "provcheck nccl" in said(machine, "pair.ok")


def hang_with_acs(machine: Document) -> None:
    joined(p01="PXB", p02="SYS", p03="SYS", p12="SYS", p13="SYS", p23="PIX")(machine)
    assert "hang" in said(machine, "pair.pxb")
    assert "hang" in said(machine, "pair.pix")
    assert "hang" not in said(machine, "pair.sys")


def judged_elsewhere(machine: Document) -> None:
    (finding,) = machine["findings"]
    assert finding["id"] == "text.measured"


_UNMANAGED = "plain GRUB"
_SMI = f"{CMD}nvidia-smi.out"

# file -> where it lies in the tree, and the conclusion
ROWS: dict[str, tuple[str, Callable[[Document], None]]] = {
    "100.conf": ("etc/pve/lxc/100.conf", accepted_in_order),
    "lspci/nnk_rtx_pro_6000_x2_unbound.txt": (f"{CMD}lspci-nnk.out", two_unbound_blackwell),
    "lspci/nnk_rtx3080_nvidia.txt": (f"{CMD}lspci-nnk.out", already_on_nvidia),
    "lspci/k_rtx3060_vfio_audio_unbound.txt": (f"{CMD}lspci-Dnnk.out", names_without_ids),
    "lspci/Dnnk_a6000_x2_vfio_composed.txt": (f"{CMD}lspci-Dnnk.out", two_a6000),
    "lspci/Dnn_h200_x8_nvswitch_groups.txt": (f"{CMD}lspci-Dnnk.out", eight_h200),
    "iommu/groups_a6000_epyc.txt": (f"{CMD}iommu-groups.out", console_card_of_another_age),
    "iommu/group_shared_with_root_port.txt": (f"{CMD}iommu-groups.out", bridge_in_the_group),
    "topo/a6000_nv4_plus_one.txt": (_SMI, joined(p01="NVLink", p02="NODE", p12="NODE")),
    "topo/nccl667_pxb_pix_hang.txt": (_SMI, hang_with_acs),
    "topo/4090_5gpu_sys_phb_node.txt": (
        _SMI,
        joined(
            p01="SYS",
            p02="SYS",
            p03="SYS",
            p04="SYS",
            p12="PHB",
            p34="PHB",
            p13="NODE",
            p14="NODE",
            p23="NODE",
            p24="NODE",
        ),
    ),
    "topo/rtx3090_x2_node_indented.txt": (_SMI, joined(p01="NODE")),
    "topo/p2p_gns_5090.txt": (_SMI, joined(p01="none")),
    "topo/p2p_ok_rtx_pro_6000.txt": (_SMI, no_proof),
    "topo/nvlink_s_a6000.txt": (_SMI, judged_elsewhere),
    "procver/open_565.57.01.txt": ("proc/driver/nvidia/version", version_is("565.57.01", "open")),
    "procver/proprietary_550.78.txt": ("proc/driver/nvidia/version", version_is("550.78", "proprietary")),
    "dkms/status_mixed.txt": (f"{CMD}dkms-status.out", every_form_of_status),
    "dkms/postinst_fail_pve_i915.txt": (f"{CMD}apt.out", foreign_module_named),
    "dkms/fail_nvidia_kernel7.txt": (f"{CMD}dkms-install.out", below_the_floor_of_7),
    "dkms/makelog_nvidia_pve_6.17.txt": (f"{CMD}make.log.out", debian_s_does_not_build),
    "dmesg/probe_not_called_vfio.txt": (f"{CMD}dmesg.out", unbind_first),
    "dmesg/gsp_unsupported_p40.txt": (f"{CMD}dmesg.out", older_than_turing),
    "dmesg/api_mismatch.txt": (f"{CMD}dmesg.out", mismatch),
    "dmesg/xid79_variants.txt": (f"{CMD}dmesg.out", off_the_bus),
    "dmesg/unbind_in_use.txt": (f"{CMD}dmesg.out", unbind_blocks),
    "dmesg/d3cold_lost.txt": (f"{CMD}dmesg.out", cold_reboot),
    "dmesg/iommu_amd_intel.txt": (f"{CMD}dmesg.out", iommu_both),
    "dev/ls_l_dev_nvidia.txt": (f"{CMD}ls-l-dev-nvidia.out", nodes_all_there),
    "dev/ls_l_no_uvm.txt": (f"{CMD}ls-l-dev-nvidia.out", no_uvm),
    "dev/proc_devices.txt": ("proc/devices", majors_by_name),
    "cmdline/pve_grub_intel.txt": ("proc/cmdline", no_vfio("GRUB", intel_iommu="on")),
    "cmdline/pve_zfs_sdboot_amd.txt": (
        "proc/cmdline",
        no_vfio("systemd-boot", amd_iommu="on", iommu="pt"),
    ),
    "cmdline/nouveau_blacklist.txt": ("proc/cmdline", nouveau_away),
    "cmdline/typo_vifo.txt": ("proc/cmdline", typo_binds_nothing),
    "cmdline/vfio_ids_3090_acs.txt": ("proc/cmdline", ids_and_false_isolation),
    "modprobe.d/vfio_ids_a6000.conf": ("etc/modprobe.d/vfio.conf", ids_cannot_split),
    "modprobe.d/pve-blacklist.conf": ("etc/modprobe.d/pve-blacklist.conf", only_nvidia_goes),
    "modprobe.d/install_false.conf": ("etc/modprobe.d/x.conf", never_loaded),
    "modules-load.d/vfio.conf": ("etc/modules-load.d/vfio.conf", loads_and_binds_nothing),
    "udev/10-proxmenux-vfio-bind.rules": ("etc/udev/rules.d/10-proxmenux-vfio-bind.rules", rows_by_address),
    "driverctl/pci-0000:42:00.0": ("etc/driverctl.d/pci-0000:42:00.0", override_that_lasts),
    "qemu-server/101_mapping.conf": ("etc/pve/nodes/pve/qemu-server/101.conf", mapped),
    "qemu-server/102_forms.conf": ("etc/pve/nodes/pve/qemu-server/102.conf", every_spelling),
    "qemu-server/103_pending.conf": ("etc/pve/qemu-server/103.conf", still_used),
    "mapping/pci.cfg": ("etc/pve/mapping/pci.cfg", by_node),
    "lxc/500_raw_privileged.conf": ("etc/pve/lxc/500.conf", goes_stale),
    "lxc/501_snapshot_trap.conf": ("etc/pve/lxc/501.conf", in_the_snapshot),
    "boot/pbt_status_uefi.txt": (
        f"{CMD}proxmox-boot-tool-status.out",
        loader("systemd-boot", "/etc/kernel/cmdline", "proxmox-boot-tool refresh", "uefi"),
    ),
    "boot/pbt_status_grub.txt": (
        f"{CMD}proxmox-boot-tool-status.out",
        loader("grub", "/etc/default/grub", "update-grub (it runs proxmox-boot-tool refresh too)", "grub"),
    ),
    "boot/pbt_status_unmanaged.txt": (
        f"{CMD}proxmox-boot-tool-status.out",
        loader("grub", "/etc/default/grub", "update-grub", _UNMANAGED),
    ),
    "boot/efibootmgr_v_grub_shim.txt": (
        f"{CMD}efibootmgr-v.out",
        loader("grub", "/etc/default/grub", "update-grub", "shim, which starts GRUB"),
    ),
    "boot/etc_default_grub": ("etc/default/grub", only_the_line_in_effect),
    "errors/nvml_unknown.txt": (
        f"{CMD}nvidia-smi-in-container.out",
        complaint("cgroup-lost", "daemon-reload", "the host is well", "restart the container"),
    ),
    "errors/pct_start_dev_missing.txt": (
        f"{CMD}start.out",
        complaint("container-node-missing", "does not start", "pve-guests"),
    ),
    "errors/run_installer_in_ct.txt": (
        f"{CMD}installer.out",
        complaint("installer-in-container", "--no-kernel-modules"),
    ),
    "errors/cuda_999_803_802.txt": (f"{CMD}cuda.out", three_cuda_errors),
    "errors/fabricmanager_no_nvswitch.txt": (
        f"{CMD}fabric.out",
        complaint("fabric-manager-without-switch", "disable"),
    ),
    "errors/nccl_shm.txt": (f"{CMD}nccl.out", complaint("shm-too-small", "/dev/shm is too small")),
    "errors/lspci_acsctl.txt": (f"{CMD}lspci-vvv.out", redirect_on_then_off),
    "lsmod/h100_host.txt": (f"{CMD}lsmod.out", in_use_147_times),
    "neg/201.conf": ("etc/pve/lxc/201.conf", refused("nvidia0 is not a valid device path")),
    "neg/202.conf": ("etc/pve/lxc/202.conf", refused("format error mode: value does not match the regex")),
    "neg/203.conf": ("etc/pve/lxc/203.conf", refused("format error foo: property is not defined in schema")),
    "neg/204.conf": ("etc/pve/lxc/204.conf", refused("unable to parse config: lxc.foo.bar: 1")),
    "neg/205.conf": ("etc/pve/lxc/205.conf", accepted("migrate to lxc.cgroup2")),
    "neg/206.conf": ("etc/pve/lxc/206.conf", refused("nesting: type check ('boolean') failed")),
    "neg/207.conf": ("etc/pve/lxc/207.conf", refused("type check ('integer') failed - got '64G'")),
    "neg/208.conf": ("etc/pve/lxc/208.conf", refused("unknown setting 'dev256'")),
    "neg/213.conf": ("etc/pve/lxc/213.conf", refused_by_us("minimum value of 1")),
    "neg/214.conf": ("etc/pve/lxc/214.conf", accepted()),
    "neg/216.conf": ("etc/pve/lxc/216.conf", accepted("moves to the top")),
    "neg/218.conf": ("etc/pve/lxc/218.conf", accepted("unprivileged containers only")),
    "neg/220.conf": ("etc/pve/lxc/220.conf", refused("valid ipv4 network configuration")),
    "neg/221.conf": ("etc/pve/lxc/221.conf", accepted()),
    "neg/223.conf": (
        "etc/pve/lxc/223.conf",
        refused("duplicate key in comma-separated list property: volume"),
    ),
    "neg/225.conf": ("etc/pve/lxc/225.conf", refused_by_us("the last one wins")),
}
ELSEWHERE = {"pciids/nvidia_gpu_arch.tsv"}
BESIDE = {"qemu-server": ("mapping/pci.cfg", "etc/pve/mapping/pci.cfg")}


@pytest.mark.parametrize("name", ROWS)
def test_a_reference_input_alone_in_a_tree_gives_its_conclusion(
    name: str, shared: Path, tmp_path: Path
) -> None:
    at, check = ROWS[name]
    place(tmp_path, at, shared / "fixtures/host" / name)
    if name.split("/")[0] in BESIDE:
        source, target = BESIDE[name.split("/")[0]]
        place(tmp_path, target, shared / "fixtures/host" / source)
    check(inspected(tmp_path))


def test_every_row_of_the_index_has_its_conclusion(shared: Path) -> None:
    lines = (shared / "fixtures/host/INDEX.tsv").read_text().splitlines()[1:]
    assert {line.split("\t")[0] for line in lines} == ROWS.keys() | ELSEWHERE


def test_every_device_id_of_the_table_is_told_its_architecture(shared: Path, tmp_path: Path) -> None:
    lines = (shared / "fixtures/host/pciids/nvidia_gpu_arch.tsv").read_text().splitlines()[1:]
    wanted = {}
    listing = tmp_path / CMD / "lspci-Dnnk.out"
    listing.parent.mkdir(parents=True)
    with listing.open("w") as out:
        for number, line in enumerate(lines):
            device, chip, architecture, flavour, name = line.split("\t")[:5]
            bdf = f"{number // 256:04x}:{number % 256:02x}:00.0"
            # The bridges among the ids are told by their class, not by their id.
            bridge = device not in TABLE
            kind = "PCI bridge [0604]" if bridge else "VGA compatible controller [0300]"
            out.write(f"{bdf} {kind}: NVIDIA Corporation {chip} [{name}] [10de:{device}] (rev a1)\n")
            if not bridge:
                wanted[bdf] = architecture, flavour
    machine = inspected(tmp_path)
    told = {gpu["bdf"]: gpu for gpu in machine["gpus"]}
    assert told.keys() == wanted.keys()
    assert len(wanted) > 950
    for bdf, (architecture, modules) in wanted.items():
        # Grace Hopper is a row of its own here: its board takes the open module only.
        grace = told[bdf]["architecture"] == "grace hopper"
        assert told[bdf]["architecture"].removeprefix("grace ") == architecture, bdf
        words = set() if modules.startswith("none") else set(re.findall("open|proprietary", modules))
        assert set(told[bdf]["flavours"]) == ({"open"} if grace else words), bdf


@pytest.mark.parametrize(
    ("name", "symptom"),
    [
        ("nvml_unknown", "cgroup-lost"),
        ("pct_start_dev_missing", "container-node-missing"),
        ("run_installer_in_ct", "installer-in-container"),
        ("fabricmanager_no_nvswitch", "fabric-manager-without-switch"),
        ("nccl_shm", "shm-too-small"),
        ("cuda_999_803_802", "uvm-missing"),
    ],
)
def test_what_a_program_said_is_explained_as_a_symptom(
    name: str, symptom: str, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (shared / "fixtures/host/errors" / f"{name}.txt").read_text()
    assert provcheck(["explain", "--symptom", text]) == 0
    assert capsys.readouterr().out.splitlines()[0] == symptom


@pytest.mark.parametrize(
    ("name", "subject", "status"),
    [
        ("a6000_nv4_plus_one", "pair 0-1", "pass"),
        ("nccl667_pxb_pix_hang", "pair 0-1", "skip"),
        ("4090_5gpu_sys_phb_node", "pair 1-2", "skip"),
        ("rtx3090_x2_node_indented", "pair 0-1", "skip"),
        ("p2p_gns_5090", "pair 0-1", "skip"),
        ("p2p_ok_rtx_pro_6000", "pair 0-1", "pass"),
    ],
)
def test_a_topology_is_judged_by_provcheck(
    name: str, subject: str, status: str, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared / "fixtures/host/topo" / f"{name}.txt"
    assert provcheck(["gpus", "--json", "--replay", str(path)]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {f["subject"]: f["status"] for f in findings if f["id"] == "pcie.p2p"}[subject] == status


def test_a_gpu_without_a_bridge_beside_a_bridged_pair_is_no_fault(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared / "fixtures/host/topo/nvlink_s_a6000.txt"
    assert provcheck(["gpus", "--json", "--replay", str(path)]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    told = {(f["id"], f["subject"]): f for f in findings}
    assert told["nvlink.state", "gpu0"]["message"] == "4 of 4 NVLinks active"
    assert told["nvlink.state", "gpu2"]["status"] == "skip"
