"""Whether a GPU is there at all: lost, refused by NVML, in want of a reset."""

from __future__ import annotations

import pytest

from checks.model import Status
from tests.unit.checks.gpu_full import bad, field, judged, machine


@pytest.mark.parametrize("name", ["RESET_STATUS", "DRAIN_AND_RESET_STATUS"])
def test_older_words_for_a_reset_count_too(name: str) -> None:
    data = machine(2)
    data["devices"][0]["fields"][f"NVML_FI_DEV_{name}"] = field(1)
    assert bad(judged(data)) == {("gpu.recovery", "gpu0"): "fail"}
    data["devices"][0]["fields"]["NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"] = {"ret": 3}
    assert bad(judged(data)) == {("gpu.recovery", "gpu0"): "fail"}


def test_the_count_names_gpus_that_are_counted_although_lost() -> None:
    data = machine(3)
    data["devices"][2]["temp"] = {"err": 15, "msg": "GPU is lost"}
    finding = judged(data)["gpu.count", "host"]
    assert (finding.status, "gpu2" in finding.message) == (Status.PASS, True)


@pytest.mark.parametrize(
    ("code", "verdict", "said"),
    [
        (8, "fail", "power"),
        (11, "fail", "interrupt"),
        (16, "fail", "reset"),
        (17, "unknown", "access"),
        (15, "fail", "lost"),
    ],
)
def test_a_gpu_that_gives_no_handle_says_why(code: int, verdict: str, said: str) -> None:
    data = machine(2)
    data["devices"][1] = {"handle": {"err": code, "msg": "said by NVML"}}
    finding = judged(data)["gpu.lost", "gpu1"]
    assert (finding.status.value, said in finding.message) == (verdict, True), finding
    assert finding.fix or verdict == "unknown"


def test_a_getter_that_wants_a_reset_first_is_a_recovery_that_is_due() -> None:
    data = machine(2)
    data["devices"][0]["nvmlDeviceGetBAR1MemoryInfo"] = {"err": 16, "msg": "GPU requires reset"}
    found = judged(data)
    assert found["gpu.recovery", "gpu0"].status is Status.FAIL
    assert "reset" in (found["gpu.recovery", "gpu0"].fix or "")


@pytest.mark.parametrize("where", ["field", "link"])
def test_a_gpu_is_lost_when_only_a_field_or_a_link_says_so(where: str) -> None:
    data = machine(2)
    if where == "field":
        data["devices"][1]["fields"]["NVML_FI_DEV_MEMORY_TEMP"] = {"ret": 15}
    else:
        data["devices"][1]["nvlink"]["7"]["state"] = {"err": 15, "msg": "GPU is lost"}
    assert judged(data)["gpu.lost", "gpu1"].status is Status.FAIL
