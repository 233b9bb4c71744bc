"""What binds functions when the machine starts: units and what they call, rc.local, cron, the initramfs, dracut."""

from __future__ import annotations

import pytest

from provision.host.moves import Edits, FileEdit
from tests.unit.vms.tree import GPU, Tree

OTHER = "0000:61:00.0"
UNIT = "[Unit]\nDescription=x\n\n[Service]\nType=oneshot\nExecStart={}\n\n[Install]\nWantedBy=basic.target\n"
PATH = "/etc/systemd/system/vfio-gpu.service"
WANTS = "/etc/systemd/system/basic.target.wants/vfio-gpu.service"
SCRIPT = "/usr/local/sbin/give-gpu"
BINDS = f"#!/bin/sh\nfor d in {GPU}; do\n  echo vfio-pci >/sys/bus/pci/devices/$d/driver_override\ndone\n"
COMMANDS = [
    f"/bin/sh -c 'echo vfio-pci > /sys/bus/pci/devices/{GPU}/driver_override'",
    f"/bin/bash -c 'echo {GPU} > /sys/bus/pci/drivers/vfio-pci/bind'",
    "/bin/sh -c 'echo 10de 2230 > /sys/bus/pci/drivers/vfio-pci/new_id'",
    f"-/usr/bin/vfio-pci-bind.sh {GPU}",
    f"/usr/local/bin/vfio-bind {GPU}",
    "/usr/bin/virsh nodedev-detach pci_0000_42_00_0",
    f"/usr/sbin/driverctl -v set-override {GPU} vfio-pci",
    "/sbin/modprobe vfio-pci ids=10de:2230",
    "/usr/bin/virsh -c qemu:///system nodedev-dettach pci_0000_42_00_0",
    f"/usr/sbin/driverctl -b pci set-override {GPU} vfio-pci",
    f"/usr/sbin/driverctl set-override {GPU} none",
    f"/usr/local/bin/dpdk-devbind.py --bind=vfio-pci {GPU}",
    "/bin/sh -c 'D=/sys/bus/pci/drivers/vfio-pci; echo 10de 2230 > $D/new_id'",
    "/bin/sh -c 'for f in 0 1; do echo vfio-pci > /sys/bus/pci/devices/0000:42:00.$f/driver_override; done'",
    "/bin/bash -c 'S=0000:42:00; echo vfio-pci | tee /sys/bus/pci/devices/$S.*/driver_override'",
]


def started(tree: Tree, command: str) -> Tree:
    return tree.put(PATH, UNIT.format(command)).link(WANTS, PATH)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_unit_that_binds_the_gpu_is_refused_with_file_and_line(tree: Tree, command: str) -> None:
    started(tree, command)
    assert f"{PATH}:6: binds GPUs when the machine starts: ExecStart={command}" in tree.refused
    assert "systemctl disable vfio-gpu.service" in tree.refused


@pytest.mark.parametrize("command", COMMANDS)
def test_a_unit_that_binds_another_card_is_no_hindrance(tree: Tree, command: str) -> None:
    other = command.replace("0000:42", "0000:61").replace("_42_", "_61_").replace("2230", "2204")
    assert started(tree, other).plan.refusals == ()


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/nvidia-persistenced --user nvpd",
        f"/bin/sh -c 'echo nvidia > /sys/bus/pci/devices/{GPU}/driver_override'",
        "/usr/bin/true vfio",
        "/bin/sh -c 'echo 0403 6001 > /sys/bus/usb-serial/drivers/ftdi_sio/new_id'",
    ],
)
def test_a_unit_that_binds_nothing_is_no_hindrance(tree: Tree, command: str) -> None:
    assert started(tree, command).plan.refusals == ()


def test_a_unit_that_nothing_starts_is_a_note(tree: Tree) -> None:
    tree.put(PATH, UNIT.format(COMMANDS[0]))
    assert "systemctl disable vfio-gpu.service" in tree.refused  # no link of any unit was looked at
    tree.link(WANTS.replace("vfio-gpu", "ssh"), "/usr/lib/systemd/system/ssh.service")
    assert tree.plan.refusals == ()
    assert f"{PATH}:6: " in tree.notes
    assert "vfio-gpu.service is not enabled" in tree.notes
    tree.put(PATH, UNIT.format(COMMANDS[0]).split("[Install]")[0])
    assert "systemctl disable vfio-gpu.service" in tree.refused  # others may start it


def test_kpro_s_own_unit_is_no_holder(tree: Tree) -> None:
    path = "/etc/systemd/system/kpro-devices.service"
    tree.put(path, UNIT.format("/bin/sh /var/lib/kpro/devices.sh")).put("/var/lib/kpro/devices.sh", BINDS)
    assert tree.plan.refusals == ()
    tree.put(
        path.replace("kpro-", "my-"), UNIT.format("/bin/sh /var/lib/kpro/devices.sh").split("[Install]")[0]
    )
    assert "my-devices.service" in tree.refused


def test_a_template_is_started_by_its_instance(tree: Tree) -> None:
    path = "/etc/systemd/system/vfio@.service"
    tree.put(path, UNIT.format(COMMANDS[0])).link(
        "/etc/systemd/system/basic.target.wants/vfio@gpu.service", path
    )
    assert f"{path}:6" in tree.refused


def test_a_drop_in_of_another_unit_is_found(tree: Tree) -> None:
    path = "/etc/systemd/system/pve-guests.service.d/gpu.conf"
    tree.put(
        path, f"[Service]\n# ExecStartPre=vfio-bind x\nExecStartPre=/bin/true ; \\\n; x\n  {COMMANDS[4]}\n"
    )
    assert f"{path}:3" in tree.refused
    assert "systemctl disable pve-guests.service" in tree.refused


@pytest.mark.parametrize("call", [SCRIPT, f"-{SCRIPT} a b", f'/bin/sh -c "{SCRIPT}; true"'])
def test_a_script_that_a_unit_calls_is_read(tree: Tree, call: str) -> None:
    started(tree, call).put(SCRIPT, BINDS)
    assert f"by {SCRIPT}" in tree.refused
    tree.put(SCRIPT, BINDS.replace("0000:42", "0000:61"))
    assert tree.plan.refusals == ()
    tree.put(SCRIPT, "#!/bin/sh\nexit 0\n")
    assert tree.plan.refusals == ()


def test_a_program_is_not_read_as_a_script(tree: Tree) -> None:
    started(tree, SCRIPT).put(SCRIPT, "\0\1ELF driver_override vfio-pci\n")
    assert tree.plan.refusals == ()


def test_rc_local_and_cron_start_things_too(tree: Tree) -> None:
    tree.put("/etc/rc.local", f"#!/bin/sh\n# vfio-bind\n{SCRIPT}\nexit 0\n").put(SCRIPT, BINDS)
    assert "/etc/rc.local:3" in tree.refused
    tree.put("/etc/rc.local", "#!/bin/sh\nexit 0\n")
    assert tree.plan.refusals == ()
    tree.put("/etc/cron.d/gpu", f"# @reboot root vfio-bind\n@reboot root {SCRIPT}\n")
    assert "/etc/cron.d/gpu:2" in tree.refused
    tree.put("/etc/cron.d/gpu", f"# 0 3 * * * root {SCRIPT}\nMAILTO={SCRIPT}\n")
    assert tree.plan.refusals == ()
    tree.put("/etc/cron.d/gpu", f"0 3 * * * root {SCRIPT}\n")
    assert "/etc/cron.d/gpu:1: binds GPUs at the times of its crontab" in tree.refused


@pytest.mark.parametrize(
    "path",
    [
        "/etc/initramfs-tools/scripts/init-top/vfio",
        "/etc/initramfs-tools/scripts/init-premount/vfio",
        "/etc/initramfs-tools/hooks/vfio",
        "/usr/share/initramfs-tools/scripts/init-top/vfio",
    ],
)
def test_a_script_of_the_initramfs_is_refused(tree: Tree, path: str) -> None:
    tree.put(path, BINDS)
    assert f"{path}:3: binds GPUs while the initramfs runs" in tree.refused
    assert "update-initramfs -u -k all" in tree.refused
    tree.put(path, BINDS.replace("0000:42", "0000:61"))
    assert tree.plan.refusals == ()


def test_what_is_written_to_sysfs_at_the_start_is_found(tree: Tree) -> None:
    line = f"w /sys/bus/pci/devices/{GPU}/driver_override - - - - vfio-pci\n"
    tree.put("/etc/tmpfiles.d/vfio.conf", f"# {line}{line}")
    assert "/etc/tmpfiles.d/vfio.conf:2" in tree.refused
    tree.put("/etc/tmpfiles.d/vfio.conf", line.replace("0000:42", "0000:61"))
    assert tree.plan.refusals == ()
    tree.put("/etc/sysfs.d/vfio.conf", f"bus/pci/devices/{GPU}/driver_override = vfio-pci\n")
    assert "/etc/sysfs.d/vfio.conf:1" in tree.refused


def edits(tree: Tree) -> dict[str, FileEdit]:
    found = [item.payload for item in tree.plan.items if isinstance(item.payload, Edits)]
    return {edit.path: edit for one in found for edit in one.files}


def test_dracut_s_files_lose_the_gpu_and_nothing_else(tree: Tree) -> None:
    path = "/etc/dracut.conf.d/gpu.conf"
    tree.put(
        path,
        '# force_drivers+=" vfio_pci "\nforce_drivers+=" vfio vfio-pci ext4 "\nadd_drivers+=" vfio_pci "\n'
        "kernel_cmdline='rd.driver.pre=vfio-pci,ext4 vfio-pci.ids=10de:2230,8086:1533 quiet'\n",
    )
    tree.put("/etc/dracut.conf", 'kernel_cmdline+=" vfio-pci.ids=10de:1aef"\n')
    found = edits(tree)
    assert found["/etc/dracut.conf"].data == b'kernel_cmdline+=""\n'
    # 8086:1533 stays with a virtual machine, and what is loaded early for it too.
    assert b'force_drivers+=" vfio vfio-pci ext4 "' in found[path].data
    assert b"'rd.driver.pre=vfio-pci,ext4 vfio-pci.ids=8086:1533 quiet'" in found[path].data
    tree.put(path, (tree.root / path.lstrip("/")).read_text().replace(",8086:1533", ""))
    assert edits(tree)[path].data.decode() == (
        '# force_drivers+=" vfio_pci "\nforce_drivers+=" ext4 "\nadd_drivers+=" vfio_pci "\n'
        "kernel_cmdline='rd.driver.pre=ext4 quiet'\n"
    )


def test_a_file_of_driverctl_goes_and_that_of_another_card_stays(tree: Tree) -> None:
    tree.put(f"/etc/driverctl.d/pci-{GPU}", "vfio-pci\n").put(f"/etc/driverctl.d/pci-{OTHER}", "vfio-pci\n")
    gone = [path for path, edit in edits(tree).items() if edit.gone]
    assert gone == [f"/etc/driverctl.d/pci-{GPU}"]


def test_typing_errors_and_what_is_only_loaded_are_notes(tree: Tree) -> None:
    tree.put("/proc/cmdline", "quiet vifo-pci.ids=10de:2230 video=efifb:off pcie_acs_override=downstream\n")
    tree.put("/etc/modules", "vifio\nvfio_pci\n# vfoi\nloop\n")
    assert "/proc/cmdline: vifo-pci.ids=10de:2230 binds nothing" in tree.notes
    assert "/etc/modules:1: vifio loads nothing" in tree.notes
    assert "/etc/modules:2: vfio_pci is loaded, which binds no GPU by itself" in tree.notes
    assert "pcie_acs_override=downstream only pretends" in tree.notes
    assert "video=efifb:off" in tree.notes
    assert "loop" not in tree.notes
    assert tree.plan.refusals == ()


def test_what_the_kernel_was_started_with_is_told_and_changes_nothing(tree: Tree) -> None:
    tree.put("/proc/cmdline", "quiet vfio-pci.ids=10de:2230\n").put(
        "/etc/default/grub", 'GRUB_CMDLINE_LINUX="quiet"\n'
    )
    assert "until the next boot; no file that was looked at says so" in tree.notes
    tree.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX="vfio-pci.ids=10de:2230"\n')
    assert "until the next boot)" in tree.notes
    assert tree.plan.refusals == ()
    assert not [item for item in tree.plan.items if item.kind == "reboot"]


def test_without_its_file_systemd_boot_gets_the_running_command_line(tree: Tree) -> None:
    tree.put("/proc/cmdline", "quiet vfio-pci.ids=10de:2230\n").put(
        "/etc/kernel/proxmox-boot-uuids", "0A0A-0001\n"
    )
    tree.cmd("proxmox-boot-tool-status", "0A0A-0001 is configured with: grub (versions: 6.8.12-4-pve)\n")
    assert tree.plan.refusals == ()
    tree.cmd(
        "proxmox-boot-tool-status", "0A0A-0001 is configured with: uefi (versions: 6.8.12-4-pve), grub\n"
    )
    assert "there is no /etc/kernel/cmdline" in tree.refused
    tree.put("/etc/kernel/cmdline", "quiet vfio-pci.ids=10de:2230\n").put(
        "/etc/default/grub", "GRUB_CMDLINE_LINUX=vfio-pci.ids=10de:2230\n"
    )
    assert tree.plan.refusals == ()
    assert {"/etc/kernel/cmdline", "/etc/default/grub"} <= set(edits(tree))


def test_the_console_is_a_note_where_no_other_maker_s_graphics_is(tree: Tree) -> None:
    tree.put(f"/sys/bus/pci/devices/{GPU}/boot_vga", "1\n")
    assert "has the firmware's console" in tree.notes
    tree.function("0000:03:00.0", "0x2000", "0x030000", "3", driver="ast", vendor="0x1a03")
    tree.put("/sys/bus/pci/devices/0000:03:00.0/boot_vga", "0\n")
    assert "console" not in tree.notes
    assert tree.plan.refusals == ()
