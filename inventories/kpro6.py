"""kpro6: the Proxmox host that is being given up; its service moves to kpro5.

The same service as on kpro5, without the trial: nothing new is begun on a host that is about to go.
"""

from provision.spec import Baseline, Driver, Engine, Gpu, Guest, Machine, Model, Mount, Service, Ssh

machine = Machine(
    name="kpro6",
    ssh=Ssh(host="kpro6", user="root"),
    reboot="refused",
    # Invented addresses: `lspci -Dd 10de:` says the real ones, and a wrong one is refused before any change.
    gpus=[
        Gpu(bdf="42:00.0", model="RTX A6000"),
        Gpu(bdf="61:00.0", model="RTX A6000"),
    ],
    gpu_count=2,
    # CUDA 13 needs 580.65.06 or newer.
    driver=Driver(version="580.159.04", flavour="open", route="nvidia"),
    guests=[
        Guest(
            name="llm",
            backend="pct",
            id=106,
            suite="bookworm",
            unprivileged=False,
            network="bridge:vmbr0",
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
                        source="measured on kpro5, which has the same GPUs; no figure of kpro6 is recorded",
                    ),
                ),
            ],
        ),
    ],
)
metal, guests = machine.pyinfra_groups()
