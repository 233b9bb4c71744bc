from __future__ import annotations

from pathlib import Path

import pytest

from provision.testhost.vm import kvm
from provision.testhost.vm.qemu import Qemu

PANIC = "Kernel panic - not syncing: VFS: Unable to mount root fs"


def answer(tmp_path: Path, script: str) -> bool:
    return kvm.works(Qemu(("sh", "-c", script, "sh"), ()), tmp_path / "vmlinuz", Path("/dev/null"))


def test_kvm_works_when_a_kernel_ran_to_its_end(tmp_path: Path) -> None:
    assert answer(tmp_path, f"echo '{PANIC}'")


@pytest.mark.parametrize("script", ["exit 0", "echo 'SeaBIOS'", f"echo '{PANIC}'; exit 1"])
def test_kvm_that_starts_and_runs_no_kernel_does_not_work(tmp_path: Path, script: str) -> None:
    assert not answer(tmp_path, script)


def test_a_kernel_that_hangs_is_ended_and_the_answer_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kvm, "TRY_SECONDS", 0.2)
    assert not answer(tmp_path, "exec sleep 60")
    assert not answer(tmp_path, f"echo '{PANIC}'"), "tried again"


def test_without_the_device_nothing_is_tried(tmp_path: Path) -> None:
    assert not kvm.works(Qemu(("false",), ()), tmp_path / "vmlinuz", tmp_path / "kvm")
