"""What holds for every dump, whatever is wrong with it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.errors import BadInput
from checks.model import Status, verdict_of
from tests.unit.checks.gpu_full import (
    HUNG,
    LOST,
    NOT_SUPPORTED,
    OTHER,
    Dump,
    Found,
    bad,
    board,
    judged,
    machine,
    of,
    volta,
)

NOT_JUDGED = {
    ("nvlink", "version"),
    ("nvlink", "remote"),
    ("nvlink", "remote_type"),
    ("nvmlDeviceGetArchitecture",),
}
"""What only helps another reading along."""


def places(device: Dump) -> Iterator[tuple[str, ...]]:
    """Where a value stands in a device: a getter, a field, or a key of one link."""
    for key, value in device.items():
        if key == "fields":
            yield from (("fields", name) for name in value)
        elif key == "nvlink":
            yield from (("nvlink", key) for key in value["3"])
        else:
            yield (key,)


def put(device: Dump, place: tuple[str, ...], error: Dump) -> None:
    if place[0] == "fields":
        device["fields"][place[1]] = {"ret": error["err"]}
    elif place[0] == "nvlink":
        device["nvlink"]["3"][place[1]] = error
    else:
        device[place[0]] = error


PLACES = sorted(set(places(board(0))) - NOT_JUDGED)


@pytest.mark.parametrize("error", [OTHER, LOST, HUNG], ids=["other", "lost", "hung"])
@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_a_value_that_became_an_error_never_ends_green(place: tuple[str, ...], error: Dump) -> None:
    data = machine(2)
    put(data["devices"][1], place, error)
    found = judged(data)
    assert verdict_of(found.values()) in (Status.FAIL, Status.UNKNOWN)
    hit = {subject for _, subject in bad(found)}
    assert hit <= {"gpu1", "pair 0-1"} | ({"host"} if error is HUNG else set()), (
        "the other GPU is judged as before"
    )


@pytest.mark.parametrize("key", ["topo", "read", "write", "nvlink", "atomics", "pci"])
def test_a_pair_whose_capability_is_an_error_is_unknown(key: str) -> None:
    data = machine(2)
    data["p2p"][0][key] = OTHER
    assert bad(judged(data)) == {("pcie.p2p", "pair 0-1"): "unknown"}


# what is wrong, the finding that must fail, the getters that it rests on
FAULTS: list[tuple[str, Dump, set[str]]] = [
    ("gpu.ecc", {"ecc_unc_vol": 4}, {"nvmlDeviceGetEccMode"}),
    ("gpu.ecc", {"mem_dram_unc_vol": 4}, {"nvmlDeviceGetEccMode"}),
    ("gpu.ecc", {"nvmlDeviceGetEccMode": [0, 0]}, {"nvmlDeviceGetName"}),
    ("gpu.row_remap", {"nvmlDeviceGetRemappedRows": [0, 3, 1, 0]}, set()),
    ("gpu.row_remap", {"nvmlDeviceGetRemappedRows": [0, 8, 0, 1]}, set()),
    ("gpu.retired_pages", {"nvmlDeviceGetRetiredPagesPendingStatus": 1}, set()),
    ("gpu.recovery", {"nvmlDeviceGetRepairStatus": [1, 0]}, set()),
    ("gpu.inforom", {"nvmlDeviceValidateInforom": {"err": 14, "msg": "corrupted"}}, set()),
    ("gpu.throttle", {"nvmlDeviceGetCurrentClocksEventReasons": 0x48}, set()),
    ("gpu.temperature", {"temp": 90}, {"tthr_slowdown"}),
    ("gpu.mig", {"nvmlDeviceGetMigMode": [1, 1]}, set()),
    ("gpu.compute_mode", {"nvmlDeviceGetComputeMode": 2}, set()),
    ("fabric.state", {"fabricV": {"state": 1, "status": 0}}, set()),
    (
        "nvlink.state",
        {"nvlink": {**machine(1)["devices"][0]["nvlink"], "3": {"state": 0}}},
        {"nvmlDeviceGetName"},
    ),
    (
        "gpu.pcie_width",
        {"nvmlDeviceGetCurrPcieLinkWidth": 8},
        {"nvmlDeviceGetMaxPcieLinkWidth", "nvmlDeviceGetName"},
    ),
]
COMPARED = {
    *(
        "gpu.vbios",
        "gpu.ecc",
        "gpu.pcie_width",
        "gpu.pcie_generation",
        "gpu.bar1",
        "gpu.memory",
        "gpu.clocks",
    ),
    *("gpu.identity", "nvlink.symmetry", "fabric.state"),
}
"""Checks that look at siblings, so that another GPU may change them."""


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(FAULTS), st.data())
def test_what_cannot_be_read_never_hides_what_can(
    fault: tuple[str, Dump, set[str]], draw: st.DataObject
) -> None:
    """Getters of the same GPU that fail or are missing leave a failure a failure."""
    identity, change, rests_on = fault
    data = machine(2)
    device = data["devices"][0]
    device.update(copy.deepcopy(change))
    others = sorted({place[0] for place in places(device)} - set(change) - rests_on)
    for key in draw.draw(st.lists(st.sampled_from(others), unique=True, max_size=8)):
        how = draw.draw(st.sampled_from(["gone", NOT_SUPPORTED, OTHER, HUNG]))
        if how == "gone":
            del device[key]
        else:
            device[key] = how
    assert judged(data)[identity, "gpu0"].status is Status.FAIL


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from([None, *FAULTS]), min_size=2, max_size=4), st.randoms())
def test_gpus_in_another_order_get_the_same_findings(
    faults: list[tuple[str, Dump, set[str]] | None], random: Any
) -> None:
    data = machine(len(faults))
    for device, fault in zip(data["devices"], faults, strict=True):
        device.update(copy.deepcopy(fault[1]) if fault else {})
    order = list(range(len(faults)))
    random.shuffle(order)
    moved = {**data, "devices": [data["devices"][old] for old in order]}
    before, after = judged(data), judged(moved)
    assert statuses(before, lambda old: old) == statuses(after, lambda new: order[new])


def statuses(found: Found, number: Any) -> dict[tuple[str, str], str]:
    def subject(name: str) -> str:
        if name.startswith("gpu"):
            return f"gpu{number(int(name[3:]))}"
        if name.startswith("pair"):
            return "pair " + "-".join(map(str, sorted(number(int(end)) for end in name[5:].split("-"))))
        return name

    return {(identity, subject(name)): finding.status.value for (identity, name), finding in found.items()}


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(FAULTS), st.integers(0, 2))
def test_one_gpu_s_fault_changes_nothing_for_the_others(fault: tuple[str, Dump, set[str]], at: int) -> None:
    well, sick = machine(3), machine(3)
    sick["devices"][at].update(copy.deepcopy(fault[1]))
    before, after = judged(well), judged(sick)
    changed = {key for key in before if before[key].status is not after[key].status}
    assert (fault[0], f"gpu{at}") in changed
    beside = {identity for identity, subject in changed if subject not in (f"gpu{at}",)}
    assert beside <= COMPARED | {"pcie.p2p"}
    assert all(
        after[key].status is not Status.FAIL
        for key in changed
        if key[1] != f"gpu{at}" and "pair" not in key[1]
    )


@settings(deadline=None, max_examples=80)
@given(st.sampled_from([board, volta]), st.data())
def test_a_getter_that_no_gpu_has_gives_no_new_green(kind: Any, draw: st.DataObject) -> None:
    """A record without some getters: each check says what it said, or unknown, or nothing at all."""
    data = of([kind(0), kind(1)])
    before = judged(data)
    keys = sorted(data["devices"][0])
    for key in draw.draw(st.lists(st.sampled_from(keys), unique=True, min_size=1, max_size=12)):
        for device in data["devices"]:
            del device[key]
    after = judged(data)
    assert set(after) <= set(before)
    for key, finding in after.items():
        if finding.status is Status.PASS:
            assert before[key].status is Status.PASS


@settings(deadline=None, max_examples=80)
@given(st.lists(st.sampled_from(FAULTS), min_size=2, max_size=5, unique_by=lambda fault: fault[0]))
def test_faults_together_are_all_told(faults: list[tuple[str, Dump, set[str]]]) -> None:
    data = machine(len(faults))
    for device, fault in zip(data["devices"], faults, strict=True):
        device.update(copy.deepcopy(fault[1]))
    found = judged(data)
    for number, fault in enumerate(faults):
        assert found[fault[0], f"gpu{number}"].status is Status.FAIL
        assert found[fault[0], f"gpu{number}"].fix


SOLE = {
    "gpu.vbios": ("nvmlDeviceGetVbiosVersion",),
    "gpu.retired_pages": ("nvmlDeviceGetRetiredPagesPendingStatus", "retired_dbe", "retired_sbe"),
    "gpu.inforom": ("nvmlDeviceValidateInforom",),
    "gpu.gsp": ("nvmlDeviceGetGspFirmwareVersion", "nvmlDeviceGetGspFirmwareMode"),
    "gpu.pcie_generation": ("nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    "gpu.pcie_replay": ("nvmlDeviceGetPcieReplayCounter", "fields"),
    "gpu.bar1": ("nvmlDeviceGetBAR1MemoryInfo",),
    "gpu.numa": ("nvmlDeviceGetCpuAffinity", "nvmlDeviceGetNumaNodeId"),
    "gpu.clocks": ("nvmlDeviceGetMaxClockInfo:gfx", "nvmlDeviceGetApplicationsClock:gfx"),
    "gpu.persistence": ("nvmlDeviceGetPersistenceMode",),
    "gpu.mig": ("nvmlDeviceGetMigMode",),
    "gpu.compute_mode": ("nvmlDeviceGetComputeMode",),
    "gpu.memory": ("nvmlDeviceGetMemoryInfo", "memv2"),
    "gpu.processes": tuple(
        f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")
    ),
    "nvlink.symmetry": ("nvlink",),
    "nvlink.errors": ("nvlink",),
}
"""Checks that are left out where a record never had these getters."""


@pytest.mark.parametrize("identity", SOLE)
def test_a_check_whose_getters_a_record_never_had_is_left_out_and_live_unknown(identity: str) -> None:
    data = machine(2)
    for device in data["devices"]:
        for key in SOLE[identity]:
            del device[key]
    assert (identity, "gpu0") not in judged(data)
    assert judged(data, live=True)[identity, "gpu0"].status is Status.UNKNOWN


@pytest.mark.parametrize("identity", SOLE)
def test_a_getter_that_only_this_gpu_lacks_is_unknown(identity: str) -> None:
    data = machine(2)
    for key in SOLE[identity]:
        del data["devices"][1][key]
    assert judged(data)[identity, "gpu1"].status is Status.UNKNOWN


def test_pairs_that_a_record_never_had_are_left_out_and_live_unknown() -> None:
    data = machine(2)
    del data["p2p"]
    assert "pcie.p2p" not in {identity for identity, _ in judged(data)}
    assert judged(data, live=True)["pcie.p2p", "host"].status is Status.UNKNOWN
    data["p2p"] = []
    assert judged(data)["pcie.p2p", "host"].status is Status.UNKNOWN


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["err", "ret", "x"]), inner, max_size=2)
    ),
    max_leaves=5,
)


def scramble(value: Any, draw: st.DataObject) -> Any:
    """The value with one part of it, at some depth, replaced by anything."""
    if isinstance(value, dict) and value and draw.draw(st.integers(0, 3)):
        key = draw.draw(st.sampled_from(sorted(value)))
        return {**value, key: scramble(value[key], draw)}
    if isinstance(value, list) and value and draw.draw(st.integers(0, 3)):
        at = draw.draw(st.integers(0, len(value) - 1))
        return [*value[:at], scramble(value[at], draw), *value[at + 1 :]]
    return draw.draw(JSON)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_a_dump_with_any_value_in_any_place_is_refused_or_judged(draw: st.DataObject) -> None:
    data = machine(2)
    data["devices"][0]["mig"] = []
    for part in range(draw.draw(st.integers(1, 3))):
        whole = scramble(data, draw) if part else {**data, "devices": scramble(data["devices"], draw)}
        data = whole if isinstance(whole, dict) else data
    with contextlib.suppress(BadInput):
        assert judged(data, since=machine(2))
