"""demo: the whole chain against a throw-away virtual host with two emulated RTX A6000, bound to vfio-pci at boot.

`provision demo` builds and boots that host, and says where it is; so this file loads while one is up. The GPUs
have no silicon behind them, and an honest gate fails on them: the service's gate judges a composed record of two
well boards instead, which counts on a marked test host only and is shown as REPLAYED. Without `replay` the
deploy stops at the gate, with the kernel's own words.
"""

from provision.data import demo
from provision.spec import Driver, Engine, Gpu, Guest, Machine, Model, Service, Ssh

machine = Machine(
    name="kpro-demo-host",
    ssh=Ssh(
        host=demo.host().address,
        port=demo.host().port,
        user="root",
        key=demo.host().key,
        known_hosts=demo.host().known_hosts,
    ),
    reboot="allowed",
    gpus=[
        Gpu(bdf="01:00.0", model="RTX A6000"),
        Gpu(bdf="02:00.0", model="RTX A6000"),
    ],
    gpu_count=2,
    driver=Driver(version=demo.DRIVER, flavour=demo.FLAVOUR, route="prebuilt"),
    guests=[
        Guest(
            name="llm",
            backend="lxc",
            id=demo.CONTAINER,
            suite="bookworm",
            gpus=["01:00.0", "02:00.0"],
            userspace="bind",
            services=[
                Service(
                    name="demo",
                    engine=Engine(
                        kind="standin", version="1.0.0", source="wheel", wheelhouse=demo.folder("wheels")
                    ),
                    model=Model(
                        repo="kpro/tiny",
                        revision=demo.MODEL_REVISION,
                        folder=demo.folder("models/kpro--tiny"),
                    ),
                    profile="plain",
                    port=demo.PORT,
                    # The host is emulated: what takes a second elsewhere takes ten here.
                    ready_seconds=300,
                    replay=demo.record(),
                ),
            ],
        ),
    ],
)
metal, guests = machine.pyinfra_groups()
