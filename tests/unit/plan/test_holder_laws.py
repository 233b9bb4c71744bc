"""Laws of cleaning, for any file: only what concerns the GPUs changes, and once is as good as twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from checks.bdf import Bdf
from provision.host.release import cmdline, lists, modprobe, udev
from provision.host.release.target import Holder, Target
from provision.host.view import PciFunction

GPU = PciFunction(Bdf.parse("42:00.0"), "0x2230", "0x030000", "vfio-pci", "25", None)
AUDIO = PciFunction(Bdf.parse("42:00.1"), "0x1aef", "0x040300", "vfio-pci", "25", None)
TARGETS = (Target((GPU, AUDIO)), Target((GPU, AUDIO), keeping=True), Target((GPU,)))

Clean = Callable[[str, Target], str]
Find = Callable[[str], tuple[Holder, ...]]

OURS = ("10de:2230", "10de:1aef", "10DE:2230", "10de:2230:10de:1459")
FOREIGN = ("10de:2204", "1002:73bf", "8086:2230", "10de:1ae", "10de", "x", "", "10de:22300")
IDS = st.lists(st.sampled_from(OURS + FOREIGN), max_size=5).map(",".join)
ADDRESSES = st.lists(
    st.sampled_from(["0000:42:00.0", "0000:42:00.1", "0000:61:00.0", "0000:42:00.?", "0000:6*", "42:00.0"]),
    min_size=1,
    max_size=3,
).map("|".join)
NAMES = st.sampled_from(
    ["vfio-pci", "vfio_pci", "vifo-pci", "pci-stub", "nvidia", "nvidia_drm", "nouveau", "nvidiafb", "loop"]
)
BLANK = st.sampled_from([" ", "\t", "  "])
JUNK = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=30
)


def _words(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(BLANK, *parts).map(lambda found: found[0].join(part for part in found[1:] if part))


MODPROBE = st.one_of(
    JUNK,
    _words(
        st.just("options"),
        NAMES,
        st.sampled_from(["", "disable_vga=1"]),
        IDS.map("ids={}".format),
        st.sampled_from(["", "a=b"]),
    ),
    _words(
        st.just("softdep"),
        NAMES,
        st.sampled_from(["pre:", "post:"]),
        NAMES,
        st.sampled_from(["", "post: loop"]),
    ),
    _words(st.just("blacklist"), NAMES),
    _words(
        st.just("install"), NAMES, st.sampled_from(["/bin/false", "modprobe -i nvidia-current", "/bin/true"])
    ),
    JUNK.map("# {}".format),
)
LISTS = st.one_of(JUNK, NAMES, _words(NAMES, IDS.map("ids={}".format)), JUNK.map("# {}".format))
RULES = st.one_of(
    JUNK,
    st.tuples(ADDRESSES, st.sampled_from(["==", "!="]), st.sampled_from(["vfio-pci", "nvidia"])).map(
        lambda found: f'SUBSYSTEM=="pci", KERNEL{found[1]}"{found[0]}", ATTR{{driver_override}}="{found[2]}"'
    ),
    st.sampled_from(["0x2230", "0x2204", "0x22*"]).map(
        lambda device: f'ATTR{{vendor}}=="0x10de", ATTR{{device}}=="{device}", RUN+="/sbin/vfio-bind %k"'
    ),
    JUNK.map("# {}".format),
)
PARAMETERS = st.one_of(
    st.sampled_from(
        [
            "quiet",
            "iommu=pt",
            "vifo-pci.ids=10de:2230",
            "modprobe.blacklist=nouveau,nvidia",
            "module_blacklist=nvidia",
        ]
    ),
    st.tuples(st.sampled_from(["vfio-pci.ids=", "vfio_pci.ids=", "pci-stub.ids=", "x.ids="]), IDS).map(
        "".join
    ),
)
LINE = st.lists(PARAMETERS, max_size=6).map(" ".join)

FORMATS: dict[str, tuple[st.SearchStrategy[str], Clean, Find]] = {
    "modprobe": (MODPROBE, modprobe.clean, lambda text: modprobe.find("/x", text)),
    "lists": (LISTS, lists.clean, lambda text: lists.find("/x", text)),
    "udev": (RULES, udev.clean, lambda text: udev.find("/x", text)),
    "cmdline": (
        LINE,
        lambda text, target: cmdline.clean("/etc/kernel/cmdline", text, target),
        lambda text: cmdline.find("/etc/kernel/cmdline", text),
    ),
    "grub": (
        LINE.map('GRUB_CMDLINE_LINUX="{}"'.format)
        | JUNK.map("# {}".format)
        | LINE.map("#GRUB_CMDLINE_LINUX='{}'".format),
        lambda text, target: cmdline.clean("/etc/default/grub", text, target),
        lambda text: cmdline.find("/etc/default/grub", text),
    ),
}

# Most drawn lines are about the GPUs; on a busy machine the few others take their time.
patient = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
every_format = pytest.mark.parametrize("name", FORMATS)


@every_format
@patient
@given(data=st.data())
def test_cleaning_twice_is_cleaning_once(name: str, data: st.DataObject) -> None:
    lines, clean, _ = FORMATS[name]
    text = "\n".join(data.draw(st.lists(lines, max_size=6)))
    target = data.draw(st.sampled_from(TARGETS))
    once = clean(text, target)
    assert clean(once, target) == once


@every_format
@patient
@given(data=st.data())
def test_nothing_that_binds_the_gpus_is_left(name: str, data: st.DataObject) -> None:
    lines, clean, find = FORMATS[name]
    text = "\n".join(data.draw(st.lists(lines, max_size=6)))
    target = data.draw(st.sampled_from(TARGETS))
    left = [holder for holder in find(clean(text, target)) if holder.instead is None]
    assert not [holder for holder in left for function in target.functions if holder.holds(function)]


@every_format
@patient
@given(data=st.data())
def test_a_line_is_cleaned_by_what_it_says_itself_and_the_others_stay(name: str, data: st.DataObject) -> None:
    lines, clean, _ = FORMATS[name]
    parts = data.draw(st.lists(lines, max_size=6))
    assume(not any(part.endswith("\\") for part in parts))
    target = data.draw(st.sampled_from(TARGETS))
    whole = "".join(f"{part}\n" for part in parts)
    assert clean(whole, target) == "".join(clean(f"{part}\n", target) for part in parts)


@every_format
@patient
@given(data=st.data())
def test_a_line_without_our_ids_addresses_or_driver_is_never_changed(name: str, data: st.DataObject) -> None:
    lines, clean, _ = FORMATS[name]
    line = data.draw(lines)
    words = ("10de:2230", "10de:1aef", "0000:42", "*", "?", "0x2230", "nvidia", "nouveau", "vfio-bind", "!=")
    assume(not any(word in line.lower() for word in words))
    assert clean(line, TARGETS[0]) == line
    assert clean(f"{line}\n", TARGETS[0]) == f"{line}\n"


@every_format
@patient
@given(data=st.data())
def test_any_bytes_come_through(name: str, data: st.DataObject) -> None:
    raw = data.draw(st.binary(max_size=60))
    _, clean, find = FORMATS[name]
    text = raw.decode(errors="surrogateescape")
    find(text)
    assume(not any(word in text for word in ("vfio", "nvidia", "nouveau")))
    assert clean(text, TARGETS[0]).encode(errors="surrogateescape") == raw
