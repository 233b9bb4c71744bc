"""Variables of NCCL and CUDA that name what one node has."""

from __future__ import annotations

OF_NODE = (
    frozenset({"CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "CUDA_CACHE_PATH", "LD_LIBRARY_PATH"})
    | {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "VLLM_NCCL_SO_PATH", "SGLANG_NCCL_SO_PATH"}
    | {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX"}
    | {"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE", "NCCL_HOSTID", "NCCL_RAS_ADDR"}
    | {"NVSHMEM_HCA_LIST", "NVSHMEM_HCA_PE_MAPPING", "NVSHMEM_IB_GID_INDEX"}
    | {"NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME"}
)
"""Names of one node's GPUs, network ports and files: they differ between healthy nodes. All else that NCCL reads is
to be the same on every rank of a communicator (NCCL user guide, environment variables)."""
