"""Each kind of holder: what it holds, and what is left when a GPU is taken out of it."""

from __future__ import annotations

import pytest

from checks.bdf import Bdf
from provision.host.release import cmdline, driverctl, foreign, lists, modprobe, udev
from provision.host.release.target import Target
from provision.host.view import PciFunction

GPU = PciFunction(Bdf.parse("42:00.0"), "0x2230", "0x030000", "vfio-pci", "25", None)
AUDIO = PciFunction(Bdf.parse("42:00.1"), "0x1aef", "0x040300", "vfio-pci", "25", None)
TWIN = PciFunction(Bdf.parse("61:00.0"), "0x2230", "0x030000", "vfio-pci", "10", None)
OTHER = PciFunction(Bdf.parse("81:00.0"), "0x2204", "0x030000", "vfio-pci", "11", None)
A6000 = Target((GPU, AUDIO))
KEEPING = Target((GPU, AUDIO), keeping=True)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("options vfio-pci ids=10de:2230,10de:1aef", None),
        ("options vfio_pci ids=10de:2230,1002:73bf", "options vfio_pci ids=1002:73bf"),
        ("options vfio-pci disable_vga=1  ids=10DE:2230", "options vfio-pci disable_vga=1"),
        ('options vfio-pci ids="10de:2230,10de:2204" x=1', 'options vfio-pci ids="10de:2204" x=1'),
        ("options vfio-pci ids=10de:2230:10de:1459", None),
        ("options vfio-pci ids=10de:ffffffff", None),
        ("options pci-stub ids=10de:1aef", None),
        (
            "options vfio-pci ids=10de:2230,10de:2204 \\\n  disable_vga=1",
            "options vfio-pci ids=10de:2204   disable_vga=1",
        ),
        ("softdep nvidia pre: vfio-pci", None),
        ("softdep nvidia_drm pre: vfio_pci i2c_core", "softdep nvidia_drm pre: i2c_core"),
        ("softdep nouveau pre: vfio-pci post: x", "softdep nouveau pre: post: x"),
        ("softdep nvidiafb pre: vfio-pci", None),
        ("softdep nvidia* pre: vfio-pci", None),
        ("softdep nvid?a_drm pre: vfio-pci", None),
        ("install nvidia* /bin/false", None),
        ("install nvidia /sbin/modprobe vfio-pci; /sbin/modprobe --ignore-install nvidia", None),
        ("install nvidia /sbin/modprobe vfio_pci && modprobe -i nvidia $CMDLINE_OPTS", None),
        ("install nvidia exit 1", None),
        ("install nvidia /bin/sh -c 'exit 1'", None),
        ("alias pci:v000010DEd00002230sv*sd*bc*sc*i* vfio-pci", None),
        ("alias pci:v000010DEd*sv* vfio_pci", None),
        ("softdep snd_hda_intel pre: vfio-pci", None),
        ("softdep snd-hda-intel pre: vfio_pci", None),
        ("softdep xhci_pci pre: vfio-pci", None),
        ("softdep drm pre: vfio-pci", None),
        ("softdep nvidia \\\n  pre: vfio-pci", None),
        ("blacklist nvidia", None),
        ("blacklist nvidia-drm", None),
        ("blacklist nvidia-current-open", None),
        ("install nvidia /bin/false", None),
        ("install nvidia_uvm /usr/bin/true", None),
    ],
)
def test_modprobe_lines_that_hold_a_gpu_go_and_are_seen_as_holders(line: str, left: str | None) -> None:
    assert modprobe.find("/x", f"{line}\n")
    commented = "".join(f"# kpro: {part}\n" for part in line.split("\n"))
    assert modprobe.clean(f"{line}\n", A6000) == commented + (f"{left}\n" if left else "")


@pytest.mark.parametrize(
    "line",
    [
        "options vfio-pci disable_vga=1",
        "options vfio-pci ids=10de:2204,1002:73bf",
        "options vifo-pci ids=10de:2230",
        "options vfio-pci ids=10de",
        "options snd_hda_intel ids=10de:2230",
        "options nvidia NVreg_OpenRmEnableUnsupportedGpus=1",
        "#options vfio-pci ids=10de:2230",
        "# a comment that goes on \\\noptions vfio-pci ids=10de:2230",
        "softdep ahci pre: vfio-pci",
        "softdep nvidia post: vfio-pci",
        "blacklist nvidiafb",
        "blacklist nouveau",
        "blacklist nvidia_wmi_ec_backlight",
        "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS",
        "install nouveau /bin/false",
        "install vfio-pci /sbin/modprobe --ignore-install vfio-pci",
        "alias char-major-195* nvidia-current",
        "alias pci:v000010DEd00002204sv*sd*bc*sc*i* vfio-pci",
        "alias pci:v00001002d*sv* vfio-pci",
        "install nouveau* /bin/false",
        "softdep nvme* pre: vfio-pci",
        "blacklist",
        "",
    ],
)
def test_modprobe_lines_that_hold_no_gpu_stay_byte_for_byte(line: str) -> None:
    assert modprobe.clean(f"{line}\n", A6000) == f"{line}\n"
    assert modprobe.clean(line, A6000) == line
    assert not any(holder.holds(GPU) for holder in modprobe.find("/x", line))


def test_the_last_line_needs_no_line_end() -> None:
    text = "a b\noptions vfio-pci ids=10de:2230 x=1"
    assert modprobe.clean(text, A6000) == f"a b\n# kpro: {text[4:]}\noptions vfio-pci x=1"


@pytest.mark.parametrize("line", ["softdep nvidia pre: vfio-pci", "blacklist nvidia", "blacklist nvidia_drm"])
def test_what_only_orders_the_loading_stays_while_another_gpu_is_kept(line: str) -> None:
    assert modprobe.clean(f"{line}\n", KEEPING) == f"{line}\n"
    assert modprobe.clean(f"{line}\n", A6000) != f"{line}\n"


def test_what_refuses_the_driver_goes_also_while_another_gpu_is_kept() -> None:
    for line in ("install nvidia /bin/false", "options vfio-pci ids=10de:2230"):
        assert modprobe.clean(f"{line}\n", KEEPING) == f"# kpro: {line}\n"


@pytest.mark.parametrize(
    "command",
    [
        "/usr/local/bin/vfio-override.sh",
        "/bin/sh -c 'echo x > y'; modprobe -i vfio-pci",
        "modprobe -i vfio-pci ids=10de:2230",
    ],
)
def test_a_command_that_runs_in_place_of_vfio_pci_is_left_to_the_operator(command: str) -> None:
    (holder,) = modprobe.find("/etc/modprobe.d/v.conf", f"install vfio-pci {command}\n")
    assert holder.instead
    assert holder.holds(GPU)


@pytest.mark.parametrize(
    "line",
    [
        "install nvidia modprobe vfio-pci; modprobe -i nvidia-current $CMDLINE_OPTS",
        "install nvidia /usr/local/bin/vfio-or-not.sh",
        "install nvidia modprobe vfio-pci ids=10de:2230; modprobe -i nvidia",
        "install n* /bin/false",
        "install vfio /usr/local/bin/x.sh; modprobe -i vfio",
    ],
)
def test_a_line_that_does_more_than_load_is_left_to_the_operator_byte_for_byte(line: str) -> None:
    (holder,) = modprobe.find("/x", f"{line}\n")
    assert holder.instead
    assert holder.holds(GPU)
    assert modprobe.clean(f"{line}\n", A6000) == f"{line}\n"


@pytest.mark.parametrize(
    ("name", "text", "kept_away"),
    [
        ("nouveau", "blacklist nouveau\n", True),
        ("nouveau", "install nouveau /bin/false\n", True),
        ("nouveau", "#blacklist nouveau\n", False),
        ("nouveau", "blacklist nouveau_x\n", False),
        ("nouveau", "install nouveau modprobe -i nouveau\n", False),
    ],
)
def test_a_module_is_kept_away_by_what_modprobe_reads(name: str, text: str, kept_away: bool) -> None:
    assert modprobe.keeps_away(name, text) is kept_away


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("vfio-pci ids=10de:2230,10de:1aef", "vfio-pci"),
        ("  vfio_pci ids=10de:2230,10de:2204 disable_vga=1", "  vfio_pci ids=10de:2204 disable_vga=1"),
        ("pci-stub ids=10de:1aef", "pci-stub"),
    ],
)
def test_a_list_of_modules_loses_the_ids_alone(line: str, left: str) -> None:
    assert lists.clean(f"loop\n{line}\n", A6000) == f"loop\n# kpro: {line}\n{left}\n"
    (holder,) = lists.find("/x", f"loop\n{line}\n")
    assert holder.line == 2


@pytest.mark.parametrize(
    "line",
    [
        "vfio-pci",
        "vfio_pci ids=10de:2204",
        "# vfio-pci ids=10de:2230",
        "vifo-pci ids=10de:2230",
        "nvidia",
        "vfio",
    ],
)
def test_loading_vfio_pci_alone_binds_nothing(line: str) -> None:
    assert lists.clean(f"{line}\n", A6000) == f"{line}\n"
    assert not any(holder.holds(GPU) for holder in lists.find("/x", line))


RULE = 'SUBSYSTEM=="pci", KERNEL=="{}", ATTR{{driver_override}}="vfio-pci"'


@pytest.mark.parametrize(
    "line",
    [
        RULE.format("0000:42:00.0"),
        RULE.format("0000:42:00.?"),
        RULE.format("0000:42:00.*|0000:43:00.0").replace("|0000:43:00.0", ""),
        'ACTION=="add", ATTR{vendor}=="0x10de", ATTR{device}=="0x2230", ATTR{driver_override}="vfio-pci"',
        'ACTION=="add", SUBSYSTEM=="pci", ATTR{class}=="0x0300*", RUN+="/usr/local/bin/vfio-bind %k"',
        'SUBSYSTEM=="pci", ENV{PCI_SLOT_NAME}=="0000:42:00.0", \\\n  ATTR{driver_override}="vfio-pci"',
    ],
)
def test_a_udev_rule_for_the_gpu_goes(line: str) -> None:
    (holder,) = udev.find("/x", f"{line}\n")
    assert holder.holds(GPU)
    assert udev.clean(f"{line}\n", A6000) == "".join(f"# kpro: {part}\n" for part in line.split("\n"))


@pytest.mark.parametrize(
    "line",
    [
        RULE.format("0000:61:00.0"),
        RULE.format("0000:42:00.2"),
        RULE.format("42:00.0"),
        f"# {RULE.format('0000:42:00.0')}",
        RULE.format("0000:42:00.?").replace('KERNEL=="', 'KERNEL!="'),
        'SUBSYSTEM=="pci", ATTR{device}=="0x2204", ATTR{driver_override}="vfio-pci"',
        'SUBSYSTEM=="vfio", OWNER="root", GROUP="kvm"',
        'SUBSYSTEM=="pci", KERNEL=="0000:42:00.0", ATTR{power/control}="on"',
        'SUBSYSTEM=="usb", KERNEL=="*", RUN+="/bin/vfio"',
    ],
)
def test_a_udev_rule_for_something_else_stays(line: str) -> None:
    assert udev.clean(f"{line}\n", A6000) == f"{line}\n"
    assert not any(holder.holds(GPU) for holder in udev.find("/x", line))


def test_of_a_rule_with_several_addresses_only_the_gpu_s_go() -> None:
    line = RULE.format("0000:42:00.0|0000:61:00.0|0000:42:00.1")
    left = RULE.format("0000:61:00.0")
    assert udev.clean(f"{line}\n", A6000) == f"# kpro: {line}\n{left}\n"


GRUB = """GRUB_TIMEOUT=5
GRUB_CMDLINE_LINUX_DEFAULT="{}"  # vfio-pci.ids=10de:2230
#GRUB_CMDLINE_LINUX="vfio-pci.ids=10de:2230"
"""


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("quiet vfio-pci.ids=10de:2230,10de:1aef iommu=pt", "quiet iommu=pt"),
        ("vfio-pci.ids=10de:2230 quiet", "quiet"),
        ("quiet vfio_pci.ids=10de:2230,10de:2204", "quiet vfio_pci.ids=10de:2204"),
        ("vfio-pci.ids=10de:2230", ""),
        ("quiet pci-stub.ids=10de:1aef", "quiet"),
        ("modprobe.blacklist=nouveau,nvidia quiet", "modprobe.blacklist=nouveau quiet"),
        ("quiet module_blacklist=nvidia,nvidia_drm", "quiet"),
    ],
)
def test_a_command_line_loses_what_holds_the_gpu_and_no_more(line: str, left: str) -> None:
    assert cmdline.clean("/etc/default/grub", GRUB.format(line), A6000) == GRUB.format(left)
    assert cmdline.clean("/etc/kernel/cmdline", f"{line}\n", A6000) == f"{left}\n"
    assert cmdline.find("/etc/default/grub", GRUB.format(line))[0].line == 2


@pytest.mark.parametrize(
    "line",
    [
        "quiet amd_iommu=on iommu=pt pcie_acs_override=downstream",
        "vifo-pci.ids=10de:2230",
        "vfio-pci.ids=10de:2204",
        "modprobe.blacklist=nouveau",
        "nouveau.modeset=0 initcall_blacklist=sysfb_init video=efifb:off",
        "x.vfio-pci.ids=10de:2230",
    ],
)
def test_a_command_line_that_holds_no_gpu_stays(line: str) -> None:
    assert cmdline.clean("/etc/default/grub", GRUB.format(line), A6000) == GRUB.format(line)
    assert not any(holder.holds(GPU) for holder in cmdline.find("/etc/default/grub", GRUB.format(line)))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("GRUB_CMDLINE_LINUX='a vfio-pci.ids=10de:2230'\n", "GRUB_CMDLINE_LINUX='a'\n"),
        ("GRUB_CMDLINE_LINUX=vfio-pci.ids=10de:2230\n", "GRUB_CMDLINE_LINUX=\n"),
        (
            'export GRUB_CMDLINE_LINUX_DEFAULT+=" vfio-pci.ids=10de:2230"\n',
            'export GRUB_CMDLINE_LINUX_DEFAULT+=""\n',
        ),
        (
            'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX\n vfio-pci.ids=10de:2230\n quiet"\n',
            'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX\n\n quiet"\n',
        ),
        ("GRUB_CMDLINE_LINUX=a#b\\ vfio-pci.ids=10de:2230\n", "GRUB_CMDLINE_LINUX=a#b\n"),
        ('GRUB_CMDLINE_XEN="vfio-pci.ids=10de:2230"\n', 'GRUB_CMDLINE_XEN="vfio-pci.ids=10de:2230"\n'),
        ('GRUB_CMDLINE_LINUX="a \\" vfio-pci.ids=10de:2230"\n', 'GRUB_CMDLINE_LINUX="a \\""\n'),
    ],
)
def test_grub_s_files_are_read_as_a_shell_reads_them(text: str, left: str) -> None:
    assert cmdline.clean("/etc/default/grub.d/x.cfg", text, A6000) == left


def test_a_blacklist_on_the_command_line_stays_while_another_gpu_is_kept_unless_the_kernel_obeys_it() -> None:
    assert (
        cmdline.clean("/etc/kernel/cmdline", "modprobe.blacklist=nvidia\n", KEEPING)
        == "modprobe.blacklist=nvidia\n"
    )
    assert cmdline.clean("/etc/kernel/cmdline", "module_blacklist=nvidia\n", KEEPING) == "\n"


def test_a_file_of_driverctl_goes_when_it_binds_the_gpu_and_stays_for_another() -> None:
    path = "/etc/driverctl.d/pci-0000:42:00.0"
    (holder,) = driverctl.find(path, "vfio-pci\n")
    assert (holder.holds(GPU), holder.holds(AUDIO), holder.instead) == (True, False, None)
    assert driverctl.clean(path, "vfio-pci\n", A6000) is None
    assert driverctl.clean(path.replace("42", "61"), "vfio-pci\n", A6000) == "vfio-pci\n"
    assert driverctl.find(path, "nvidia\n") == ()
    assert driverctl.find("/etc/driverctl.d/README", "vfio-pci\n") == ()


def test_a_script_of_the_initramfs_concerns_the_addresses_it_names_or_all() -> None:
    path = "/etc/initramfs-tools/scripts/init-top/vfio"
    loop = "#!/bin/sh\nfor dev in {}; do\n  echo vfio-pci > /sys/bus/pci/devices/$dev/driver_override\ndone\n"
    (named,) = foreign.script(path, loop.format("0000:61:00.0 0000:61:00.1"))
    assert (named.line, named.holds(TWIN), named.holds(GPU)) == (3, True, False)
    (all_of_them,) = foreign.script(path, loop.format("$(lspci -Dd 10de:)"))
    assert all_of_them.holds(GPU)
    assert foreign.script(path, "#!/bin/sh\n# driver_override is written elsewhere\nexit 0\n") == ()
