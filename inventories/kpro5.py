"""kpro5: a Proxmox host with two RTX A6000, to which the service of kpro6 moved.

Its GPUs were bound to vfio-pci for virtual machines. They are released, get NVIDIA's driver, and go into one
container, which is made where it is not there; SGLang with multi-token prediction serves Qwen3.6-27B in it. A DFlash
drafter on vLLM is tried beside it; it stays a trial until it is faster than the baseline.
"""

from provision.spec import (
    Baseline,
    Candidate,
    Driver,
    Engine,
    Gpu,
    Guest,
    Machine,
    Model,
    Mount,
    Proxmox,
    Service,
    Ssh,
)

machine = Machine(
    name="kpro5",
    ssh=Ssh(host="kpro5", user="root"),
    reboot="refused",
    # Invented addresses: `lspci -Dd 10de:` says the real ones, and a wrong one is refused before any change.
    gpus=[
        Gpu(bdf="42:00.0", model="RTX A6000"),
        Gpu(bdf="61:00.0", model="RTX A6000"),
    ],
    gpu_count=2,
    # CUDA 13 of both engines needs 580.65.06 or newer; this one also builds for the kernels of Proxmox 9.
    driver=Driver(version="580.159.04", flavour="open", route="nvidia"),
    guests=[
        Guest(
            name="llm",
            backend="pct",
            id=105,
            suite="bookworm",
            unprivileged=False,
            network="bridge:vmbr0",
            # Weights (54 GB) stay in the page cache, which counts, beside two engine processes and /dev/shm.
            proxmox=Proxmox(
                template="local:vztmpl/debian-12-standard_12.7-1_amd64.tar.zst",
                storage="local-zfs",
                size_gib=64,
                memory_mib=131072,
            ),
            shm_mib=16384,
            gpus=["42:00.0", "61:00.0"],
            userspace="bind",
            mounts=[Mount(source="/tank/models", target="/srv/models", read_only=True)],
            services=[
                Service(
                    name="qwen",
                    engine=Engine(kind="sglang", version="0.5.11", source="index", python="3.11"),
                    # An invented commit: the one that was served is not recorded.
                    model=Model(repo="Qwen/Qwen3.6-27B", revision="36270000000000000000000000000000000000aa"),
                    profile="sglang-mtp",
                    flags=[
                        "--tensor-parallel-size",
                        "2",
                        "--reasoning-parser",
                        "qwen3",
                        "--tool-call-parser",
                        "qwen3_coder",
                        "--mem-fraction-static",
                        "0.8",
                    ],
                    port=8000,
                    baseline=Baseline(
                        decode_tok_s=73.5,
                        concurrency=1,
                        source="single request on this host after SGLang with MTP was set up by hand",
                    ),
                    candidate=Candidate(
                        engine=Engine(kind="vllm", version="0.20.1", source="index", python="3.11"),
                        profile="vllm-dflash",
                        # An invented commit too. The drafter came as bare weights without a config.json: pin
                        # the commit whose config `provcheck drafter` accepts.
                        drafter=Model(
                            repo="z-lab/Qwen3.6-27B-DFlash",
                            revision="36270000000000000000000000000000000000df",
                        ),
                        flags=["--tensor-parallel-size", "2", "--reasoning-parser", "qwen3"],
                    ),
                ),
            ],
        ),
    ],
)
metal, guests = machine.pyinfra_groups()
