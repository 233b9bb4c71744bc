"""Error texts that GPU programs print, what each means, and what to do: for whoever has only the text.

``pattern`` is searched in the text, upper and lower case alike. The first rows are the most telling.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Symptom(NamedTuple):
    """``check`` is the finding or command that proves it on the machine."""

    name: str
    pattern: str
    cause: str
    fix: str
    check: str
    source: str


_RESET = "read gpu.xid and gpu.recovery, reset the GPU, or reboot"
_CLEAN = "uninstall pynvml and nvidia-ml-py3, install nvidia-ml-py"

SYMPTOMS = (
    Symptom("driver-mismatch", r"Driver/library version mismatch|RmVersionMismatch|LIB_RM_VERSION_MISMATCH",
            "the packages were upgraded under the loaded kernel module (NVML error 18); or a container brings other"
            " libraries than its host",
            "reboot or reload the modules, and hold the driver packages; a container needs its host's version",
            "driver.library", "tinygrad/open-gpu-kernel-modules#47, shine-cluster#30, machine-shop#70"),
    Symptom("cgroup-lost", r"Failed to initialize NVML: Unknown Error|NVMLError_Unknown|NVML.*\b999\b",
            "the container lost /dev/nvidia* from its device cgroup, as after 'systemctl daemon-reload' on the host;"
            " the host is well",
            "restart the container; give it its devices by a way that a reload does not undo", "node.cgroup",
            "NVIDIA/nvidia-container-toolkit#48, #251, #1227"),
    Symptom("installer-in-container", r"An NVIDIA kernel module '[\w-]+' appears to already be loaded",
            "NVIDIA's .run installer wants to build the kernel module: in a container it must not, the module is the"
            " host's; on a host something still uses the old one",
            "in a container pass --no-kernel-modules, with exactly the host's version; on a host stop what uses the"
            " GPUs",
            "driver.library", "lxc/lxd#5415; README of NVIDIA's installer"),
    Symptom("container-node-missing", r"Could not get mode or device ID of /dev/|Device /dev/nvidia\S* does not exist",
            "a Proxmox container is given a device node (devN) that the host does not have yet: it does not start",
            "make the nodes before guests start: a unit ordered before pve-guests.service that runs nvidia-modprobe"
            " -c 0 and nvidia-modprobe -u -c 0", "node.device_nodes",
            "proxmox/pve-container, src/lxc-pve-prestart-hook"),
    Symptom("container-node-is-file", r"/dev/\S+ is not a device\b",
            "a plain file lies where a device node belongs, left by a bind mount or by touch: the container that is"
            " given it does not start",
            "ls -l it on the host; an empty plain file: rm it, then make the node (nvidia-modprobe, or load the"
            " driver)",
            "node.device_nodes", "proxmox/pve-container, PVE/LXC/Tools.pm; tteck/Proxmox#3758"),
    Symptom("repository-signature", r"(?:InRelease|Release)'? is not signed|Sub-process \S*sqv returned an error"
            r"|SHA1 is not considered secure|(?:NO_PUBKEY|EXPKEYSIG) [0-9A-F]{8,}|OpenPGP signature verification"
            r" failed",
            "apt cannot prove that the repository's index is its maker's: the key is missing, has ended, or signs with"
            " SHA-1, which Debian 13 refuses",
            "fetch the maker's current keyring package; never AllowInsecureRepositories or [trusted=yes]",
            "driver.loaded", "devcontainers/features#1591"),
    Symptom("modules-load-failed", r"Failed to find module '\S+'|systemd-modules-load\S* .*(?:failed|FAILURE)",
            "a list of modules names one that does not exist (often a slip: vifio), so its unit ends as failed",
            "take the line out of /etc/modules or /etc/modules-load.d", "driver.loaded",
            "systemd, src/modules-load/modules-load.c"),
    Symptom("lxc-hook-privileged", r"This hook currently only works in unprivileged mode|"
            r"nvidia\.runtime.{0,60}(?:privileged|incompatible)",
            "LXC's nvidia hook runs in unprivileged containers only",
            "make the container unprivileged, or pass the nodes in one by one", "node.device_nodes",
            "lxc/lxc, hooks/nvidia; canonical/lxd#4574"),
    Symptom("fabric-manager-without-switch", r"NV_WARN_NOTHING_TO_DO",
            "fabric manager runs on a machine that has no NVSwitch: there is nothing for it to do, and its unit fails",
            "systemctl disable --now nvidia-fabricmanager; it belongs to machines with NVSwitches only",
            "fabric.manager", "cube-studio#29"),
    Symptom("uvm-missing", r"CUDA_ERROR_UNKNOWN|CUDA unknown error|cuInit\D{0,40}\b999\b",
            "CUDA cannot open /dev/nvidia-uvm: it is not there, or not readable in this container; nvidia-smi still"
            " works",
            "nvidia-modprobe -u -c 0 on the host, and pass /dev/nvidia-uvm and -uvm-tools in; with an Xid 79 or 154 in"
            " the kernel's log it is not the node: reboot", "node.device_nodes",
            "ollama#1895, community-scripts/ProxmoxVE#5740"),
    Symptom("driver-mismatch-cuda",
            r"\b803\b.*(?:driver|combination)|unsupported display driver|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            "the libraries of user space and the kernel's module are of two versions, as after a driver change on the"
            " host that the container did not follow",
            "install user space of exactly the module's version (/proc/driver/nvidia/version); recreate containers",
            "driver.library", "games-on-whales/wolf#410; CUDA error 803"),
    Symptom("adapter-init", r"RmInitAdapter failed|rm_init_adapter failed",
            "the driver could not start this GPU: after a virtual machine, without power (D3cold), or a fault of its"
            " own",
            "read the kernel's lines before this one; a cold reboot; when it recurs, another slot or board",
            "driver.adapter_init", "NVIDIA/open-gpu-kernel-modules#853 and #888"),
    Symptom("vbios", r"kgspExtractVbios|Failed to copy vbios to system memory",
            "the driver cannot read the GPU's own firmware (VBIOS), often after vfio-pci or a virtual machine had it",
            "a cold reboot; look for half-written vfio settings (a module 'vifio' in /etc/modules)",
            "driver.adapter_init", "NVIDIA/open-gpu-kernel-modules, kernel_gsp_tu102.c"),
    Symptom("no-device-handle", r"Unable to determine the device handle for (?:gpu|GPU)",
            "the driver lists a GPU that does not answer: it fell off the bus, or its start failed",
            "read gpu.lost and driver.adapter_init; power the host off and on", "gpu.lost",
            "nvidia-smi; NVIDIA/open-gpu-kernel-modules#900"),
    Symptom("driver-not-loaded", r"couldn't communicate with the NVIDIA driver|Driver Not Loaded|DriverNotLoaded",
            "the kernel module is not loaded", "modprobe nvidia, and read 'dmesg | grep -i nvrm' when that fails",
            "driver.loaded", "nvml.h, error 9"),
    Symptom("nvml-missing", r"NVML Shared Library Not Found|libnvidia-ml\.so(?:\.1)?: cannot open|LibraryNotFound",
            "the driver's user-space part is not installed, or not visible in this container",
            "install it in the kernel module's version; pass it into the container", "driver.library",
            "nvml.h, error 12"),
    Symptom("nvlinks-all-down", r"all links are in-?active",
            "no NVLink of this GPU is up: it did not train, or its switches are not configured",
            "read nvlink.state and fabric.state; restart fabric manager in the driver's version; reset all GPUs",
            "nvlink.state", "leptonai/gpud#1085"),
    Symptom("nvlink-inactive", r"Link \d+: <inactive>", "a link did not train: hardware, or a bridge not fully seated",
            "compare with the siblings; on boards without a bridge all links of every GPU are inactive, which is well",
            "nvlink.state", "azhpc-diagnostics#73, NVIDIA/NVSentinel#1481"),
    Symptom("fabric-not-ready", r"\b802\b.*not yet initialized|system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY",
            "the NVSwitch fabric is not configured: fabric manager does not run or has another version than the driver;"
            " nvidia-smi -L still works",
            "start nvidia-fabricmanager in exactly the driver's version, then look at fabric.state", "fabric.state",
            "huggingface_hub#4128 and #4134, pytorch#35710, gpu-burn#92, ollama#9031"),
    Symptom("fabric-status", r"(?:Status\s*:\s*)Insufficient Resources",
            "the fabric calls itself completed with an error status: it is not usable",
            "restart fabric manager; check its partitions", "fabric.state", "azhpc-images#506, NVIDIA/NVSentinel#883"),
    Symptom("fabric-in-progress", r"(?:Fabric\s+)?State\s*:\s*In Progress",
            "the fabric is still being configured; for minutes: fabric manager failed",
            "systemctl status nvidia-fabricmanager; look again in a minute", "fabric.state",
            "NVIDIA/NVSentinel#883 and #889"),
    Symptom("shm-too-small",
            r"posix_fallocate failed.*No space left|creating shared memory segment|/dev/shm/nccl-|shm\.h:\d+ NCCL WARN|"
            r"Bus error.*(?:shm|shared memory)|insufficient shared memory",
            "/dev/shm is too small for NCCL: a container gets 64 MiB by default",
            "docker --shm-size=8g or --ipc=host; a larger tmpfs in LXC", "node.shm",
            "NVIDIA/nccl#342 and #290, vllm#1710 and #6574, sglang#1986, MiniMax-01#42"),
    Symptom("memlock", r"ibv_reg_mr\w* failed.*(?:Cannot allocate memory|ENOMEM)|ibv_create_cq.*Cannot allocate memory",
            "the process may not lock enough memory for the network card (RLIMIT_MEMLOCK, often 8 MiB)",
            "LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 for a container", "node.memlock",
            "NVIDIA/nccl-tests#206"),
    Symptom("p2p-disabled-over-nvlink", r"P2P is disabled between NVLINK connected GPUs",
            "the links are up and the driver refuses peer access: fabric, access control or a driver option",
            "read pcie.p2p and fabric.state; do not set NCCL_IGNORE_DISABLED_P2P, it only hides it", "pcie.p2p",
            "NVIDIA/nccl#2329"),
    Symptom("nvls", r"nvls\.cc:\d+ NCCL WARN|NVLS.*(?:failed|invalid argument)|CUDA failure.*multicast",
            "the NVSwitch fabric is broken, and only the switches' reduction (NVLS) shows it",
            "read fabric.state, restart fabric manager; NCCL_NVLS_ENABLE=0 only works around it", "fabric.state",
            "NVIDIA/nccl#1562"),
    Symptom("memory-not-supported", r"NotSupported.*nvmlDeviceGetMemoryInfo|nvmlDeviceGetMemoryInfo.*Not ?Supported",
            "a GPU that shares its host's memory (GB10, DGX Spark) has no size of its own in NVML",
            "take the size from /proc/meminfo or cudaMemGetInfo; update the program that asks", "gpu.memory",
            "NVIDIA/cosmos#180, kubernetes-sigs/dra-driver-nvidia-gpu#1073, RL#2203"),
    Symptom("pynvml-version", r"module 'pynvml' has no attribute '__version__'",
            "nvidia-ml-py has no __version__, which the old package pynvml had",
            "update the program; importlib.metadata.version('nvidia-ml-py') gives it", "driver.library",
            "NVIDIA/TensorRT-LLM#2570"),
    Symptom("pynvml-foreign",
            r"module 'pynvml' has no attribute|pynvml.*(?:deprecated|FutureWarning)|from pynvml import",
            "an old package named pynvml or nvidia-ml-py3 shadows NVIDIA's nvidia-ml-py", _CLEAN, "driver.library",
            "vllm#12386, #12847 and #12977, nvitop#44"),
    Symptom("uncorrectable-ecc", r"uncorrectable ECC error|CUDA_ERROR_ECC_UNCORRECTABLE",
            "memory gave data that ECC could not mend (Xid 48, 63, 94 or 95): not a lack of memory",
            "read gpu.xid, gpu.ecc and gpu.row_remap; restart the process; reset the GPU when remapping is pending",
            "gpu.ecc", "vllm#5222, verl#407, ollama#4226"),
    Symptom("off-the-bus", r"fallen off the bus|GPU is lost",
            "the GPU no longer answers on PCIe: power, slot, riser, or itself (Xid 79, or without any Xid)",
            "power the host off and on; reseat the board and its plugs when it recurs", "gpu.lost",
            "NVIDIA/NVSentinel#155, leptonai/gpud#1209"),
    Symptom("gsp", r"Xid.*\b(?:119|120)\b|Timeout after \d+s of waiting for RPC response|GSP.*(?:RPC|heartbeat)",
            "the GPU's own firmware (GSP) hangs; every call to it takes long or never returns", _RESET, "gpu.xid",
            "dcgm-exporter#84, open-gpu-kernel-modules#446, gpud#117, DCGM#144"),
    Symptom("gpu-err", r"\bERR!|GPU requires reset",
            "a part of the GPU's readings fails: GSP or the GPU itself", _RESET, "gpu.recovery",
            "gpustack/runtime#26, dcgm-exporter#46"),
    Symptom("p2p-broken", r"(?:NCCL|all_?reduce|collective).*(?:hang|timed? ?out)|Watchdog caught collective|"
            r"generating GPU P2P access cache|Timeout.*ALLREDUCE",
            "GPUs wait for each other: a peer copy that never arrives (ACS or a translating IOMMU), or a dead rank",
            "provcheck nccl repeats it with peer copies off and names the layer; then pcie.acs and node.iommu",
            "pcie.acs",
            "NVIDIA/nccl#257, #606, #667, #1999, #2079; nccl-tests#117; vllm#6895 and #8735"),
    Symptom("p2p-wrong-data", r"(?:peer|p2p).*(?:mismatch|wrong|corrupt)|Invalid value when checking the pattern",
            "peer copies arrive damaged although every capability says yes: IOMMU, ACS, or a patched driver",
            "provcheck load compares every pair on the destination; iommu=pt, ACS off, or peer copies off", "pcie.p2p",
            "NVIDIA/nccl#2335, NVIDIA/open-gpu-kernel-modules#1257, pytorch#84803, rapidsmpf#1128, club-3090#922"),
    Symptom("p2p-slow", r"P2P.*(?:10|100)x slow|NVLink.*active.*slow",
            "links look active and the data does not go over them", "provcheck nccl measures the way that is used",
            "pcie.p2p", "dstack#1167"),
    Symptom("unhandled-system-error", r"unhandled system error",
            "NCCL met an error of the operating system: mostly /dev/shm, network or device access",
            "run it with NCCL_DEBUG=WARN and read the line before; look at node.shm and node.memlock", "node.shm",
            "vllm#1710, production-stack#44"),
    Symptom("mig", r"MIG.*(?:int|parse|invalid literal)|invalid literal for int.*MIG|Insufficient Permissions.*MIG",
            "MIG is on: the whole GPU gives no memory or utilisation, only its parts do",
            "name a MIG device, or switch MIG off (nvidia-smi -mig 0) and reset", "gpu.mig",
            "sglang#2933, gpustat#102"),
    Symptom("pcie-limited-card", r"available PCIe bandwidth, limited by",
            "a network card runs on fewer lanes than it could: no finding about a GPU",
            "look at the slot of that card; the GPUs' own width is gpu.pcie_width", "gpu.pcie_width",
            "imbue-ai/cluster-health"),
    Symptom("pcie-slow", r"PCIe.*(?:x[148]\b|gen ?1|2\.5 ?GT/s)",
            "a link on fewer lanes is a fault; generation 1 while idle is not",
            "read gpu.pcie_width and gpu.pcie_generation while something copies; reseat the board", "gpu.pcie_width",
            "nvtop#6, jan#183, club-3090#1098, NVIDIA/NVSentinel#890"),
    Symptom("topology-slow", r"topo.*(?:hang|slow|\d{2,} ?s(?:ec)?)|nvidia-smi.*(?:hang|stuck|takes)",
            "the driver waits for a GPU or a link that does not answer, such as a bridge that is half seated",
            "reseat the NVLink bridge; read gpu.xid", "driver.responds", "NVIDIA/nccl#557, gpud#117"),
    Symptom("remap-growth", r"rows? remapped.*\d+.*->|Xid.*\b(?:48|63|94|171)\b",
            "memory goes bad row by row: one that is healed is fine, growth after a reboot is a dying board",
            "provcheck gpus --since an earlier record judges the growth", "gpu.row_remap", "vllm-backport#62"),
    Symptom("xid", r"NVRM: Xid|\bXid\W{0,3}\d", "the driver's own report of an error of a GPU",
            "save the kernel log and give it to provcheck gpus --replay: it names the kind and the act", "gpu.xid",
            "NVIDIA Xid catalog"),
    Symptom("false-green", r"PASS.*(?:MEMORY_ALLOC|error)|diag.*healthy.*(?:fail|error)",
            "another tool calls a machine healthy that it could not look at",
            "believe only checks that could look: unknown is not healthy", "driver.responds",
            "IBM/autopilot#68, DCGM#284"),
    Symptom("out-of-memory", r"CUDA(?: error:)? out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation",
            "the GPU's memory is used up: by this program, or by another that still holds it",
            "look at gpu.processes and gpu.memory; provcheck fit says what the model needs", "gpu.memory",
            "CUDA runtime error 2"),
    Symptom("no-devices-found", r"No devices were found",
            "NVML lists no GPU: none started, none is on the bus, or none was passed into this container",
            "read driver.adapter_init, which has the kernel's word on each GPU; lspci -nnk -d 10de: shows the bus",
            "gpu.count", "nvidia-smi, exit code 6"),
    Symptom("docker-runtime", r"could not select device driver \S* ?with capabilities: \[\[gpu",
            "docker knows no runtime for GPUs: nvidia-container-toolkit is missing, or docker is not set up for it",
            "install nvidia-container-toolkit, then: nvidia-ctk runtime configure --runtime=docker, and restart docker",
            "node.device_nodes", "NVIDIA Container Toolkit installation guide"),
    Symptom("no-device",
            r"no CUDA-capable device|CUDA_ERROR_NO_DEVICE|No CUDA GPUs are available|Found no NVIDIA driver",
            "no GPU is visible to CUDA: hidden by a variable, no device node (nvidia-uvm), or no driver",
            "look at node.environment, node.device_nodes and driver.loaded", "node.device_nodes",
            "CUDA runtime error 100"),
    Symptom("device-busy", r"is/are busy or unavailable|cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE",
            "the GPU's compute mode is prohibited, or exclusive and another process has it; or MIG is on without a"
            " device",
            "read gpu.compute_mode, gpu.processes and gpu.mig", "gpu.compute_mode", "CUDA error 46, cuda.h"),
    Symptom("driver-too-old", r"driver on your system is too old|driver version is insufficient for CUDA",
            "the program was built for a newer CUDA than the driver knows",
            "install a newer driver, or a build of the program for the driver's CUDA version (nvidia-smi names it)",
            "driver.floor", "CUDA error 35, cudaErrorInsufficientDriver"),
    Symptom("no-peers", r"platform lacks GPU P2P capability|Custom allreduce is disabled because",
            "the GPUs cannot copy to each other directly: no NVLink or bridge, another host bridge, or a board without"
            " peer-to-peer; the engine works, only slower", "read pcie.p2p and nvlink.state", "pcie.p2p",
            "vllm, custom_all_reduce.py"),
    Symptom("no-kernel-image", r"no kernel image is available",
            "the program was not built for this generation of GPUs", "install a build for it", "driver.floor",
            "CUDA runtime error 209"),
    Symptom("illegal-address", r"illegal memory access|CUDA_ERROR_ILLEGAL_ADDRESS|device-side assert",
            "a kernel reached out of bounds (Xid 31, 13 or 43): a program's fault, such as a drafter's mask token"
            " beyond the vocabulary",
            "no GPU reset; check the model's and the drafter's config (provcheck drafter)", "gpu.xid",
            "CUDA runtime error 700"),
)  # fmt: skip

_TABLE = tuple((re.compile(row.pattern, re.IGNORECASE), row) for row in SYMPTOMS)
TEXT_LIMIT = 8000


def explain(text: str) -> tuple[Symptom, ...]:
    """The rows that a text matches, the most telling first. Pure; only the first 8000 characters are read."""
    return tuple(row for pattern, row in _TABLE if pattern.search(text[:TEXT_LIMIT]))
