"""A record of a live run replays to the same verdict, and holds no serial number that nobody asked for."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks import record as records
from checks.errors import BadInput
from checks.gpus import collect, dump, mask
from checks.gpus.dump import Gap, Process
from checks.gpus.report import judge_record
from checks.record import Record, Section
from tests.doubles.build import library
from tests.unit.checks import nvml_rig
from tests.unit.checks.nvml_rig import environment

GPU = st.sampled_from(["", ":gpu0", ":gpu1"])
SYMBOL = st.sampled_from(
    [
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetP2PStatus",
    ]
)
FAULT = st.one_of(
    st.builds("error:{}{}:code={}".format, SYMBOL, GPU, st.sampled_from([3, 4, 13, 15, 999])),
    st.builds("set:{}{}:is={}".format, SYMBOL, GPU, st.integers(0, 9)),
    st.builds("lost{}:after={}:half".format, GPU, st.integers(0, 200)),
    st.builds("field{}:id=230:is={}".format, GPU, st.integers(0, 7)),
    st.builds("process{}:pid=1:bytes={}".format, GPU, st.integers(0, 1 << 37)),
    st.builds("init={}".format, st.sampled_from([4, 9, 18, 999])),
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(st.lists(FAULT, max_size=3))
def test_a_record_replays_to_the_findings_of_the_live_run(faults: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(library("nvml")))
        patch.setenv("KPRO_DOUBLE_NVML", ",".join(["gpus=2", *faults]))
        taken = collect.collect(30.0)
    live = judge_record(taken, 2, replayed=False, name="live")
    for uuids in (False, True):
        again = records.parse(mask.record(taken, serials=True, uuids=uuids).dump(), "again")
        replayed = judge_record(again, 2, replayed=True, name="again")
        assert replayed.findings == live.findings
        assert replayed.exit_code() == live.exit_code()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Record]:
    def take(faults: str) -> Record:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(library("nvml")))
        monkeypatch.setenv("KPRO_DOUBLE_NVML", faults)
        return collect.collect(30.0)

    return take


def parsed(record: Record) -> dump.Dump:
    assert record.nvml is not None
    return dump.parse(record.nvml, "record")


def test_serials_stay_out_of_a_record_unless_asked_for(tmp_path: Path) -> None:
    for args, there in (((), False), (("--with-serials",), True), (("--mask",), False)):
        env = environment("gpus=1")
        nvml_rig.run(tmp_path, env, *args)
        text = (tmp_path / f"{env[nvml_rig.MARK]}.json").read_text()
        assert ("1651210000007" in text) is there
        assert ("GPU-00000000-0000-4000-8000-000000000000" in text) is (args != ("--mask",))


def test_masking_without_a_record_is_refused(provcheck: Callable[..., Any]) -> None:
    for option in ("--mask", "--with-serials"):
        said = provcheck("gpus", option)
        assert (said.code, "--record" in said.err) == (2, True)


def test_a_serial_is_masked_wherever_it_stands_and_what_is_none_is_left() -> None:
    log = b"NVRM: GPU Board Serial Number: 1654923000001\nNVRM: Xid (PCI:0000:41:00): 79, pid=1234567\n"
    nvml = {
        "devices": [{"nvmlDeviceGetSerial": "1654923000001", "note": "board 1654923000001", "n": 12345678}]
    }
    whole = Record("h", "t", (Section("log", "k", log), Section("link", "l")), nvml)
    masked = mask.record(whole, serials=True, uuids=False)
    assert b"1654923000001" not in masked.dump() + (masked.sections[0].data or b"")
    assert b"79, pid=1234567" in (masked.sections[0].data or b"")
    assert masked.nvml is not None
    assert masked.nvml["devices"][0] == {
        "nvmlDeviceGetSerial": "masked",
        "note": "board masked",
        "n": 12345678,
    }
    assert masked.sections[1] == whole.sections[1]
    alone = Record(sections=whole.sections[:1])
    assert b"1654923000001" not in (mask.record(alone, serials=True, uuids=False).sections[0].data or b"")
    assert mask.record(whole, serials=False, uuids=False) == whole


def test_a_pseudonym_is_the_same_in_every_record_and_differs_between_gpus() -> None:
    def named(number: int) -> str:
        nvml: dict[str, Any] = {"u": f"GPU-00000000-0000-4000-8000-00000000000{number}"}
        masked = mask.record(Record(nvml=nvml), serials=True, uuids=True).nvml
        assert masked is not None
        return str(masked["u"])

    assert named(1) == named(1) != named(2)
    assert named(1).startswith("GPU-")
    assert "8000-00000000000" not in named(1)


def test_a_process_is_named_when_it_is_of_this_namespace(
    taken: Callable[[str], Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    own, comm = os.getpid(), Path("/proc/self/comm").read_text().strip()
    from checks.gpus import nvml_read

    rows: dict[str, Any] = {"k": [{"pid": own, "usedGpuMemory": 1}, {"pid": 4194399, "usedGpuMemory": 1}]}
    monkeypatch.setattr(nvml_read, "_at_home", lambda: True)
    nvml_read._name_processes(rows)
    assert [row["name"] for row in rows["k"]] == [comm, None]
    monkeypatch.setattr(nvml_read, "_at_home", lambda: False)
    nvml_read._name_processes(rows)
    assert [(row["name"], row["namespace"]) for row in rows["k"]] == [(None, "other"), (None, "other")]

    seen = parsed(taken(f"gpus=1,process:gpu0:pid={own}:bytes=4096")).gpus[0].processes("Compute")
    assert isinstance(seen, tuple)
    assert [(one.pid, one.memory, one.kind) for one in seen] == [(own, 4096, "Compute")]
    assert "another namespace" in Process(1, None, None, "Compute", elsewhere=True).who


@pytest.mark.parametrize(("namespace", "home"), [("pid:[4026531836]", True), ("pid:[4026532001]", False)])
def test_only_the_first_pid_namespace_is_the_one_that_nvml_counts_in(
    namespace: str, home: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from checks.gpus import nvml_read

    monkeypatch.setattr(Path, "readlink", lambda _: Path(namespace))
    assert nvml_read._at_home() is home


def test_mig_devices_are_enumerated_when_mig_is_on(taken: Callable[[str], Record]) -> None:
    off, on = parsed(taken("gpus=2,mig:gpu1")).gpus
    assert off.mig() == ()
    devices = on.mig()
    assert isinstance(devices, tuple)
    assert [device["gi"] for device in devices] == [1, 2]
    assert all(str(device["uuid"]).startswith("MIG-") for device in devices)


def test_an_old_dump_has_gaps_where_a_new_one_has_values(healthy: Callable[..., dict[str, Any]]) -> None:
    old = dump.parse(healthy(2), "old")
    gpu = old.gpus[0]
    assert old.p2p is None
    assert old.pairs() == {}
    assert not gpu.has("memv2")
    for value in (
        gpu.processes("Compute"),
        gpu.violation("power"),
        gpu.mig(),
        gpu.link(0, "replay"),
        gpu.link_remote(0),
    ):
        assert value == dump.NOT_READ
    assert (gpu.link(0, "state"), gpu.answered("nvmlDeviceValidateInforom")) == (1, dump.NOT_READ)


WRONG: dict[str, Any] = {
    "memv2": [1],
    "nvmlDeviceGetSerial": 7,
    "nvmlDeviceGetComputeRunningProcesses": [{"pid": "12"}],
    "nvmlDeviceGetGraphicsRunningProcesses": {"pid": 12},
    "retired_dbe": [1, "2"],
    "viol_power": 3,
    "mig": {"gi": 1},
    "nvmlDeviceValidateInforom": 0,
    "nvmlDeviceGetClockInfo:gfx": "fast",
    "nvmlDeviceGetCpuAffinity": [0] * 5000,
    "nvlink": {"0": {"state": 1, "replay": "many"}},
}


@pytest.mark.parametrize("key", WRONG)
def test_a_getter_of_the_wrong_shape_is_refused(key: str, healthy: Callable[..., dict[str, Any]]) -> None:
    data = healthy(2)
    data["devices"][1][key] = WRONG[key]
    with pytest.raises(BadInput, match=r"devices\[1\]"):
        dump.parse(data, "dump")


@pytest.mark.parametrize(
    "pairs",
    [
        {"a": 0},
        [1],
        [{"a": 0, "b": "1"}],
        [{"a": 0, "b": 2}],
        [{"a": 0, "b": -1}],
        [{"a": 0, "b": 1, "read": "yes"}],
    ],
)
def test_pairs_of_the_wrong_shape_are_refused(pairs: Any, healthy: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(BadInput, match="p2p"):
        dump.parse({**healthy(2), "p2p": pairs}, "dump")


def test_pairs_are_found_by_both_gpus_also_beyond_the_first_two(taken: Callable[[str], Record]) -> None:
    seen = parsed(taken("gpus=4,error:nvmlDeviceGetP2PStatus:gpu3:code=999")).pairs()
    assert len(seen) == 12
    assert (seen[2, 3].read, seen[2, 3].topo, seen[2, 3].subject) == (0, 30, "pair 2-3")
    assert seen[3, 2].read == Gap(999, "Unknown Error")


def test_since_is_read_as_a_record_and_refused_when_it_is_none(
    tmp_path: Path, provcheck: Callable[..., Any]
) -> None:
    dump_file, other = tmp_path / "dump.json", tmp_path / "other.json"
    dump_file.write_text(json.dumps({"nvmlInit": None, "nvmlDeviceGetCount": 0, "devices": []}))
    other.write_text(Record(host="h").dump().decode())
    assert provcheck("gpus", "--replay", dump_file, "--since", dump_file, "--expect", 0, "--json").code == 0
    said = provcheck("gpus", "--replay", dump_file, "--since", other)
    assert (said.code, "--since" in said.err) == (2, True)


def test_what_is_left_out_is_a_skip_and_an_unknown_id_is_refused(
    tmp_path: Path, provcheck: Callable[..., Any], healthy: Callable[..., dict[str, Any]]
) -> None:
    data = healthy(1)
    data["devices"][0]["ecc_unc_vol"] = 7
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(data))
    assert provcheck("gpus", "--replay", path, "--json").status("gpu.ecc", "gpu0") == "fail"
    said = provcheck("gpus", "--replay", path, "--json", "--leave-out", "gpu.ecc, gpu.power_limit")
    assert (said.status("gpu.ecc", "gpu0"), said.status("gpu.power_limit", "gpu0")) == ("skip", "skip")
    assert said.status("gpu.lost", "gpu0") == "pass"
    assert provcheck("gpus", "--replay", path, "--leave-out", "gpu.nonsense").code == 2


def test_a_section_that_is_not_text_survives_masking() -> None:
    raw = base64.b64decode("/v8A/kdQVS0=")
    masked = mask.record(Record(sections=(Section("file", "x", raw),)), serials=True, uuids=True)
    assert masked.sections[0].data == raw
