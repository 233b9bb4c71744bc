"""modprobe.d as kmod, the shell of an install line and the kernel read it; ids as the kernel's sscanf does."""

from __future__ import annotations

import pytest

from provision.host.release import lists, modprobe
from provision.host.release.target import Target, id_takes, modalias_takes, nothing
from tests.unit.holders.test_families import AUDIO, GPU, TARGET, TWIN

PATH = "/etc/modprobe.d/x.conf"
AFTER = "blacklist nouveau\n"


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ('options vfio-pci "ids=10de:2230"', ""),
        ('options vfio-pci "ids=10de:2230,10de:2204"', 'options vfio-pci "ids=10de:2204"\n'),
        ('options vfio-pci ids="10de:2204,10de:2230"', 'options vfio-pci ids="10de:2204"\n'),
        (r"options vfio-pci ids\=10de:2230", ""),
        ("options vfio-pci ids=10de:2230;x", ""),
        ("options vfio-pci ids=0x10de:0x2230", ""),
        ("options vfio-pci ids=10de:2230:ffffffff:ffffffff:030000:ff0000", ""),
        ("\toptions\tvfio_pci\tids=10DE:2230", ""),
    ],
)
def test_ids_that_the_kernel_takes(line: str, left: str) -> None:
    text = f"{line}\n{AFTER}"
    assert [holder.holds(GPU) for holder in modprobe.find(PATH, text)] == [True]
    assert modprobe.clean(text, TARGET) == f"# kpro: {line}\n{left}{AFTER}"


@pytest.mark.parametrize(
    "line",
    [
        "options vfio-pci ids='10de:2230'",
        "options vfio-pci ids = 10de:2230",
        "options vfio-pci ids=0000:42:00.0",
        "options vfio-pci ids=42:00.0",
        "options vfio-pci ids=10de2230",
        "options vfio-pci ids=",
        "options\u00a0vfio-pci ids=10de:2230",
        "options vfio-pci ids=10de:2230:ffffffff:ffffffff:040300:ffff00",
    ],
)
def test_ids_that_take_no_gpu(line: str) -> None:
    assert not any(holder.holds(GPU) for holder in modprobe.find(PATH, f"{line}\n"))


def test_two_backslashes_are_one_and_join_nothing() -> None:
    text = "blacklist a \\\\\noptions vfio-pci ids=10de:2230\n# c \\\noptions vfio-pci ids=10de:2230\n"
    (holder,) = modprobe.find(PATH, text)
    assert holder.line == 2


@pytest.mark.parametrize(
    "command",
    [
        "/bin/false",
        '"/bin/false"',
        "/bin/true # see the wiki: modprobe nvidia",
        "/bin/sh -c 'echo no; exit 1'",
        "/bin/false && /sbin/modprobe -i nvidia",
        "/bin/true || /sbin/modprobe -i nvidia",
        "exit 0; /sbin/modprobe -i nvidia",
        "{ /bin/false; }",
        "/usr/bin/logger blocked",
        ":",
    ],
)
def test_an_install_line_that_never_loads_goes(command: str) -> None:
    text = f"install nvidia {command}\n"
    (holder,) = modprobe.find(PATH, text)
    assert holder.what == "keeps nvidia from being loaded at all"
    assert modprobe.clean(text, TARGET) == f"# kpro: {text}"


@pytest.mark.parametrize(
    "command",
    [
        "modprobe -i nvidia-current $CMDLINE_OPTS",
        "/bin/false; /sbin/modprobe -i nvidia",
        "/bin/true && /sbin/modprobe -i nvidia",
        "/bin/bash -c 'sleep 1; modprobe --ignore-install nvidia'",
        "/sbin/insmod /opt/nvidia.ko",
        "/bin/sh /opt/load.sh",
        "/usr/local/sbin/load",
    ],
)
def test_an_install_line_that_loads_stays(command: str) -> None:
    text = f"install nvidia {command}\n"
    assert modprobe.find(PATH, text) == ()
    assert modprobe.clean(text, TARGET) == text


@pytest.mark.parametrize(
    ("line", "goes"),
    [
        ("alias nvidia off", True),
        ("alias nvidia-uvm vfio-pci", True),
        ("alias pci:v000010DEd*sv*sd*bc03sc*i* off", True),
        ("alias pci:v000010DEd*sv*sd*bc03sc00i00* nvidia", False),
        ("alias nvidia nvidia-current", False),
        ("alias nouveau off", False),
        ("install nouveau /sbin/modprobe vfio-pci; /sbin/modprobe -i nouveau", True),
        ("install snd_hda_intel modprobe vfio-pci; modprobe --ignore-install snd_hda_intel", True),
        ("install snd_hda_intel modprobe --ignore-install snd_hda_intel", False),
    ],
)
def test_what_keeps_the_driver_away_and_what_only_looks_so(line: str, goes: bool) -> None:
    assert modprobe.clean(f"{line}\n", TARGET) == (f"# kpro: {line}\n" if goes else f"{line}\n")
    assert [holder.holds is nothing for holder in modprobe.find(PATH, f"{line}\n")] == [True] * goes


def test_an_alias_that_turns_nouveau_off_keeps_it_away() -> None:
    assert modprobe.keeps_away("nouveau", "alias nouveau off\n")
    assert not modprobe.keeps_away("nouveau", "alias nouveau nouveau2\n")


def test_an_order_of_sound_stays_where_other_devices_need_it() -> None:
    line = "install snd_hda_intel modprobe vfio-pci; modprobe -i snd_hda_intel\n"
    assert modprobe.clean(line, Target((GPU, AUDIO), others=True)) == line


def test_a_list_of_modules_takes_quotes_too() -> None:
    (holder,) = lists.find("/etc/initramfs-tools/modules", 'vfio-pci "ids=10de:2230,10de:1aef"\n')
    assert (holder.holds(GPU), holder.holds(AUDIO), holder.holds(TWIN)) == (True, True, True)


def test_a_class_narrows_an_id() -> None:
    sound = "10de:ffffffff:ffffffff:ffffffff:040300:ffff00"
    assert [id_takes(sound, one) for one in (GPU, AUDIO)] == [False, True]
    # Without a mask a class means nothing.
    assert id_takes("10de:2230:ffffffff:ffffffff:040300", GPU)


@pytest.mark.parametrize(
    ("pattern", "gpu", "audio"),
    [
        ("pci:v000010DEd*sv*sd*bc03sc*i*", True, False),
        ("pci:v000010DEd*bc03*", True, False),
        ("pci:*bc04sc03*", False, True),
        ("pci:v000010DEd00002230sv000010DEsd00001459bc03sc00i00", True, False),
        ("pci:v00001002d*", False, False),
    ],
)
def test_a_modalias_may_name_the_class(pattern: str, gpu: bool, audio: bool) -> None:
    assert [modalias_takes(pattern, one) for one in (GPU, AUDIO)] == [gpu, audio]
