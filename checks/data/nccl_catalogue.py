"""Findings of ``provcheck nccl``: peer copies and collectives."""

from __future__ import annotations

from checks.data.entry import Entry

NCCL: dict[str, Entry] = {
    "nccl.library": Entry(
        "libnccl is there and loads",
        "An engine loads libnccl.so.2 from its own Python environment, or from where VLLM_NCCL_SO_PATH or "
        "SGLANG_NCCL_SO_PATH point. A test with another libnccl tests something else. The finding names the file and "
        "its version, and where that came from.",
        "fail host nccl.library libnccl cannot be used: libnccl.so.2: cannot open shared object file",
        "Name the engine: --unit, --pid, --env, or the file with --library. Install nvidia-nccl anew if it is broken.",
        "vLLM and SGLang, pynccl_wrapper.py; NVIDIA/nccl src/nccl.h.in",
    ),
    "nccl.cuda_runtime": Entry(
        "The engine's libcudart fits the driver and sees GPUs",
        "PyTorch asks the runtime, not NVML: a driver too old for it (error 35), a fabric that is not up (802) or "
        "a library of another driver (803) stop every engine while nvidia-smi looks well.",
        "fail host nccl.cuda_runtime CUDA runtime 13.0, driver speaks 13.0: cudaErrorSystemNotReady (802)",
        "Do what the finding says: it goes by the code that cudaGetDeviceCount gave.",
        "CUDA runtime API, cudaGetDeviceCount; pytorch/pytorch#35710",
    ),
    "nccl.gpus": Entry(
        "There are GPUs to test, and they are free",
        "Without a GPU nothing was tested, and with an engine on it the test would disturb that engine and measure "
        "it: hence 'unknown', never green.",
        "unknown host nccl.gpus not measured, a GPU is in use: gpu0 has 120.3 GiB in use",
        "Stop what uses the GPUs, or give --force.",
        "-",
    ),
    "nccl.environment": Entry(
        "The service's variables reached every rank",
        "NCCL_P2P_DISABLE, NCCL_SOCKET_IFNAME and their like decide which way the data takes. They are taken from the "
        "service's unit and files, set for every rank, and read back from /proc/self/environ before the first "
        "collective. Only names of NCCL and CUDA are taken over, no secrets. NVLink multicast is off unless the "
        "service says otherwise.",
        "pass host nccl.environment of kpro-chat.service and ours, read back by every rank: NCCL_P2P_LEVEL=SYS",
        "Run as root when a file of the unit could not be read.",
        "systemd.exec(5), EnvironmentFile=",
    ),
    "nccl.peer_copy": Entry(
        "A copy from GPU to GPU arrives whole",
        "Capability queries and even a copy's return code say 'success' while data is wrong or never comes: ACS "
        "redirection, a translating IOMMU and patched drivers do that. Each ordered pair copies fresh random "
        "patterns; a kernel on the destination checks them, and the host reads them back from there. A copy that "
        "travels back the same way proves nothing, its two errors can cancel out.",
        "fail pair 0-1 nccl.peer_copy 16384 of 16777216 words arrived wrong in a copy of 64 MiB",
        "Turn ACS off for the ports above the GPUs, set iommu=pt or turn the IOMMU off in firmware. Until then "
        "NCCL_P2P_DISABLE=1.",
        "NVIDIA/nccl#2335, NVIDIA/open-gpu-kernel-modules#1257, pytorch/pytorch#84803, vllm-project/vllm#4992",
    ),
    "nccl.init": Entry(
        "The communicator comes about",
        "Building it loads the library in one process per GPU, joins them and opens the ways between them. A healthy "
        "pair needs under a second; it gets 60, then the ranks are killed and the finding names who was behind.",
        "fail gpu1 nccl.init rank 1 (gpu1) hung 60 s in building the communicator and was killed",
        "Do what the finding says: it goes by NCCL's own warnings and by which way was found broken.",
        "NVIDIA/nccl#1999, #2079, #257, #342; a healthy pair was measured at 0.68 s",
    ),
    "nccl.hang": Entry(
        "No collective hangs",
        "A collective on a broken path does not fail, it spins for ever with the GPU at 100 %, and PyTorch waits half "
        "an hour. Here each size has 20 seconds, held from outside. After a hang the same is tried without peer "
        "access, then without shared memory: what works names the broken path. A rank that somebody stopped "
        "(SIGSTOP, a debugger) is named as such, and nothing is tried again.",
        "fail host nccl.hang rank 0 (gpu0) hung 20 s in the all-reduce of 1 MiB and was killed",
        "Mend the path that the finding names; nccl.workaround says what helps until then.",
        "NVIDIA/nccl#1999, #2079, #631; NVIDIA/nccl-tests#117",
    ),
    "nccl.crash": Entry(
        "No rank dies or gives up",
        "A rank that dies takes all others with it, and their messages are of the consequence. The finding names the "
        "first that died, in which step, with its last words.",
        "fail gpu3 nccl.crash rank 3 (gpu3) died (signal 6) in the all-reduce of 8 MiB",
        "Look at that GPU with 'provcheck gpus' and at the kernel log.",
        "-",
    ),
    "nccl.workaround": Entry(
        "Variables that let it run meanwhile",
        "After a hang or a failure this says which variables let all ranks come through. It is a way around and "
        "slower, so it is kept apart from the repair.",
        "warn host nccl.workaround NCCL_P2P_DISABLE=1 lets all ranks come through",
        "Mend the cause; until then set it in the service's unit.",
        "NVIDIA/nccl, environment variables",
    ),
    "nccl.sums": Entry(
        "Sums over all GPUs are right",
        "Small whole numbers, fresh each time, whose sum is exact in fp32, checked on every GPU: at 8 bytes, 1 MiB, "
        "8 MiB and the largest size, three times each, because NCCL takes another way at each. A wrong sum raises "
        "no error anywhere: an engine answers nonsense. It outranks a later failure of any kind.",
        "fail host nccl.sums 1 of 2097152 numbers wrong in the all-reduce of 8 MiB, seen by rank 1 (gpu1)",
        "See nccl.peer_copy for the pair, gpu.ecc and nvlink.errors; take the host out of service.",
        "NVIDIA/nccl-tests, verifiable.cu, for the kind of test",
    ),
    "nccl.transport": Entry(
        "The data takes the way that it should",
        "NCCL falls back without a word: from peer access to host memory (SHM), from there to the network, each "
        "several times slower. What it really uses is read from its own log of this run.",
        "warn host nccl.transport SHM on 2 hops: through host memory, though the driver allows peer access",
        "See nccl.peer_copy; look for NCCL_P2P_DISABLE, NCCL_P2P_LEVEL and NCCL_SHM_DISABLE in the service.",
        "NVIDIA/nccl src/transport/*.cc",
    ),
    "nccl.busbw": Entry(
        "The bus bandwidth fits the links",
        "A number of GB/s says nothing without the links' own limit: active NVLinks times what NCCL can make of one, "
        "or the slowest PCIe hop. NVLink passes from 0.85 of it and fails below 0.75; PCIe passes from 0.40 and fails "
        "below 0.25. Best of three medians, from 1 GiB up: a healthy pair of H200 read 0.81 at 256 MiB and 0.90 at "
        "1 GiB. NVLink multicast beats the links' rate, so there is no ratio with it. Between nodes over sockets the "
        "limit is what one TCP connection each way carries there, measured in the same run: passes from 0.50, fails "
        "below 0.25.",
        "fail host nccl.busbw 180.2 GB/s at 1 GiB over 2 GPUs: 0.49 of 370.8 (18 NVLinks x 20.6 GB/s), below 0.75",
        "Look at nvlink.state, gpu.throttle and pcie.width, and measure again on an idle host.",
        "NVIDIA/nccl src/graph/topo.h; NVIDIA/nccl-tests doc/PERFORMANCE.md; Azure/azurehpc-health-checks for floors",
    ),
    "nccl.slow_rank": Entry(
        "No rank comes late",
        "All ranks wait for the last one, so one slow process or GPU slows all, and each looks equally slow. Here each "
        "rank's own work before the collective is timed.",
        "warn gpu2 nccl.slow_rank rank 2 (gpu2) comes 48.0 ms late to every collective",
        "Look at throttling, at other processes on that GPU, at the CPUs and the NUMA node of the process.",
        "-",
    ),
    "nccl.own_gpu": Entry(
        "Every rank has a GPU of its own",
        "Two containers with the same GPU, or one machine under two host names, pass as two nodes: NCCL looks for a "
        "GPU that is used twice within one host only, and a host is its name and boot id. What is measured then is a "
        "GPU that talks to itself. The nodes compare the UUIDs of their GPUs when they meet (of MIG instances "
        "theirs), and nothing is measured where two are one.",
        "fail node1 nccl.own_gpu GPU 0 of node 0 and GPU 0 of node 1 are one: GPU-8f1c... Nothing was measured",
        "Start the node on another machine, hand its container another GPU, or name others with --gpus.",
        "NVIDIA/nccl src/init.cc, Duplicate GPU detected; CUDA driver API, cuDeviceGetUuid_v2",
    ),
    "nccl.node": Entry(
        "Every node came and does its part",
        "With many nodes one bad node stops or slows all. A node that never comes is named; with --pairwise pairs of "
        "nodes are tested first, and a node that is bad with both its neighbours is the bad one.",
        "fail node3 nccl.node node 3 never came to 10.0.0.1:29400 within 120 s",
        "Start the same command on that node; look at its network and its own report.",
        "GoogleCloudPlatform/cluster-health-scanner, facebookresearch/gcm: pairs of nodes",
    ),
}
