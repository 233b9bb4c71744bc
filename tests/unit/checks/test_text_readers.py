"""Readers of saved texts: values to keys of a dump, and nothing but BadInput for what is no such text."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.errors import BadInput
from checks.gpus import report, texts
from checks.gpus.texts import lspci, smi_query, together
from checks.record import Record

SAVED = sorted((Path(__file__).parents[2] / "replay/gpus/texts").glob("*.txt"))


def device(text: str, index: int = 0) -> dict[str, object]:
    return dict(smi_query.read(text).devices[index])


def test_margins_of_newer_drivers_become_limits() -> None:
    text = (
        "    Temperature\n        GPU Current Temp : 36 C\n        GPU T.Limit Temp : 51 C\n"
        "        GPU Shutdown T.Limit Temp : -8 C\n        GPU Slowdown T.Limit Temp : -2 C\n"
        "        GPU Max Operating T.Limit Temp : 0 C\n"
    )
    found = device(text)
    assert {key: found[key] for key in ("tthr_shutdown", "tthr_slowdown", "tthr_gpu_max")} == {
        "tthr_shutdown": 95,
        "tthr_slowdown": 89,
        "tthr_gpu_max": 87,
    }


@pytest.mark.parametrize(
    ("said", "code"),
    [("N/A", 3), ("[N/A]", 3), ("Unknown Error", 999), ("GPU is lost", 15), ("[GPU requires reset]", 16)],
)
def test_what_stands_in_place_of_a_value_is_an_error_and_no_zero(said: str, code: int) -> None:
    text = f"  ECC Mode\n    Current : {said}\n    Pending : {said}\n  Temperature\n    GPU Current Temp : {said}\n"
    found = device(text)
    for key in ("nvmlDeviceGetEccMode", "temp"):
        value = found[key]
        assert isinstance(value, dict)
        assert value["err"] == code


def test_a_value_that_is_not_shown_makes_no_key() -> None:
    found = device("    ECC Mode\n        Current : Enabled\n        Pending : Enabled\n")
    assert found == {"nvmlDeviceGetEccMode": [1, 1]}


def test_uncorrected_errors_of_old_and_new_forms_are_summed() -> None:
    new = (
        "ECC Errors\n  Volatile\n    SRAM Uncorrectable Parity : 1\n    SRAM Uncorrectable SEC-DED : 2\n"
        "    DRAM Uncorrectable : 4\n"
    )
    old = "ECC Errors\n  Volatile\n    Double Bit\n      Device Memory : 7\n      Total : 7\n"
    assert device(new)["ecc_unc_vol"] == 7
    assert device(old)["ecc_unc_vol"] == 7


def test_the_mask_of_the_fabric_is_the_driver_s_own() -> None:
    text = (
        "Fabric\n  State : Completed\n  Status : Success\n  Health\n    Summary : Healthy\n    Bandwidth : Full\n"
        "    Route Recovery in progress : False\n    Route Unhealthy : False\n    Access Timeout Recovery : False\n"
        "    Incorrect Configuration : None\n"
    )
    fabric = device(text)["fabricV"]
    assert isinstance(fabric, dict)
    assert fabric["healthMask"] == 0x1AA


def test_a_bridge_s_way_is_told_by_its_buses() -> None:
    text = (
        "00:01.0 PCI bridge: X (prog-if 00 [Normal decode])\n\tBus: primary=00, secondary=01, subordinate=03\n"
        "01:00.0 PCI bridge: X\n\tBus: primary=01, secondary=02, subordinate=02\n\t\tACSCtl:\tReqRedir+ CmpltRedir-\n"
        "0001:00:01.0 PCI bridge: X\n\tBus: primary=00, secondary=02, subordinate=02\n\t\tACSCtl:\tReqRedir+\n"
        "02:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n"
    )
    sections = {(s.kind, s.path): s.data for s in lspci.read(text).sections}
    at = "/sys/bus/pci/devices/0000:"
    assert sections["path", f"{at}02:00.0"] == b"0000:00:01.0 0000:01:00.0 0000:02:00.0"
    assert sections["acs", f"{at}01:00.0"] == b"control 0x0004\n"
    assert sections["acs", f"{at}00:01.0"] == b"none\n"
    assert not [
        path
        for _, path in sections
        if path.startswith("/sys/bus/pci/devices/0001") and ("acs", path) in sections
    ]


def test_capabilities_that_lspci_could_not_read_are_no_absence() -> None:
    text = (
        "00:01.0 PCI bridge: X\n\tBus: primary=00, secondary=02, subordinate=02\n\tCapabilities: <access denied>\n"
        "02:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n"
    )
    (section,) = [s for s in lspci.read(text).sections if s.kind == "acs"]
    assert section.data is None
    assert section.error


def refuse_or_judge(raw: bytes, name: str = "saved") -> None:
    with suppress(BadInput):
        record = texts.read(raw, name)
        report.judge_record(record, None, replayed=True, name=name)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_bytes_lead_to_anything_but_a_report_or_a_refusal(raw: bytes) -> None:
    refuse_or_judge(raw)
    refuse_or_judge(b"\x1f\x8b" + raw)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_no_damage_to_a_real_form_leads_to_anything_else(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(SAVED)).read_text().splitlines()
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, max(len(lines) - 1, 0)))
        act = data.draw(st.sampled_from(["cut", "drop", "twice", "swap", "number", "word"]))
        if not lines:
            break
        if act == "drop":
            del lines[at]
        elif act == "twice":
            lines.insert(at, lines[at])
        elif act == "swap":
            lines[at] = lines[data.draw(st.integers(0, len(lines) - 1))]
        elif act == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        elif act == "number":
            number = data.draw(
                st.sampled_from(["-1", "99999999999999999999999", "1e99", "x", "", "0x10", "٣"])
            )
            lines[at] = "".join(number if c.isdigit() else c for c in lines[at])
        else:
            word = data.draw(st.text(max_size=12))
            lines[at] = f"{lines[at].split(':')[0]}: {word}"
    refuse_or_judge("\n".join(lines).encode(errors="replace"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(SAVED), min_size=2, max_size=4))
def test_any_texts_go_together(paths: list[Path]) -> None:
    whole = together.join([texts.read(path.read_bytes(), path.name) for path in paths])
    assert isinstance(whole, Record)
    with suppress(BadInput):
        report.judge_record(whole, None, replayed=True, name="several")


def test_the_order_of_texts_does_not_change_what_is_found() -> None:
    names = ("smi_q_sick.txt", "dmesg_ecc.txt", "smi_q_fabric_well.txt")
    parts = [texts.read((SAVED[0].parent / name).read_bytes(), name) for name in names]
    reports = [
        report.judge_record(together.join(order), None, replayed=True, name="several").findings
        for order in (parts, parts[::-1])
    ]
    first, second = ({(f.id, f.subject, f.status) for f in found} for found in reports)
    assert first == second


def at(bus: str, width: int) -> dict[str, object]:
    return {"nvmlDeviceGetPciInfo": {"busId": bus}, "nvmlDeviceGetCurrPcieLinkWidth": width}


def test_a_gpu_is_the_same_in_two_texts_by_its_address_and_not_by_its_place() -> None:
    """lspci lists a card that NVML does not, so places differ."""
    one = {"nvmlInit": None, "devices": [{"nvmlDeviceGetPciInfo": {"busId": "02:00.0"}, "temp": 40}]}
    bus = {"nvmlInit": None, "devices": [at("01:00.0", 4), at("02:00.0", 16)]}
    whole = together.join([Record(nvml=one), Record(nvml=bus, covers=frozenset())])
    assert whole.nvml is not None
    assert whole.nvml["devices"] == [{**at("02:00.0", 16), "temp": 40}, at("01:00.0", 4)]


def test_what_two_texts_show_is_told_of_the_place_where_the_gpu_went() -> None:
    query = b"GPU 00000000:02:00.0\n    Compute Mode : Default\n    PCI\n        Bus Id : 00000000:02:00.0\n"
    bus = "".join(
        f"### /sys/bus/pci/devices/0000:0{n}:00.0\nvendor: 0x10de\nclass: 0x030000\ncurrent_link_width: {width}\n"
        "max_link_width: 16\n"
        for n, width in ((1, 4), (2, 16))
    )
    parts = [texts.read(query, "query"), texts.read(bus.encode(), "bus")]
    found = report.judge_record(together.join(parts), None, replayed=True, name="both").findings
    widths = {f.subject: f.status.value for f in found if f.id == "gpu.pcie_width"}
    assert widths["gpu0"] == "pass"
    assert widths["gpu1"] != "pass"
