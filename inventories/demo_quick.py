"""demo_quick: the chain on this very machine, with a throw-away container and an engine that needs no GPU.

The machine's own drivers are somebody else's business here, so they are only looked at. Wheels and model are
made by `provision demo`.
"""

from provision.data import demo
from provision.spec import Engine, Guest, Machine, Model, Service

machine = Machine(
    name="demo",
    managed=False,
    gpus=[],
    models=str(demo.folder(demo.MACHINE_MODELS)),
    guests=[
        Guest(
            name="kpro-demo",
            backend="lxc",
            id=demo.CONTAINER,
            suite="bookworm",
            gpus=[],
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
                    ready_seconds=60,
                ),
            ],
        ),
    ],
)
metal, guests = machine.pyinfra_groups()
