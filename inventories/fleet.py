"""fleet: six hosts of one kind, each with one container and one service.

Addresses and host names are invented; `.example` leads nowhere by design. A run begins with the first machine
and goes on when that one is well (`--batch`, `--max-failed`).
"""

from provision.spec import Driver, Engine, Fleet, Gpu, Guest, Machine, Model, Mount, Service, Ssh


def _host(number: int) -> Machine:
    return Machine(
        name=f"gpu{number:02}",
        ssh=Ssh(host=f"gpu{number:02}.fleet.example", user="root"),
        reboot="allowed",
        gpus=[
            Gpu(bdf="42:00.0", model="RTX A6000"),
            Gpu(bdf="61:00.0", model="RTX A6000"),
        ],
        gpu_count=2,
        driver=Driver(version="580.159.04", flavour="open", route="nvidia"),
        guests=[
            Guest(
                name="llm",
                backend="pct",
                id=200 + number,
                suite="trixie",
                network="bridge:vmbr0",
                gpus=["42:00.0", "61:00.0"],
                userspace="bind",
                mounts=[Mount(source="/tank/models", target="/srv/models", read_only=True)],
                services=[
                    Service(
                        name="qwen",
                        engine=Engine(kind="vllm", version="0.33.0", source="index", python="3.13"),
                        # An invented commit.
                        model=Model(
                            repo="Qwen/Qwen3.6-27B", revision="36270000000000000000000000000000000000aa"
                        ),
                        profile="vllm-mtp",
                        flags=["--tensor-parallel-size", "2", "--reasoning-parser", "qwen3"],
                    ),
                ],
            ),
        ],
    )


fleet = Fleet(machines=[_host(number) for number in range(1, 7)])
metal, guests = fleet.pyinfra_groups()
