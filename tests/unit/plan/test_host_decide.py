"""Steps 1-5: what a host must be before anything is done on it."""

from __future__ import annotations

import pytest

from provision.guest.root_recipe import root_file
from provision.host import view
from provision.host.decide import host_plan
from provision.plan import Plan
from provision.spec import Gpu, Machine, Mount
from tests.unit.plan.seen import DPKG_L, Seen

NO_GPU = "machine.gpus[0].bdf"


def refused(plan: Plan) -> dict[str, str]:
    return {refusal.where: refusal.seen for refusal in plan.refusals}


def watched(machine: Machine) -> Machine:
    return machine.model_copy(update={"managed": False})


def test_a_host_as_the_inventory_says_it_is_passes(machine: Machine, host: Seen) -> None:
    plan = host_plan(machine, host.snapshot)
    assert plan.refusals == ()
    assert plan.items == ()


def test_a_connection_that_is_not_root_is_refused(machine: Machine, host: Seen) -> None:
    assert "user id 1000" in refused(host_plan(machine, host.cmd("id-u", "1000\n").snapshot))["machine box"]


def test_a_gpu_that_is_not_there_is_refused_with_the_path_of_the_field(machine: Machine, host: Seen) -> None:
    wrong = machine.model_copy(update={"gpus": (Gpu(bdf="61:00.0", model="RTX A6000"),), "guests": ()})
    seen = refused(host_plan(wrong, host.snapshot))[NO_GPU]
    assert "0000:61:00.0" in seen
    assert "0000:42:00.0" in seen


def test_a_count_that_differs_is_refused(machine: Machine, host: Seen) -> None:
    host.gpu("0000:61:00.0")
    assert (
        "says 1 NVIDIA GPUs, the machine has 2"
        in refused(host_plan(machine, host.snapshot))["machine.gpu_count"]
    )


def test_an_audio_function_or_nvswitch_is_no_gpu(machine: Machine, host: Seen) -> None:
    host.audio("0000:42:00.1").gpu(
        "0000:83:00.0", device="0x22a3", pci_class="0x068000", driver="", group="2"
    )
    version = machine.driver.version if machine.driver else ""
    host.cmd("dpkg-l", f"{DPKG_L}ii  nvidia-fabricmanager  {version}-1  amd64  x\n")
    assert host_plan(machine, host.snapshot).refusals == ()


def test_another_model_at_the_address_is_refused(machine: Machine, host: Seen) -> None:
    host.put(
        "file",
        "/proc/driver/nvidia/gpus/0000:42:00.0/information",
        "Model: NVIDIA RTX A5000\nDevice Minor: 0\n",
    )
    assert "is a NVIDIA RTX A5000" in refused(host_plan(machine, host.snapshot))["machine.gpus[0].model"]


@pytest.mark.parametrize("driver", ["vfio-pci", "nouveau", ""])
def test_on_a_machine_that_is_not_managed_a_gpu_on_another_driver_is_refused_and_left_alone(
    machine: Machine, host: Seen, driver: str
) -> None:
    plan = host_plan(watched(machine), host.gpu("0000:42:00.0", driver=driver).snapshot)
    assert (driver or "no driver") in refused(plan)[NO_GPU]
    assert plan.items == ()


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (None, "no NVIDIA module is loaded"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Wed\n", "580.159.04 (proprietary)"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build\n",
            "565.57.01 (open)",
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.78  Sun\n", "550.78 (proprietary)"),
    ],
)
def test_on_a_machine_that_is_not_managed_another_driver_than_pinned_is_refused(
    machine: Machine, host: Seen, text: str | None, seen: str
) -> None:
    host.put("file", "/proc/driver/nvidia/version", text)
    assert seen in refused(host_plan(watched(machine), host.snapshot))["machine.driver"]


def test_all_reasons_come_at_once(machine: Machine, host: Seen) -> None:
    host.cmd("id-u", "1000\n").gpu("0000:42:00.0", driver="vfio-pci").put(
        "file", "/proc/driver/nvidia/version", None
    )
    host.tools("mmdebstrap", there=False)
    assert len(host_plan(watched(machine), host.snapshot).refusals) == 4


def test_a_missing_tool_is_named_with_the_command_that_brings_it(machine: Machine, host: Seen) -> None:
    host.tools("lxc-attach", "mmdebstrap", there=False)
    (refusal,) = host_plan(machine, host.snapshot).refusals
    assert "lxc-attach" in refusal.seen
    assert refusal.next_step == "apt-get install lxc mmdebstrap"


@pytest.mark.parametrize(
    ("model", "listed", "fits"),
    [
        ("RTX A6000", "GA102GL [RTX A6000]", True),
        ("V100", "GA102GL [RTX A6000]", False),
        ("RTX A5000", "GA102GL [RTX A6000]", False),
        ("GeForce RTX 3090", "GA102 [GeForce RTX 3090]", True),
        ("RTX 3080", "GA102 [GeForce RTX 3090]", False),
        ("H100 80GB HBM3", "GH100 [H100 SXM5 80GB]", True),
        ("A100-SXM4-40GB", "GA100 [A100 SXM4 40GB]", True),
    ],
)
def test_a_gpu_without_a_driver_is_compared_by_the_name_of_the_bus(
    machine: Machine, host: Seen, model: str, listed: str, fits: bool
) -> None:
    name = f"VGA compatible controller [0300]: NVIDIA Corporation {listed} [10de:2230] (rev a1)"
    host.cmd("lspci-Dnnk", f"0000:42:00.0 {name}\n\tKernel driver in use: vfio-pci\n")
    host.put("file", "/proc/driver/nvidia/gpus/0000:42:00.0/information", None)
    gpu = machine.gpus[0].model_copy(update={"model": model})
    said = refused(host_plan(machine.model_copy(update={"gpus": (gpu,)}), host.snapshot))
    assert ("machine.gpus[0].model" not in said) == fits


def test_what_builds_roots_is_not_needed_where_the_root_is(machine: Machine, host: Seen) -> None:
    host.tools("mmdebstrap", there=False)
    assert host_plan(machine, host.snapshot).refusals
    host.put("stat", root_file(machine.guests[0].suite), "600 0 0 247139840 regular file\n")
    assert not host_plan(machine, host.snapshot).refusals


def test_what_cannot_be_looked_at_is_refused_not_taken_for_absent(machine: Machine, host: Seen) -> None:
    host.put("pci", "/sys/bus/pci/devices", None, "cannot be read")
    assert "cannot be read" in str(refused(host_plan(machine, host.snapshot)))


def test_no_pci_bus_is_fine_where_no_gpu_is_wanted(machine: Machine, host: Seen) -> None:
    host.put("pci", "/sys/bus/pci/devices", None)
    without = machine.model_copy(update={"gpus": (), "guests": (), "driver": None, "gpu_count": None})
    assert host_plan(without, host.snapshot).refusals == ()


def test_a_mount_that_is_no_folder_is_refused(machine: Machine, host: Seen) -> None:
    guest = machine.guests[0].model_copy(update={"mounts": (Mount(source="/tank", target="/srv/models"),)})
    mounted = machine.model_copy(update={"guests": (guest,)})
    host.put("stat", "/tank", "755 0 0 3 directory\n")
    assert host_plan(mounted, host.snapshot).refusals == ()
    for status in (None, "644 0 0 3 regular file\n"):
        plan = host_plan(mounted, host.put("stat", "/tank", status).snapshot)
        assert "machine.guests[0].mounts[0].source" in refused(plan)


def test_the_minor_is_read_and_never_counted(host: Seen) -> None:
    assert {str(bdf): minor for bdf, minor in view.minors(host.snapshot).items()} == {"0000:42:00.0": 3}


def test_majors_come_from_the_character_section_alone(host: Seen) -> None:
    assert view.majors(host.snapshot) == {"nvidia": 195, "nvidia-uvm": 508}


def test_only_listening_sockets_count(host: Seen) -> None:
    head = "  sl  local_address rem_address   st\n"
    host.put(
        "file",
        "/proc/net/tcp",
        head + "   0: 0100007F:1F90 00000000:0000 0A\n   1: 0100007F:1F91 0100007F:2 01\n",
    )
    host.put("file", "/proc/net/tcp6", head + "   0: 00000000000000000000000000000000:0016 0:0000 0A\n")
    assert view.listeners(host.snapshot) == {8080, 22}
