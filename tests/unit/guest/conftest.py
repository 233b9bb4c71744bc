"""Doubles of LXC's and Proxmox VE's programs, and this machine as a pyinfra host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyinfra.api.config import Config
from pyinfra.api.connect import connect_all
from pyinfra.api.host import Host
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import State

from tests.unit.guest.doubles import Doubles


@pytest.fixture
def doubles(tmp_path: Path) -> Doubles:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Doubles(folder)


@pytest.fixture
def local() -> Iterator[Host]:
    """This machine, through pyinfra's own connector."""
    state = State(Inventory((["@local"], {})), Config())
    connect_all(state)
    return state.inventory.get_host("@local")
