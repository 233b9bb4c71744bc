"""Spellings of the same thing, from the definitions of the formats: each is found, and cleaned of the GPU alone."""

from __future__ import annotations

import pytest

from checks.bdf import Bdf
from provision.host.release import cmdline, lists, udev
from provision.host.release.remarks import misspelt
from provision.host.release.target import Target
from provision.host.view import PciFunction

GPU = PciFunction(Bdf.parse("42:00.0"), "0x2230", "0x030000", "vfio-pci", "25", None)
AUDIO = PciFunction(Bdf.parse("42:00.1"), "0x1aef", "0x040300", "vfio-pci", "25", None)
TWIN = PciFunction(Bdf.parse("61:00.0"), "0x2230", "0x030000", "vfio-pci", "10", None)
TARGET = Target((GPU, AUDIO))
GRUB = "/etc/default/grub"
D = "GRUB_CMDLINE_LINUX_DEFAULT"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f'{D}="${D} vfio-pci.ids=10de:2230"', f'{D}="${D}"'),
        (f"{D}=\"${{{D}}} vfio-pci.ids=10de:2230,10de:2204 quiet\"", f"{D}=\"${{{D}}} vfio-pci.ids=10de:2204 quiet\""),
        (f"{D}=${D}' vfio-pci.ids=10de:2230'", f"{D}=${D}''"),
        (f"{D}='a vfio-pci.ids=10de:2230 b'", f"{D}='a b'"),
        (f'{D}+=" vfio-pci.ids=10de:2230"', f'{D}+=""'),
        (f'{D}="quiet" ; {D}="vfio-pci.ids=10de:1aef"', f'{D}="quiet" ; {D}=""'),
        (f'if true; then {D}="a vfio-pci.ids=10de:2230"; fi', f'if true; then {D}="a"; fi'),
        (f'[ -e /x ] && {D}="vfio-pci.ids=10de:2230 a"', f'[ -e /x ] && {D}="a"'),
        (f'\texport\t{D}="a vfio_pci.ids=10DE:2230"', f'\texport\t{D}="a"'),
        (f'{D}="a \\\n vfio-pci.ids=10de:2230"', f'{D}="a \\\n"'),
        (f'{D}="a vfio-pci.ids=10de:2230,\\\n10de:1aef b"', f'{D}="a\\\n b"'),
        (f"{D}='vfio-pci.ids=\"10de:2230,10de:1aef\" a'", f"{D}='a'"),
        (f'{D}="vfio-pci.ids=\\"10de:2230,10de:2204\\" a"', f'{D}="vfio-pci.ids=\\"10de:2204\\" a"'),
        (f'{D}=a" vfio-pci.ids=10de:2230 "b', f'{D}=a" "b'),
        (f'{D}=vfio-pci.ids="10de:2230"', f'{D}=""'),
        (f'{D}=a\\ vfio-pci.ids=10de:2230\\ b', f"{D}=a\\ b"),
        (f'{D}="vfio-pci.ids=10de:2230,"', f'{D}=""'),
        (f'{D}="vfio-pci.ids=,10de:2204,10de:2230"', f'{D}="vfio-pci.ids=10de:2204"'),
        ('V="vfio-pci.ids=10de:2230"', 'V=""'),
        (f'{D}="a vfio-pci.ids=10de:2230" # why', f'{D}="a" # why'),
        (f'{D}="a vfio-pci.ids=10de:2230"\r', f'{D}="a"\r'),
        (f'{D}="rd.driver.pre=vfio-pci modprobe.blacklist=nouveau,nvidia_drm"', f'{D}="modprobe.blacklist=nouveau"'),
        (f'{D}="pci-stub.ids=10de:1aef pci_stub.ids=10de:2230"', f'{D}=""'),
    ],
)  # fmt: skip
def test_grub_s_assignments(text: str, left: str) -> None:
    assert cmdline.find(GRUB, f"{text}\n")
    assert cmdline.clean(GRUB, f"{text}\n", TARGET) == f"{left}\n"


@pytest.mark.parametrize(
    "text",
    [
        f'#{D}="vfio-pci.ids=10de:2230"',
        f'{D}="quiet" # vfio-pci.ids=10de:2230',
        f'{D}="vfio-pci.ids=10de:2204"',
        f'{D}="vifo-pci.ids=10de:2230"',
        f'{D}="vfio-pci ids=10de:2230"',
        f'{D}="VFIO-PCI.ids=10de:2230"',
        f'{D}="xvfio-pci.ids=10de:2230"',
        f'{D}="modprobe.blacklist=nouveau,nvidiafb"',
        "GRUB_DISTRIBUTOR=`( . /etc/os-release && echo ${NAME} )`",
        f"{D}='it'\"'\"'s'",
    ],
)
def test_grub_s_lines_that_hold_nothing_of_ours(text: str) -> None:
    assert not any(holder.holds(GPU) for holder in cmdline.find(GRUB, f"{text}\n"))
    assert cmdline.clean(GRUB, f"{text}\n", TARGET) == f"{text}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{D}=$(echo quiet vfio-pci.ids=10de:2230)",
        f'set_default "{D}" vfio-pci.ids=10de:2230',
        f'{D}="a" vfio-pci.ids=10de:2230',
    ],
)
def test_what_stands_in_no_assignment_is_left_to_the_operator(text: str) -> None:
    (holder,) = cmdline.find(GRUB, f"# x\n{text}\n")
    assert (holder.line, holder.holds(GPU)) == (2, True)
    assert holder.instead == f"take {holder.text} out of {GRUB}:2"
    assert cmdline.clean(GRUB, f"{text}\n", TARGET) == f"{text}\n"


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("vfio-pci.ids=10de:2230 root=x\n", "root=x\n"),
        ("root=x vfio-pci.ids=10de:2230\n", "root=x\n"),
        ("root=x  vfio-pci.ids=10de:2230", "root=x "),
        ('root=x vfio-pci.ids="10de:2230,10de:1aef" a="b c"\n', 'root=x a="b c"\n'),
        ("vfio-pci.ids=10de:2230\n", "\n"),
        ("vfio-pci.ids=10de:2230 vfio-pci.ids=10de:1aef a\n", "a\n"),
    ],
)
def test_the_one_line_of_systemd_boot(line: str, left: str) -> None:
    assert cmdline.clean("/etc/kernel/cmdline", line, TARGET) == left


RULE = 'SUBSYSTEM=="pci", KERNEL=="0000:42:00.0", ATTR{driver_override}="vfio-pci"'


@pytest.mark.parametrize(
    "rule",
    [
        RULE,
        RULE.replace("==", " == ").replace('}="', '} = "'),
        RULE.replace(", ", ",\\\n   "),
        RULE.replace(", ", ", \\\n# a comment within\n"),
        RULE.replace(", ", ",\\\r\n"),
        RULE.replace('"0000:42:00.0"', 'e"0000:42:00.0"'),
        RULE.replace("42:00.0", "42:00.?"),
        RULE.replace("42:00.0", "42:00.[01]"),
        RULE.replace("0000:42:00.0", "0000:41:00.0|0000:42:00.0"),
        RULE.replace('}="', '}:="'),
        RULE.replace("KERNEL", "KERNELS"),
        'ENV{PCI_SLOT_NAME}=="0000:42:00.0", ATTR{driver_override}="vfio-pci"',
        'ENV{MODALIAS}=="pci:v000010DEd00002230sv*", ATTR{driver_override}="vfio-pci"',
        'ATTR{vendor}=="0x10de", ATTR{class}=="0x0300*", ATTR{driver_override}="vfio-pci"',
        'ENV{PCI_ID}=="10DE:2230", RUN+="/usr/local/bin/vfio-pci-bind.sh %k"',
        'KERNEL=="0000:42:00.0", PROGRAM=="/sbin/vfio-bind %k"',
        'KERNEL=="0000:42:00.0", RUN{program}+="/bin/sh -c \'echo vfio-pci > /sys$devpath/driver_override\'"',
        'KERNEL=="0000:42:00.0", ATTR{[drivers/vfio-pci]new_id}="10de 2230"',
    ],
)
def test_udev_rules_that_hold_the_gpu(rule: str) -> None:
    (holder,) = [one for one in udev.find("/x", f"{rule}\n") if one.holds(GPU)]
    assert holder.line == 1
    left = udev.clean(f"A=1\n{rule}\nB=2\n", TARGET)
    assert left.startswith("A=1\n# kpro: ")
    assert left.endswith("\nB=2\n")
    assert not [one for one in udev.find("/x", left) if one.holds(GPU)]


@pytest.mark.parametrize(
    "rule",
    [
        f"# {RULE}",
        f"#\\\n# {RULE}",
        RULE.replace("0000:42", "0000:61"),
        RULE.replace("0000:42", "0000:C2"),
        RULE.replace("vfio-pci", "nvidia"),
        RULE.replace('}="vfio-pci"', '}=""'),
        RULE.replace('}="', '}=="'),
        RULE.replace('KERNEL=="', 'KERNEL!="').replace("00.0", "00.*"),
        'ENV{MODALIAS}=="pci:v00001002d*", ATTR{driver_override}="vfio-pci"',
        'ATTR{vendor}=="0x1002", ATTR{driver_override}="vfio-pci"',
    ],
)
def test_udev_rules_that_hold_something_else_stay(rule: str) -> None:
    assert not [one for one in udev.find("/x", f"{rule}\n") if one.holds(GPU)]
    assert udev.clean(f"{rule}\n", TARGET) == f"{rule}\n"


def test_of_a_list_of_addresses_only_ours_go_and_a_label_stays() -> None:
    rule = 'KERNEL=="0000:61:00.0|0000:42:00.0", LABEL="end", ATTR{driver_override}="vfio-pci"\n'
    left = udev.clean(rule, TARGET)
    assert 'KERNEL=="0000:61:00.0", ' in left
    assert [one.holds(TWIN) for one in udev.find("/x", left)] == [True]
    alone = udev.clean('KERNEL=="0000:42:00.0", LABEL="end", ATTR{driver_override}="vfio-pci"\n', TARGET)
    assert alone.splitlines()[1:] == ['LABEL="end"']


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("vfio-pci ids=10de:2230  # the card", "vfio-pci  # the card"),
        ("\tvfio_pci\tids=10de:2230,1002:73bf\r", "\tvfio_pci\tids=1002:73bf\r"),
        ("vfio-pci # ids=10de:2230", None),
        ("; vfio-pci ids=10de:2230", None),
        ("vifio ids=10de:2230", None),
    ],
)
def test_lists_of_modules(line: str, left: str | None) -> None:
    assert lists.clean(f"{line}\n", TARGET) == (f"{line}\n" if left is None else f"# kpro: {line}\n{left}\n")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("vifo-pci", True),
        ("vifio", True),
        ("vfio_pic", True),
        ("vfoi-pci", True),
        ("vfio", False),
        ("vfio_pci", False),
        ("nvgrace_gpu_vfio_pci", False),
        ("video", False),
        ("virtio_pci", False),
        ("loop", False),
    ],
)
def test_a_typing_error_is_known_by_its_nearness(name: str, wrong: bool) -> None:
    assert misspelt(name) is wrong
