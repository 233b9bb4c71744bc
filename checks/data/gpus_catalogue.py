"""Findings of ``provcheck gpus`` that rest on NVML and the driver: what each looks at, why, how to mend it."""

from __future__ import annotations

from checks.data.entry import Entry
from checks.data.gpu_more_catalogue import GPU_MORE

GPUS: dict[str, Entry] = {
    "driver.responds": Entry(
        "NVML answers within the deadline",
        "A driver that waits for a dead GPU (Xid 119, 120) hangs every program that asks it, nvidia-smi"
        " included, and such a program cannot be killed. provcheck asks from a child process and walks "
        "away from it, so a hang is a finding and not a hanging check. Nothing is known about the GPUs "
        "then, hence 'unknown'.",
        "unknown host driver.responds NVML hung at gpu3, ecc: no answer within 6 s (section ecc); the probe "
        "was abandoned",
        "Look for Xid lines in the kernel log, reset the GPU they name or reboot the host.",
        "leptonai/gpud#117, NVIDIA/open-gpu-kernel-modules#446",
    ),
    "driver.loaded": Entry(
        "The NVIDIA kernel module is loaded",
        "Without the module there is no GPU, whatever is installed. A usual cause is that the GPUs are "
        "still bound to vfio-pci for virtual machines, or that the module was not built for the running"
        " kernel.",
        "fail host driver.loaded the NVIDIA kernel module is not loaded: no GPU can work here",
        "Release the GPUs from vfio-pci, install a driver that builds for this kernel, load it with "
        "modprobe nvidia.",
        "NVML error 9 (DriverNotLoaded); /sys/module/nvidia/version",
    ),
    "driver.library": Entry(
        "Library and kernel module are of one version",
        "The user-space library refuses a kernel module of another version: every CUDA program fails, "
        "while the GPUs look fine on the bus. It happens when packages are upgraded under a running "
        "module, and in containers that bring their own library.",
        "fail host driver.library driver and library do not fit: kernel module 570.148.06, library "
        "570.148.08",
        "Reboot, or reload the nvidia modules, and hold the driver packages. In a container install the"
        " library of the host's version.",
        "NVML error 18 (LibRmVersionMismatch); NVIDIA/nvidia-container-toolkit#48 for error 999 in "
        "containers",
    ),
    "driver.floor": Entry(
        "The driver is new enough for the GPUs",
        "A driver older than the GPU's generation may list it and fail in use.",
        "fail host driver.floor driver 560.35.03 is older than 570, the first that knows Blackwell",
        "Install a driver of the branch named in the finding, or later.",
        "NVIDIA data center driver release notes",
    ),
    "driver.adapter_init": Entry(
        "The driver started every GPU that it holds",
        "A GPU can be bound to the nvidia driver, have its device node, and still not exist for CUDA: the "
        "driver starts the adapter when it is first opened, and when that fails nvidia-smi says only 'No "
        "devices were found' and exits 0 or 6. The kernel log has the reason. A container is judged by the GPUs "
        "that were passed into it (those with a device node in its /dev), not by those of its host.",
        "fail 0000:01:00.0 driver.adapter_init the nvidia driver is bound to 0000:01:00.0 but the adapter did "
        'not initialise; the kernel: "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x25:1792)"',
        "Do what the finding says: it goes by the kernel's line (no video BIOS, no GSP, firmware missing, fallen "
        "off the bus).",
        "NVIDIA/open-gpu-kernel-modules#789, #955; osinit.c of the same",
    ),
    "gpu.count": Entry(
        "All GPUs are enumerated",
        "A GPU that is missing at start is a smaller machine: tensor parallelism over two GPUs does not"
        " start, or a scheduler believes in capacity that is not there. The count of NVML is held "
        "against --expect and against the GPUs that the nvidia driver holds on the PCI bus.",
        "fail host gpu.count 7 of 8 GPUs",
        "Look for Xid 79 in the kernel log, reseat or power-cycle the board; see that no GPU is bound "
        "to vfio-pci.",
        "NVML keeps counting a lost GPU, therefore gpu.lost is a check of its own",
    ),
    "gpu.lost": Entry(
        "The GPU is alive",
        "A GPU that fell off the bus is still counted, and its name, links and widths are still "
        "answered from a cache. Only values that the board itself must give (temperature, power, "
        "memory) show that it lives.",
        "fail gpu3 gpu.lost the GPU is lost: GPU is lost (code 15)",
        "Stop the service, read the Xid in the kernel log, reboot the host; with a power cycle when it "
        "stays away.",
        "NVML error 15 (GpuIsLost); Xid 79",
    ),
    "gpu.identity": Entry(
        "Name, UUID and PCI address come, each its own",
        "They are how a GPU is told from its siblings in inventories, logs and service calls.",
        "pass gpu0 gpu.identity NVIDIA H200 at 0000:00:06.0",
        "A GPU without identity is usually lost or not accessible: read gpu.lost first.",
        "nvmlDeviceGetName, nvmlDeviceGetUUID, nvmlDeviceGetPciInfo",
    ),
    "gpu.recovery": Entry(
        "The driver asks for no recovery",
        "A driver that knows this field says itself which recovery a GPU needs: reset, reboot, "
        "drain. It knows more than any rule from outside.",
        "fail gpu2 gpu.recovery the driver asks for recovery action 1",
        "Do what the finding says: it translates the action.",
        "NVML field 230, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION (nvml.h), and what older drivers have: fields "
        "226 and 227, nvmlDeviceGetRepairStatus",
    ),
    "gpu.ecc": Entry(
        "ECC is on and counted no uncorrected error",
        "An uncorrected error is wrong data in GPU memory. With ECC off nobody would know: the counters"
        " stay at zero, so zero proves nothing there.",
        "fail gpu2 gpu.ecc 9 uncorrected ECC errors since boot, 10 in its life",
        "Drain the GPU, read the Xid, reset it; replace the board when errors come back. To switch ECC "
        "on: nvidia-smi -i N --ecc-config=1 and a reset.",
        "NVIDIA GPU memory error management guide",
    ),
    "gpu.row_remap": Entry(
        "No row remapping is pending or has failed",
        "From Ampere on a bad memory row is replaced by a spare one at the next reset. Pending means "
        "that the bad row is in use until then; failed means that there is no spare row left. Rows that go on being "
        "remapped (--since) are memory that degrades.",
        "fail gpu1 gpu.row_remap row remapping is pending, 2 rows: the bad rows are still in use",
        "Pending: drain and reset the GPU. Failed: have the board replaced.",
        "NVIDIA GPU memory error management guide, row remapping",
    ),
    "gpu.pcie_width": Entry(
        "The PCIe link uses all its lanes",
        "A board that is not seated well comes up with half its lanes or fewer, and everything that "
        "crosses the bus is slower by as much, silently. A slot with fewer lanes than the board has is told too.",
        "fail gpu5 gpu.pcie_width x8 of x16 gen1, gpu0 runs at x16",
        "Look again while it copies; reseat board and riser, clean the contacts, try another slot.",
        "nvmlDeviceGetCurrPcieLinkWidth against nvmlDeviceGetMaxPcieLinkWidth",
    ),
    "gpu.throttle": Entry(
        "Nothing holds the clocks down",
        "Hardware slowdown, thermal slowdown and power brake cut the clock to a fraction. A software "
        "power cap is normal under load and a sign of a wrong limit at idle.",
        "fail gpu4 gpu.throttle clocks are held down by hardware: HW thermal slowdown, HW slowdown",
        "Check cooling and power feeds; compare the power limit with its default.",
        "nvmlClocksEventReason* in nvml.h",
    ),
    "gpu.temperature": Entry(
        "Core and memory are cooler than their limits",
        "At the slowdown temperature the GPU halves its clock; a little above it switches off.",
        "fail gpu4 gpu.temperature 88 C, at or over slowdown",
        "Check fans, airflow and dust; stop the load until it is cool.",
        "nvmlDeviceGetTemperatureThreshold: the board's own limits",
    ),
    "gpu.power_limit": Entry(
        "The power limit is not below the board's default",
        "A forgotten cap makes one GPU slower than its siblings, and with it every job that spans them."
        " It survives until the next reset and no error tells of it.",
        "warn gpu0 gpu.power_limit limited to 400 W, default 700 W",
        "nvidia-smi -i N -pl WATTS, with the default that the finding names; or silence it when the cap is meant.",
        "nvmlDeviceGetPowerManagementLimit against nvmlDeviceGetPowerManagementDefaultLimit",
    ),
    "nvlink.state": Entry(
        "All NVLinks that must be active are",
        "A missing link lowers the bandwidth between GPUs or moves it to PCIe. Boards with a fixed "
        "number of links (SXM) must have all of them when there is more than one GPU; a bridge counts "
        "once one of its links is up.",
        "fail gpu3 nvlink.state 4 of 6 NVLinks active; down: 3, 5",
        "Read 'nvidia-smi nvlink -e' and SXid lines; reset all GPUs together; reseat the bridge; then "
        "call service.",
        "Azure/azurehpc-diagnostics#73, NVIDIA/NVSentinel#1481 (no bridge is no fault)",
    ),
    "fabric.state": Entry(
        "The NVSwitch fabric is completed and healthy",
        "On HGX and DGX boards CUDA fails with error 802 until fabric manager has set up the switches; "
        "all links look active meanwhile. 'Completed' with an error status is as bad as not started.",
        "fail gpu0 fabric.state the fabric is not started",
        "Start nvidia-fabricmanager, of exactly the driver's version, and read its log.",
        "NVIDIA/NVSentinel#883 and #889; nvmlGpuFabricInfo_v3_t in nvml.h",
    ),
    **GPU_MORE,
}
