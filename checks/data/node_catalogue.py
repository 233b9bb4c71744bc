"""Findings about the machine around its GPUs: kernel log, bus, device nodes, shared memory, environment."""

from __future__ import annotations

from checks.data.entry import Entry

NODE: dict[str, Entry] = {
    "node.reachable": Entry(
        "The machine named by --host can be asked",
        "A machine that cannot be asked is not known to be healthy: the answer is 'unknown', exit code 3.",
        "unknown host node.reachable ssh could not reach kpro5: Connection refused",
        "Do what the finding says; 'ssh NAME true' and 'ssh NAME python3 -V' must work by hand.",
        "ssh(1): exit code 255 is ssh's own",
    ),
    "node.test_host": Entry(
        "Replayed evidence opens a gate on a test host only",
        "A gate that accepts a record would let a machine serve on the evidence of another day or "
        "another machine. Only a machine that its builder marked as a throw-away test host may do so.",
        "unknown host node.test_host replayed evidence opens a gate on a test host only, and this is none",
        "Run the check live: leave --replay out.",
        "/etc/kpro/test-host: root's, mode 0444, one line 'kpro-test-host <uuid>'; SMBIOS product on "
        "virtual machines",
    ),
    "gpu.xid": Entry(
        "The driver reported no error of this GPU",
        "An Xid is the driver's own word on what went wrong: a program's fault, a memory row, a dead link, a GPU "
        "off the bus. Each wants another act. What came before the GPU's last reset is past.",
        "fail gpu3 gpu.xid Xid 64 row remapping or page retirement failed [needs a GPU reset]",
        "Do what the finding says for its kind of Xid; an application error needs no reset.",
        "NVIDIA Xid catalog; kernel log",
    ),
    "fabric.sxid": Entry(
        "NVSwitches reported no error",
        "A fatal SXid takes links or the whole fabric down; a non-fatal one stalls the programs on one GPU.",
        "warn host fabric.sxid SXid 12028 egress non-posted privilege error (non-fatal) on the NVSwitch at 86:00.0",
        "Reset all GPUs and switches together after a fatal one; restart the programs after another.",
        "Fabric Manager User Guide, appendix D",
    ),
    "fabric.manager": Entry(
        "Fabric manager runs where NVSwitches need it",
        "Without it CUDA ends with error 802, although nvidia-smi works and every link looks up. It accepts only "
        "a driver of exactly its own version. Errors in its own log since its last start count too.",
        "fail host fabric.manager 6 NVSwitches are on the bus: they need nvidia-fabricmanager, and it does not run",
        "Install it in the driver's version, hold both packages, enable the service.",
        "Fabric Manager User Guide; NVIDIA/NVSentinel#889",
    ),
    "driver.log": Entry(
        "The driver's module asks for nothing in the kernel log",
        "A module of another kernel, one that is not signed, or one that finds no GPU says so there and nowhere else. "
        "Lines of the driver that no rule knows are counted and the last is quoted: a replayed log with an error that "
        "is not understood is not green. Where NVML itself was asked, its list of GPUs counts more.",
        'warn host driver.log 3 of the driver\'s lines are known to no rule here; the last: "NVRM: ..."',
        "Do what the finding says; look an unknown line up in the sources of the open module.",
        "nv.c of NVIDIA/open-gpu-kernel-modules",
    ),
    "pcie.errors": Entry(
        "No PCIe error of a GPU that could not be corrected",
        "An uncorrected error (AER) lost a transfer. A fatal one cuts the link, and the GPU with it, often without any "
        "Xid. Errors of bridges above a GPU count, those of other devices do not.",
        "fail 0000:01:00.0 pcie.errors 2 lines of uncorrected PCIe errors (fatal) of the GPU at 0000:01:00.0",
        "Reseat the board and its riser, try another slot; update firmware.",
        "drivers/pci/pcie/aer.c of Linux",
    ),
    "driver.peermem": Entry(
        "Network cards can reach GPU memory",
        "Without nvidia_peermem (or DMA-BUF) RDMA goes through host memory. Its complaints point to a program that "
        "ended while a card still held its memory.",
        "warn host driver.peermem nvidia-peermem met an invalid context 7 times",
        "Load the module, or see that NCCL uses DMA-BUF; look for a program that crashed.",
        "kernel log; GPUDirect RDMA documentation",
    ),
    "node.iommu": Entry(
        "No IOMMU stands between GPUs",
        "A translating IOMMU makes copies between GPUs slow, or they hang, or they arrive damaged while every "
        "capability says that peer access works.",
        "warn host node.iommu the IOMMU translates the addresses of 2 GPUs (DMA-FQ)",
        "iommu=pt on the kernel command line, unless the host gives GPUs to virtual machines.",
        "NVIDIA/nccl#257 and #1999, pytorch#84803",
    ),
    "pcie.acs": Entry(
        "Bridges above GPUs do not redirect peer traffic",
        "With ACS redirection a copy between two GPUs below one switch goes up to the processor. Only bridges on a "
        "GPU's own way count: those that lead to NVSwitches or network cards do not.",
        "warn host pcie.acs 2 bridges above the 2 GPUs redirect peer requests: 0000:3a:00.0 (0x001d)",
        "Switch ACS off in the firmware setup; leave it on where GPUs go to virtual machines.",
        "PCI Express Base Specification, ACS; NVIDIA/nccl#2079",
    ),
    "node.device_nodes": Entry(
        "The device nodes are there and fit the driver",
        "nvidia-smi needs no /dev/nvidia-uvm, CUDA does. A node made under an older boot may have a major number "
        "that now belongs to another driver.",
        "fail host node.device_nodes /dev/nvidia-uvm is missing: CUDA will not start here, although nvidia-smi works",
        "Make the nodes (nvidia-modprobe -c 0 -u), and pass all of them into a container.",
        "nvidia-modprobe(1); /proc/devices",
    ),
    "node.cgroup": Entry(
        "The device cgroup lets this process open the driver",
        "A node that is visible may still be refused: 'systemctl daemon-reload' takes GPUs from running containers.",
        "fail host node.cgroup /dev/nvidiactl is there, and opening it is not permitted",
        "Allow the major numbers for the container, then restart it; the host is well.",
        "NVIDIA/nvidia-container-toolkit#48 and #1227",
    ),
    "node.shm": Entry(
        "/dev/shm is large enough",
        "NCCL and the processes of an engine exchange data there. Docker gives 64 MiB; the error says only "
        "'unhandled system error'.",
        "fail host node.shm /dev/shm has 64 MiB of 64 MiB free: too little for 2 GPUs",
        "docker --shm-size=8g or --ipc=host; mount a larger tmpfs in LXC.",
        "NVIDIA/nccl#342 and #290",
    ),
    "node.memlock": Entry(
        "Memory may be locked for RDMA",
        "Network cards need pinned memory; a limit of 8 MiB makes registration fail. It matters only where an "
        "InfiniBand or RoCE port is up.",
        "fail host node.memlock at most 8192 KiB may be locked, and mlx5_0 is in use",
        "LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 for a container.",
        "NVIDIA/nccl-tests#206",
    ),
    "node.environment": Entry(
        "No variable harms GPU programs",
        "Debuggers, profilers and old workarounds stay in unit files for years: they serialise launches, switch "
        "peer copies off, or hide all GPUs.",
        "warn host node.environment NCCL_P2P_DISABLE=1: GPUs do not copy to each other directly",
        "Remove the variable, after the fault that it worked around is mended.",
        "DCGM's list of variables; NCCL and CUDA documentation",
    ),
    "node.nccl_crash": Entry(
        "No process crashed inside NCCL",
        "A segfault in libnccl ends a rank without a word in its own log; the other ranks hang.",
        "warn host node.nccl_crash 1 crashes inside libnccl; the last: pt_main_thread[2536443]: segfault at 7f79",
        "Read the log of that process; then provcheck nccl.",
        "kernel log",
    ),
}
