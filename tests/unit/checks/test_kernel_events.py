"""The kernel log in all its spellings: one event is the same however its line is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.bdf import Bdf
from checks.gpus import kernel_events, kernlog
from checks.gpus.kernel_events import Event, What

XID = "NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
HEADS = {
    "bare": "",
    "level": "<3>",
    "seconds": "[  900.123456] ",
    "caller": "[  900.123456] [  T1234] ",
    "date": "[Tue Mar  3 08:00:00 2026] ",
    "decoded": "kern  :warn  : 2026-03-03T08:00:00,285060+00:00 ",
    "decoded seconds": "kern  :err   : [  900.123456] ",
    "journal": "Mar 03 08:00:00 gpu7 kernel: ",
    "journal iso": "2026-03-03T08:00:00+0000 gpu7 kernel: ",
    "syslog with seconds": "Mar  3 08:00:00 gpu7 kernel: [  900.123456] ",
    "record": "4,3973,227996636,-;",
    "record with caller": "4,3973,227996636,-,caller=T88;",
}


def events(text: str) -> tuple[Event, ...]:
    return kernlog.read(text).events


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_an_xid_is_read_in_every_spelling_of_the_log(head: str) -> None:
    (event,) = events(f"{head}{XID}\n")
    assert (event.what, event.number, event.process) == (What.XID, 79, None)
    assert event.bdf == Bdf.parse("0000:41:00.0")


@pytest.mark.parametrize(
    "address", ["PCI:0000:41:00", "PCI:0000:41:00.0", "0000:41:00", "PCI:00000000:41:00"]
)
def test_every_spelling_of_an_address_is_the_same_gpu(address: str) -> None:
    (event,) = events(f"NVRM: Xid ({address}): 31, pid=7, name=python3, Ch 00000008")
    assert event.bdf == Bdf.parse("0000:41:00.0")
    assert event.process == "python3"


def test_a_domain_is_part_of_the_address() -> None:
    (event,) = events("NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2)")
    assert event.bdf == Bdf.parse("0018:01:00.0")
    assert event.fatal is False


@pytest.mark.parametrize(
    "text",
    [
        "[   10.5] NVRM: The NVIDIA GPU 0000:b3:00.0\n      NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "      NVRM: fallen off the bus and is not responding to commands.\n",
        r"[   10.5] NVRM: The NVIDIA GPU 0000:b3:00.0\n     NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        r"     NVRM: fallen off the bus and is not responding to commands.",
        r"4,1,10500000,-;NVRM: The NVIDIA GPU 0000:b3:00.0\x0aNVRM: (PCI ID: 10de:26b5) installed in this system has"
        r"\x0aNVRM: fallen off the bus and is not responding to commands.",
        "NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:26b5)\nNVRM: installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands.\n",
    ],
    ids=["dmesg", "written break", "record", "untimed"],
)
def test_a_gpu_off_the_bus_is_seen_without_a_number_and_over_three_lines(text: str) -> None:
    assert [(e.what, e.bdf) for e in events(text)] == [(What.FALLEN, Bdf.parse("0000:b3:00.0"))]


def test_what_continues_a_record_of_kmsg_is_no_message() -> None:
    text = "4,9,70,-;nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n SUBSYSTEM=pci\n"
    assert kernlog.read(text).lines == (
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    )


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: gpuClearFbhubPoisonIntrForBug2924523_GA100: FBHUB Interrupt detected. Clearing it.",
        "NVRM: Persistence mode is deprecated and will be removed in a future release.",
        "mlx5_core 0000:9c:00.0: 252 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at 0000:97:01.0",
        "nvidia: loading out-of-tree module taints kernel.",
        "python3[77]: segfault at 0 ip 0 sp 0 error 4 in libc.so.6[7f00+1000]",
        "NVRM: GPU at PCI:0000:00:06: GPU-11111111-2222-3333-4444-555555555555",
    ],
)
def test_what_is_normal_is_no_event(line: str) -> None:
    assert events(f"[    1.0] {line}\n") == ()


def test_fabric_manager_s_errors_are_events_of_their_switch() -> None:
    line = "[Mar 03 2026 09:00:01] [ERROR] [tid 9] detected NVSwitch {} error 12028 on fid 0 on NVSwitch pci bus id "
    line += "00000000:86:00.0 physical id 3 port 61"
    mild, bad = events(line.format("non-fatal")), events(line.format("fatal"))
    assert [(e.what, e.number, e.fatal, str(e.bdf)) for e in (*mild, *bad)] == [
        (What.SXID, 12028, False, "0000:86:00.0"),
        (What.SXID, 12028, True, "0000:86:00.0"),
    ]


def test_a_storm_does_not_push_an_older_error_out_of_a_record() -> None:
    storm = [f"[{n:5}.0] NVRM: Xid (PCI:0000:10:00): 13, pid=1, name=python, Ch {n}" for n in range(4000)]
    text = "\n".join(["[    0.5] NVRM: Xid (PCI:0000:11:00): 79, GPU has fallen off the bus.", *storm])
    section = kernlog.look(lambda: text)
    kept = kernlog.parse(section).events
    assert {event.number for event in kept} == {13, 79}
    assert len(kept) <= kernlog.LINES_KEPT + kernlog.EVENTS_KEPT


def test_older_events_keep_their_order_around_a_reload() -> None:
    load = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.90.07"
    old = "NVRM: Xid (PCI:0000:11:00): 119, Timeout"
    noise = [f"NVRM: line {n}" for n in range(1000)]
    kept = kernlog.parse(kernlog.look(lambda: "\n".join([old, load, *noise]))).events
    assert [event.what for event in kept] == [What.XID, What.LOAD]


@given(st.text(max_size=400))
def test_no_text_makes_the_reader_stumble(text: str) -> None:
    kernlog.read(text)
    kernel_events.is_kernel_log(text)


@given(
    st.lists(
        st.sampled_from([*HEADS.values(), XID, "NVRM: ", "\n", "\\n", "(PCI ID: 10de:1)", "0000:41:00.0 "])
    )
)
def test_no_mixture_of_pieces_makes_the_reader_stumble(pieces: list[str]) -> None:
    kernlog.read("".join(pieces))
