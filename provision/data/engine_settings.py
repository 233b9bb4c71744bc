"""The variables that every service of an engine gets: offline, caches of its own, loopback to talk over."""

from __future__ import annotations

from provision.data.profile_form import Setting

_OFFLINE_WHY = "the files are pinned and verified; nothing may be fetched in their place"
_CACHE_WHY = (
    "one compile cache for several configurations is not neutral: vLLM 0.20.1 does not key it by the "
    "drafter's layer ids"
)
_HOME = Setting(
    "HOME",
    "{cache}",
    "what has no variable of its own (FlashInfer, DeepGEMM, CUDA's compiled kernels) writes below the home folder",
    "vLLM 0.20.1 and 0.33.0 envs.py; flashinfer/jit/env.py; CUDA programming guide, CUDA_CACHE_PATH: ~/.nv",
)
_GLOO = Setting(
    "GLOO_SOCKET_IFNAME",
    "lo",
    "the processes of one service talk over loopback; without it gloo listens on the address of the host's name",
    "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, createDefaultDevice; pytorch.org, distributed",
)
NCCL_LOOPBACK = Setting(
    "NCCL_SOCKET_IFNAME",
    "lo",
    "ranks of one guest meet over loopback; NCCL takes lo only when it is told to, else it listens on the network",
    "NCCL user guide, NCCL_SOCKET_IFNAME: lo is not chosen unless no other is there or it is named",
)
"""Only where there are ranks: several GPUs."""

HUB = (
    Setting("HF_HUB_OFFLINE", "1", _OFFLINE_WHY, "huggingface_hub, environment variables"),
    Setting("TRANSFORMERS_OFFLINE", "1", _OFFLINE_WHY, "transformers, installation: offline mode"),
)
TORCH_CACHES = (
    Setting("TORCHINDUCTOR_CACHE_DIR", "{cache}/inductor", _CACHE_WHY, "PyTorch, compile-time caching"),
    Setting("TRITON_CACHE_DIR", "{cache}/triton", _CACHE_WHY, "Triton, environment knobs"),
)
SGLANG = (*HUB, *TORCH_CACHES, _HOME, _GLOO)
VLLM = (
    *HUB,
    Setting("VLLM_NO_USAGE_STATS", "1", "a service reports to nobody", "vLLM, usage stats collection"),
    Setting("VLLM_CACHE_ROOT", "{cache}/vllm", _CACHE_WHY, "measured with vLLM 0.20.1"),
    *TORCH_CACHES,
    _HOME,
    _GLOO,
    Setting(
        "VLLM_HOST_IP",
        "127.0.0.1",
        "where its processes meet: without it vLLM asks the routing table and takes the address of the network",
        "vLLM 0.20.1 and 0.33.0 utils/network_utils.py get_ip; uniproc_executor.py, multiproc_executor.py",
    ),
)
VLLM_CPU = (
    *VLLM,
    Setting(
        "VLLM_CPU_KVCACHE_SPACE",
        "1",
        "GiB of KV cache; the default takes a share of the machine's memory",
        "vLLM, CPU installation",
    ),
)
