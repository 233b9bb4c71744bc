"""Findings of ``provcheck gpus`` about firmware, the way to the host, settings, memory held and pairs of GPUs."""

from __future__ import annotations

from checks.data.entry import Entry

GPU_MORE: dict[str, Entry] = {
    "gpu.vbios": Entry(
        "Boards of one make have one VBIOS",
        "A board that was replaced or flashed alone can have other clocks, power and fan curves, and other "
        "faults, than its siblings. Only boards with the same name and the same maker's subsystem id are compared.",
        "warn gpu3 gpu.vbios VBIOS 96.00.74.00.09, gpu0 has 96.00.A5.00.1A",
        "Ask the vendor for one VBIOS for all boards of this make.",
        "imbue-ai/cluster-health and facebookresearch/gcm compare it; nvmlDeviceGetVbiosVersion",
    ),
    "gpu.retired_pages": Entry(
        "No page retirement is pending and the table has room",
        "Boards before Ampere take bad memory pages out of use, at most 64 of them. Pending means that a bad page "
        "stays in use until the next reset; with a full table the next bad page cannot be retired at all.",
        "fail gpu2 gpu.retired_pages page retirement is pending, 12 pages retired: the bad pages are still in use",
        "Pending: drain and reset the GPU or reboot. Full (62 and more): have the board replaced.",
        "NVIDIA dynamic page retirement guide; Azure/azurehpc-health-checks azure_gpu_ecc.nhc",
    ),
    "gpu.inforom": Entry(
        "The infoROM is valid",
        "The infoROM keeps the board's settings and error history: retired pages, remapped rows. A corrupted one "
        "hides them, and the driver may refuse the board.",
        "fail gpu1 gpu.inforom the infoROM is corrupted (NVML error 14 from nvmlDeviceValidateInforom)",
        "Power the machine off and on; if it stays, have the board replaced.",
        "nvmlDeviceValidateInforom; NVML error 14 (CorruptedInforom)",
    ),
    "gpu.gsp": Entry(
        "The GSP runs, with the driver's own firmware",
        "From Turing on a processor on the GPU does part of the driver's work, and the open kernel module cannot do "
        "without it. It must run firmware of exactly the driver's version.",
        "warn gpu0 gpu.gsp GSP firmware 550.54.15 under driver 550.163.01",
        "Remove NVreg_EnableGpuFirmware=0; install driver and firmware from one package set; reboot.",
        "nvmlDeviceGetGspFirmwareMode and nvmlDeviceGetGspFirmwareVersion; NVIDIA/open-gpu-kernel-modules#446",
    ),
    "gpu.pcie_generation": Entry(
        "The slot reaches the board's PCIe generation",
        "A gen5 board in a gen4 slot, behind an old riser or with a generation set by hand, copies at half its rate. "
        "The generation in use is no finding: it falls to 1 at idle by design, and 'provcheck load' measures it "
        "while the GPU copies.",
        "warn gpu2 gpu.pcie_generation slot and board reach gen3 together, the board alone gen4, siblings reach it",
        "Set the slot's generation in the firmware set-up, or use another slot or riser.",
        "nvmlDeviceGetMaxPcieLinkGeneration against nvmlDeviceGetGpuMaxPcieLinkGeneration; nvtop#6 (idle is no fault)",
    ),
    "gpu.pcie_replay": Entry(
        "PCIe packets are not sent again more than before",
        "Every replay is a packet that arrived damaged. A healthy board shows a few after its start, so the number "
        "alone is no finding; that it grew since an earlier record (--since) is one.",
        "warn gpu1 gpu.pcie_replay 12 PCIe packets sent again since the earlier record",
        "Reseat board and riser, clean the contacts, try another slot or a lower generation.",
        "NVIDIA/DCGM: max_pcie_replays, 80 by default; nvmlDeviceGetPcieReplayCounter",
    ),
    "gpu.bar1": Entry(
        "The BAR1 window is as large as it can be",
        "Other GPUs and network cards reach a GPU's memory through this window. With above-4G decoding or resizable "
        "BAR off it is missing or small, and direct copies are refused or slow.",
        "warn gpu0 gpu.bar1 BAR1 of 128 MiB: peers and network cards reach only that part of its memory",
        "Turn on above-4G decoding and resizable BAR in the host's firmware set-up.",
        "nvmlDeviceGetBAR1MemoryInfo",
    ),
    "gpu.numa": Entry(
        "The CPUs near the GPU are known",
        "A process on the far socket copies over the link between the sockets. When firmware or hypervisor give the "
        "slot no node, no program can place itself well.",
        "pass gpu0 gpu.numa NUMA node 0, CPUs 0-31 are near it",
        "Give a virtual machine the GPU's node, or set NUMA in the firmware set-up.",
        "nvmlDeviceGetCpuAffinity, nvmlDeviceGetNumaNodeId",
    ),
    "gpu.clocks": Entry(
        "Nobody set the clocks lower",
        "Application clocks and locked clocks outlive the program that set them, and no error tells of them: the GPU "
        "is just slower than its siblings. Judged are application clocks below the driver's or the board's default, "
        "limits that differ between siblings, and clocks of siblings that work equally hard.",
        "warn gpu2 gpu.clocks application clock 1200 MHz, greatest 1980; gpu0 has 1980",
        "nvidia-smi -i N --reset-applications-clocks --reset-gpu-clocks, or silence the finding when it is meant.",
        "Azure/azurehpc-health-checks sets them; nvmlDeviceGetApplicationsClock, nvmlDeviceGetMaxClockInfo",
    ),
    "gpu.persistence": Entry(
        "Persistence mode is on",
        "Without it the driver shuts the GPU down when the last program ends: the next one waits seconds, and power "
        "limits and clocks that were set are gone. The kernel's line that the mode is deprecated is normal.",
        "warn gpu0 gpu.persistence persistence mode is off",
        "systemctl enable --now nvidia-persistenced, or nvidia-smi -i N -pm 1 until the next boot.",
        "NVIDIA driver persistence guide; DCGM level 1 warns",
    ),
    "gpu.mig": Entry(
        "The GPU is whole or divided as planned",
        "With MIG on, programs see slices: NCCL and tensor parallelism cannot span them. With MIG planned and off, or "
        "on without devices, nothing finds its slice; the slices do not outlive a reboot.",
        "fail gpu1 gpu.mig MIG is on and not planned: 7 devices",
        "nvidia-smi -i N -mig 0 and a GPU reset; or say --mig when slices are meant.",
        "NVIDIA MIG user guide; sgl-project/sglang#2933",
    ),
    "gpu.compute_mode": Entry(
        "Programs may open the GPU",
        "In prohibited mode CUDA refuses everybody, in exclusive mode everybody but the first. The program ends with "
        "error 46, which reads like a busy GPU.",
        "fail gpu0 gpu.compute_mode compute mode is prohibited: no program can open this GPU",
        "nvidia-smi -i N -c DEFAULT, or name the planned mode.",
        "nvmlComputeMode_t in nvml.h",
    ),
    "gpu.memory": Entry(
        "The memory is there, and enough of it is free",
        "A launch that needs more than is free ends in an out-of-memory error minutes later. Said beforehand with "
        "--needs, it is told here, with the processes that hold the memory.",
        "fail gpu0 gpu.memory 20.1 GiB free of 120.0 that the launch needs; held by pid 4711 (python) 118.2 GiB",
        "Stop what the finding names, or plan with less.",
        "nvmlDeviceGetMemoryInfo, second form: without what the driver keeps; nvtop#411 for GPUs without own memory",
    ),
    "gpu.processes": Entry(
        "Who works on the GPU is known",
        "Processes are no fault. Memory that nobody can be seen to hold belongs to a process that is ending, or to "
        "one in another pid namespace: NVML gives pids of the host, and a container cannot resolve them.",
        "warn gpu0 gpu.processes 80.3 GiB are held and no process is to be seen",
        "Look from the host with nvidia-smi; when there is no process there either, reset the GPU.",
        "nvmlDeviceGetComputeRunningProcesses; NVIDIA/nvidia-docker#179 and #1483",
    ),
    "gpu.growth": Entry(
        "The earlier record is this GPU's",
        "Remapped rows, retired pages, errors of a GPU's life, PCIe replays and NVLink errors say most by how they "
        "grow. The earlier record (--since) counts only where it holds a GPU of the same UUID; a counter that went "
        "back was cleared by a reboot or reset and is no growth. What grew is told by the check it belongs to.",
        "unknown gpu0 gpu.growth the earlier record does not hold this GPU: nothing can be said of what grew",
        "Give --since a record of this machine.",
        "a board with 11 remapped rows had 12 after a reboot and served wrong answers in between",
    ),
    "nvlink.symmetry": Entry(
        "Siblings have as many active NVLinks",
        "One GPU with fewer links slows every job that spans them. No link on any GPU is a machine without bridges "
        "and no fault.",
        "fail gpu3 nvlink.symmetry 0 active links, gpu0 has 12",
        "Read 'nvidia-smi nvlink -e' and SXid lines; reset all GPUs together; reseat the bridge; call service.",
        "NVIDIA/NVSentinel#1481, leptonai/gpud#1085",
    ),
    "nvlink.errors": Entry(
        "The NVLinks count no errors that go on",
        "Replays and CRC errors are repaired by sending again: as a number they are noise, growth since an earlier "
        "record (--since) says that a link is bad. A recovery means that the link went down and trained anew.",
        "fail gpu2 nvlink.errors since the earlier record the NVLinks counted 3 link recoveries",
        "Reset all GPUs together; reseat the bridge; then call service.",
        "nvmlDeviceGetNvLinkErrorCounter; facebookresearch/gcm check-nvlink",
    ),
    "pcie.p2p": Entry(
        "The driver offers peer-to-peer between the two GPUs",
        "Without it copies go through host memory. With NVLinks up and peer-to-peer off something is wrong. 'OK' is "
        "the driver's word and no proof: copies arrive damaged or never on machines where it says OK, therefore "
        "'provcheck nccl' tries the data path.",
        "fail pair 0-1 pcie.p2p NVLinks join them, and no peer-to-peer: disabled by a driver option",
        "Read fabric.state, NVreg_ options in /etc/modprobe.d, pcie.acs and node.iommu.",
        "nvmlDeviceGetP2PStatus; NVIDIA/nccl#2329; NVIDIA/open-gpu-kernel-modules#1257",
    ),
}
