"""Loading the driver: the script on a bus in a folder, and what a refusal is taken to mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.bdf import Bdf
from provision.acts.load import load_script, refusal
from provision.data.loading import WORDS, explain
from provision.host.moves import Load
from tests.unit.run.kernel import Machine

GPU, SECOND, KEPT = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"
LOAD = Load("535.261.03", "open", (Bdf.parse(GPU), Bdf.parse(SECOND)), (Bdf.parse(KEPT),))
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (buildd@debian)  Sat Dec 20\n"

SEEN = {
    "blocked": "install /bin/false",
    "missing": "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.1.0-50-amd64",
    "key": "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
    "format": "modprobe: ERROR: could not insert 'nvidia': Exec format error",
    "mismatch": "NVRM: API mismatch: the client has the version 550.163.01, but",
    "unsupported": "NVRM: The NVIDIA probe routine failed for 1 device(s).",
    "taken": "NVRM: request_mem_region failed for 16M @ 0xfc000000. This can occur when a driver such as",
    "none": "NVRM: No NVIDIA devices probed.",
}
HARMLESS = """\
nvidia: loading out-of-tree module taints kernel.
nvidia: module verification failed: signature and/or required key missing - tainting kernel
nvidia-nvlink: Nvlink Core is being initialized, major device number 243
nvidia 0000:01:00.0: vgaarb: changed VGA decodes: olddecodes=io+mem,decodes=none:owns=io+mem
NVRM: The NVIDIA probe routine was not called for 1 device(s).
NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  535.261.03  Release Build
nvidia-uvm: Loaded the UVM driver, major device number 241.
"""


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words.id)
def test_each_cause_is_found_in_the_words_it_was_seen_in_and_in_no_others(words: object) -> None:
    found = [row.id for row in WORDS if row.found_in(SEEN[words.id])]  # type: ignore[attr-defined]
    assert found == [words.id]  # type: ignore[attr-defined]


def test_what_a_load_that_succeeds_says_is_no_cause() -> None:
    assert explain(HARMLESS.splitlines()) == []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    for bdf in (GPU, SECOND, KEPT):
        machine.bus.function(bdf, None)
    (machine.root / "version").write_text(VERSION.format("535.261.03"))
    return machine


def takes_all(machine: Machine) -> None:
    """As the real module: loading it takes every function that is free, and follows overrides."""
    bus = machine.bus.folder
    machine.program(
        "modprobe",
        f"""[ "$*" = nvidia ] || exit 0
for d in {bus}/devices/*; do
  o=$(cat $d/driver_override)
  case $o in '(null)'|''|nvidia) ;; *) continue ;; esac
  [ -e $d/driver ] || [ -e $d/refuses.nvidia ] || ln -s {bus}/drivers/nvidia $d/driver
done""",
    )


def test_a_kept_gpu_without_a_driver_is_never_taken(machine: Machine) -> None:
    takes_all(machine)
    done = machine.run(load_script(LOAD))
    assert done.returncode == 0, done.stdout
    assert [machine.bus.now(bdf) for bdf in (GPU, SECOND, KEPT)] == ["nvidia", "nvidia", None]
    assert [machine.bus.override(bdf) for bdf in (GPU, SECOND, KEPT)] == ["", "", ""]
    assert machine.calls[-2:] == ["modprobe nvidia", "modprobe nvidia-uvm"]
    assert machine.run(load_script(LOAD)).returncode == 0


def test_ids_of_vfio_that_a_softdep_brings_do_not_take_a_named_gpu(machine: Machine) -> None:
    bus = machine.bus.folder
    machine.program(
        "modprobe",
        f"""[ "$*" = nvidia ] || exit 0
for d in {bus}/devices/*; do
  o=$(cat $d/driver_override)
  case $o in '(null)'|'') ln -s {bus}/drivers/vfio-pci $d/driver ;; nvidia) ln -s {bus}/drivers/nvidia $d/driver ;; esac
done""",
    )
    assert machine.run(load_script(LOAD)).returncode == 0
    assert [machine.bus.now(bdf) for bdf in (GPU, SECOND)] == ["nvidia", "nvidia"]


def test_one_gpu_that_fails_to_probe_is_named_and_the_other_is_bound(machine: Machine) -> None:
    takes_all(machine)
    machine.bus.refuses(SECOND, "nvidia")
    machine.program("dmesg", f"echo 'NVRM: GPU {SECOND} has fallen off the bus'")
    done = machine.run(load_script(LOAD))
    assert done.returncode == 7
    assert machine.bus.now(GPU) == "nvidia"
    assert machine.bus.override(SECOND) == ""
    told = refusal(LOAD, 7, f"missing: {SECOND}\n--- kernel\nNVRM: GPU {SECOND} has fallen off the bus\n")
    assert (
        f'{SECOND} was not taken by nvidia: "NVRM: GPU {SECOND} has fallen off the bus"; the GPU no longer answers'
        in told
    )
    assert f"{GPU}: bound and unharmed" in told


def test_two_gpus_that_fail_have_each_its_own_cause_from_the_kernels_long_sentences() -> None:
    kernel = f"""
[  102.112233] NVRM: The NVIDIA GPU {GPU} (PCI ID: 10de:2230)
               NVRM: installed in this system is not supported by open
               NVRM: nvidia.ko because it does not include the required GPU
               NVRM: System Processor (GSP).
[  102.112240] nvidia: probe of {GPU} failed with error -1
[  102.112290] NVRM: The NVIDIA GPU {SECOND}
               NVRM: (PCI ID: 10de:2230) installed in this system has
               NVRM: fallen off the bus and is not responding to commands.
[  102.112295] nvidia: probe of {SECOND} failed with error -1
[  102.112299] NVRM: The NVIDIA probe routine failed for 2 device(s).
"""
    told = refusal(LOAD, 7, f"missing: {GPU} {SECOND}\n--- kernel{kernel}")
    first, second = (line for line in told.splitlines() if "was not taken by nvidia" in line)
    assert "flavour='proprietary'" in first
    assert "the bus" not in first
    assert "switch the host off and on" in second
    assert "System Processor" not in second
    three = Load("535.261.03", "open", (*LOAD.gpus, Bdf.parse(KEPT)), ())
    told = refusal(three, 7, f"missing: {KEPT}\n--- kernel{kernel}")
    (third,) = (line for line in told.splitlines() if "was not taken by nvidia" in line)
    assert "the driver refuses this GPU" in third
    assert "fallen off" not in third


def test_a_gpu_that_was_not_released_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.bus.function(GPU, "vfio-pci", "vfio-pci")
    machine.bus.function(SECOND, None)
    machine.bus.function(KEPT, "vfio-pci")
    done = machine.run(load_script(LOAD))
    assert done.returncode == 5
    assert f"{GPU} is on vfio-pci: it was not released" in done.stdout
    assert not [call for call in machine.calls if call.startswith("modprobe")]


def test_another_version_than_the_pin_is_no_success(machine: Machine) -> None:
    takes_all(machine)
    (machine.root / "version").write_text(VERSION.format("550.163.01"))
    done = machine.run(load_script(LOAD))
    assert done.returncode == 4
    assert "driver 550.163.01 open is loaded, 535.261.03 (open) is wanted" in done.stdout


def test_a_loaded_version_in_use_is_left_alone(machine: Machine) -> None:
    (machine.root / "module" / "nvidia").mkdir(parents=True)
    (machine.root / "version").write_text(VERSION.format("550.163.01"))
    done = machine.run(load_script(LOAD))
    assert done.returncode == 4
    assert "driver 550.163.01 open is in use and stays loaded" in done.stdout
    assert "modprobe nvidia" not in machine.calls


def test_an_install_line_that_blocks_it_is_said_with_the_next_step(machine: Machine) -> None:
    machine.program("modprobe", "[ \"$1\" != -n ] || echo 'install /bin/false'")
    done = machine.run(load_script(LOAD))
    assert done.returncode == 1
    assert "grep -r 'install nvidia'" in refusal(LOAD, 1, done.stdout)


def test_a_script_that_said_nothing_is_still_a_refusal_with_the_version() -> None:
    assert "535.261.03 (open) was not loaded" in refusal(LOAD, 1, "")
