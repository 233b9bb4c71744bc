"""Inventory of a session: this machine's GPUs in one container, in it a real vLLM that lies on the machine as a tree.

KPRO_CASE says what is to serve: ``good``, ``eager`` (the same without CUDA graphs), ``beaten`` (no speculation, with
the good one as its candidate), ``try-NAME`` (good, with the drafter NAME of the folder as its candidate), or ``tp2``
(no speculation, over two GPUs); or that nothing serves: ``both`` (all GPUs in one container), ``apart`` (a container
for each GPU). scripts/gpu-engine and scripts/gpu-pair write the rest of the environment."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from pathlib import Path

from provision.spec import Candidate, Driver, Engine, Gpu, Guest, Machine, Model, Mount, Service
from provision.stack.manifest import digest, manifest

CASE = os.environ.get("KPRO_CASE", "good")
SERVES = CASE not in ("both", "apart")
MODELS = Path(os.environ.get("KPRO_MODELS", "/nonexistent"))
TREE = os.environ.get("KPRO_TREE", "")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
INSIDE = "/opt/machine"
_FLAGS = (
    *("--max-model-len", "2048", "--max-num-seqs", "4", "--dtype", "bfloat16", "--no-enable-prefix-caching"),
    *("--kv-cache-memory-bytes", "1073741824", "--gpu-memory-utilization", "0.05"),
)
_ENVIRONMENT = {
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "TORCHINDUCTOR_COMPILE_THREADS": "4",
    "OMP_NUM_THREADS": "2",
    "CUDA_HOME": "/usr/local/cuda",
}
_OVER_TWO = {
    # NVLink multicast stays off, whatever the machine's own environment says.
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
    # A process that renames itself leaves its environment readable.
    "SPT_NOENV": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}


def gpus() -> list[Gpu]:
    found = []
    for info in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        model = re.search(r"^Model:\s*(.+)$", info.read_text(), re.MULTILINE)
        found.append(Gpu(bdf=info.parent.name, model=model[1].strip() if model else ""))
    return found


def driver() -> Driver | None:
    path = Path("/proc/driver/nvidia/version")
    text = path.read_text() if path.exists() else ""
    version = re.search(r"\s(\d{3}\.[\d.]+)\s", text)
    if version is None:
        return None
    flavour = "open" if "Open Kernel Module" in text else "proprietary"
    return Driver(version=version[1], flavour=flavour, route="run")


def mounts() -> list[Mount]:
    """The machine's Python is its own: program, library and headers in a prefix of their own, which Python finds by
    itself. Debian's pyconfig.h is looked for in its usual place."""
    base, program = sys.base_prefix, Path(sys.executable).resolve()
    pairs = [
        (str(program.parent), f"{INSIDE}/bin"),
        (sysconfig.get_path("stdlib"), f"{INSIDE}/lib/python{PYTHON}"),
        (f"{base}/include/python{PYTHON}", f"{INSIDE}/include/python{PYTHON}"),
        *([(TREE, TREE)] if SERVES else []),
        (packages(), packages()),
    ]
    for folder in (f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}/python{PYTHON}", "/usr/local/cuda"):
        if Path(folder).is_dir():
            pairs.append((str(Path(folder).resolve()), folder))
    return [Mount(source=source, target=target) for source, target in pairs]


def packages() -> str:
    """Where the machine's PyTorch lies."""
    return os.environ.get("KPRO_PACKAGES") or sysconfig.get_path("platlib")


def model(name: str) -> Model:
    folder = MODELS / name
    return Model(repo=f"session/{name}", revision=digest(manifest(folder)), folder=folder)


def service() -> Service:
    engine = Engine(
        kind="vllm",
        version="0.20.1",
        source="tree",
        python=PYTHON,
        interpreter=f"{INSIDE}/bin/{Path(sys.executable).resolve().name}",
        folders=[TREE, packages()],
    )
    plain = CASE in ("beaten", "tp2")
    tried = "good" if CASE == "beaten" else CASE.removeprefix("try-") if CASE.startswith("try-") else None
    return Service(
        name="chat",
        engine=engine,
        model=model("target"),
        profile="plain" if plain else "vllm-dflash",
        drafter=None if plain else model("good"),
        flags=(*_FLAGS, "--enforce-eager") if CASE == "eager" else _FLAGS,
        environment=_ENVIRONMENT | (_OVER_TWO if CASE == "tp2" else {}),
        ready_seconds=300,
        candidate=tried
        and Candidate(
            engine=engine,
            profile="vllm-dflash",
            drafter=model(tried),
            flags=_FLAGS,
            environment=_ENVIRONMENT,
        ),
    )


def guest(name: str, id: str, given: list[Gpu], services: list[Service]) -> Guest:
    return Guest(
        name=name,
        backend="lxc",
        id=id,
        suite="trixie",
        gpus=[gpu.bdf for gpu in given],
        userspace="bind",
        mounts=mounts(),
        services=services,
    )


def guests_of(case: str) -> list[Guest]:
    id, there = os.environ["GUEST"], gpus()
    if case == "apart":
        halves = [there[:1], there[1:]]
        return [guest(f"node{at}", f"{id}-{at}", half, []) for at, half in enumerate(halves)]
    return [guest("engine", id, there, [service()] if SERVES else [])]


machine = Machine(
    name="gpubox",
    managed=False,
    models=os.environ.get("KPRO_MODELS_PLACE", "/srv/kpro-session-models"),
    gpus=gpus(),
    gpu_count=len(gpus()),
    driver=driver(),
    guests=guests_of(CASE),
)
metal, guests = machine.pyinfra_groups()
