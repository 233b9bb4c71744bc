"""Findings of ``provcheck load``: GPUs at work."""

from __future__ import annotations

from checks.data.entry import Entry

_OWN = "kpro's own kernels, checks/cuda/kernels.cu"

LOAD: dict[str, Entry] = {
    "load.busy": Entry(
        "Nobody uses the GPU",
        "A load beside a running service slows it down, can take the memory it needs, and measures the two "
        "together. So a GPU with processes, or with memory in use, is not loaded.",
        "unknown gpu0 load.busy in use, not loaded: process 4711 (compute, 70231 MiB)",
        "Stop the service, or load beside it with --force.",
        "NVIDIA/DCGM#272",
    ),
    "load.start": Entry(
        "A program can use the GPU",
        "NVML can be in order and CUDA not: a missing uvm node, a fabric that is not up, a library of another "
        "version, exclusive mode. CUDA's own error code names the cause.",
        "fail gpu0 load.start cuInit gave 802 CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized",
        "Do what the finding says for that code.",
        "CUDA driver API, CUresult",
    ),
    "load.h2d": Entry(
        "Copies to the GPU run at the rate of the link",
        "Pinned copies reach 85 to 89 % of lanes x generation. Less means lost lanes, a lower generation, a slot "
        "behind a switch, or the far socket; loading a model takes longer by as much.",
        "fail gpu0 load.h2d 12.3 GB/s to the GPU, 20% of gen5 x16 (63.0)",
        "See load.pcie_width and load.pcie_generation, then the slot.",
        "PCI Express rates; stas00/ml-engineering; Azure azurehpc-health-checks",
    ),
    "load.d2h": Entry(
        "Copies from the GPU run at the rate of the link",
        "The two directions have lanes of their own: one can be slow alone.",
        "warn gpu1 load.d2h 31.0 GB/s to the host, 49% of gen5 x16 (63.0)",
        "As for load.h2d.",
        "PCI Express rates; stas00/ml-engineering; Azure azurehpc-health-checks",
    ),
    "load.copy_integrity": Entry(
        "Copies arrive unchanged",
        "A GPU, a riser or a switch that changes bits in transit gives wrong tokens and NaNs, and no error. Fresh "
        "random data is checked on the other side, every word, both ways.",
        "fail gpu0 load.copy_integrity 3 of 67108864 words arrived changed on the way to the GPU, the first at "
        "byte 4096: silent data corruption",
        "Take the GPU out of service; reseat it, test it in another slot, have it replaced.",
        _OWN,
    ),
    "load.pcie_width": Entry(
        "All lanes are there while copying",
        "An idle link may be narrower; under load it may not.",
        "fail gpu3 load.pcie_width x8 of x16 while copying",
        "Reseat the GPU; compare with the wiring of the slot.",
        "nvidia-smi manual, PCIe link width",
    ),
    "load.pcie_generation": Entry(
        "The link is at its full generation while copying",
        "An idle link goes down to generation 1 to save power, so only the generation under load says anything.",
        "fail gpu3 load.pcie_generation gen3 of gen5 while copying",
        "Look at PCIe replays and AER lines in the kernel log; set the slot to auto in the firmware; reseat.",
        "nvidia-smi manual, PCIe link generation",
    ),
    "load.memory_bandwidth": Entry(
        "The GPU's memory is as fast as its data sheet says, nearly",
        "Decoding is bound by memory: 20 % less bandwidth are 20 % fewer tokens. Copy and triad reach 85 to 93 %.",
        "warn gpu2 load.memory_bandwidth copy 2890, triad 3010 GB/s, 63% of the data sheet (4800)",
        "See load.clocks; look for another user; have the GPU looked at.",
        "data sheets; BabelStream results; clock x bus where there is no row",
    ),
    "load.memory_pattern": Entry(
        "Memory holds what is written",
        "Each word holds its own address, then the inverse, then random data that must survive the computing. "
        "Boards without ECC have no other witness.",
        "fail gpu0 load.memory_pattern 2 words of 4096 MiB did not hold the pattern 'address', the first at byte "
        "16388: silent data corruption",
        "Have the GPU replaced.",
        _OWN,
    ),
    "load.compute": Entry(
        "Every multiprocessor computes what the host computes",
        "A defective multiprocessor gives wrong results and no error: silent data corruption. Chains of integer and "
        "fp32 steps run on all of them at once, each compared with the same chain computed by the CPU.",
        "fail gpu1 load.compute 3 threads computed something else than the host, on multiprocessor 17: silent "
        "data corruption",
        "Take the GPU out of service and have it replaced.",
        f"{_OWN}; Meta, Silent data corruptions at scale (arXiv:2102.11245)",
    ),
    "load.tensor": Entry(
        "Tensor cores compute what the host computes",
        "Models run on them nearly alone, and they draw the most power. Sums of products of small whole numbers are "
        "exact in any order, so each must be the host's, on every multiprocessor.",
        "fail gpu1 load.tensor 16 or more threads computed something else than the host, on multiprocessor 41: "
        "silent data corruption",
        "Take the GPU out of service and have it replaced.",
        f"{_OWN.replace('kernels.cu', 'kernels_sm80.cu')}; PTX ISA, mma.m16n8k16",
    ),
    "load.clocks": Entry(
        "Clocks stay up at work",
        "The power cap is normal under load. Hardware slowdown, thermal slowdown and the power brake are not.",
        "fail gpu0 load.clocks 405 of 1980 MHz at work, up to 210 W: HW power brake",
        "Check air flow, heat sink, power cables and supplies.",
        "nvml.h clock event reasons",
    ),
    "load.temperature": Entry(
        "The GPU stays cool enough at work",
        "Heat shows only under load. NVML's counter tells whether the GPU was slowed down for it in between.",
        "warn gpu0 load.temperature 88 C at most, 41 before: the highest it should have is 87",
        "Check air flow, fans and heat sink.",
        "NVML temperature thresholds and violation counters",
    ),
    "load.ecc": Entry(
        "No error was counted during the load",
        "Errors that come with load are the ones that a service meets: ECC, remapped rows, PCIe replays, each "
        "compared before and after.",
        "fail gpu0 load.ecc during the load: 1 uncorrectable errors, 1 rows remapped, 0 corrected errors",
        "Reset the GPU; see gpu.ecc and gpu.row_remap; have it replaced if it comes back.",
        "NVIDIA GPU memory error management",
    ),
    "load.release": Entry(
        "The GPU is as idle as before",
        "Memory that is not given back is missing to the next service.",
        "warn gpu0 load.release 4200 MiB more in use than before the load",
        "See who uses the GPU with 'provcheck gpus' or nvidia-smi.",
        "NVML memory information",
    ),
}
