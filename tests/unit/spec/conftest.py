"""A whole, valid inventory as text, and what loading a changed copy of it says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from provision.inventory import Inventory, InventoryRefused, load

VALID = '''"""A machine with two GPUs, one guest and two services."""

from provision.spec import *

machine = Machine(
    name="node1",
    ssh=Ssh(host="node1.example"),
    gpus=[Gpu(bdf="42:00.0", model="RTX A6000"), Gpu(bdf="61:00.0", model="RTX A6000")],
    driver=Driver(version="580.159.04", flavour="open", route="nvidia"),
    guests=[
        Guest(
            name="llm",
            backend="pct",
            id=101,
            suite="bookworm",
            gpus=["42:00.0", "61:00.0"],
            mounts=[Mount(source="/tank/models", target="/srv/models")],
            services=[
                Service(
                    name="first",
                    engine=Engine(kind="sglang", version="0.5.11"),
                    model=Model(repo="a/target", revision="1" * 40),
                    profile="sglang-mtp",
                    port=8000,
                ),
                Service(
                    name="second",
                    engine=Engine(kind="vllm", version="0.20.1"),
                    model=Model(repo="a/target", revision="1" * 40),
                    profile="plain",
                    flags=["--tensor-parallel-size", "2"],
                    port=8001,
                ),
            ],
        ),
    ],
)
metal, guests = machine.pyinfra_groups()
'''

Change = tuple[str, str]


class Desk:
    """Writes inventories into a folder of the test and loads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str, name: str = "node1.py") -> Path:
        path = self.folder / "inventories" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def valid(self, *changes: Change) -> str:
        """The valid inventory with pieces replaced; each piece must be there."""
        text = VALID
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, 1)
        return text

    def load(self, *changes: Change, limit: Sequence[str] = (), **how: Any) -> Inventory:
        return load(str(self.write(self.valid(*changes))), limit, **{"files": "none", "names": False, **how})

    def reasons(self, *changes: Change, **how: Any) -> list[str]:
        """Why the changed inventory is refused."""
        with pytest.raises(InventoryRefused) as refused:
            self.load(*changes, **how)
        return refused.value.reasons

    def reasons_of(self, text: str, **how: Any) -> list[str]:
        with pytest.raises(InventoryRefused) as refused:
            load(str(self.write(text)), **{"files": "none", "names": False, **how})
        return refused.value.reasons


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)
