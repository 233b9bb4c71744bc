"""Where the demonstration keeps its files on the controller, what its container is called, and where its virtual
host is while one is up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from provision.testhost.demo_files import DEMO_REVISION, demo_folder

CONTAINER = "kpro-demo"
"""The LXC container of the demonstration. Its name says whose it is: nothing else is ever removed."""

PORT = 18480
"""A port that no engine uses by default, so that a demonstration never meets a real service."""

DRIVER, FLAVOUR = "535.261.03", "open"
"""The driver of Debian 12, which builds for its kernel."""

MACHINE_MODELS = "machine-models"
"""Where the demonstration on this very machine puts its model: not among those of real services."""

MODEL_REVISION = DEMO_REVISION
"""The tiny model is made on the spot: its content's digest stands for the commit that it does not have."""

HOST_FILE = "vm.json"
"""Written by ``provision demo`` when its virtual host answers, removed when it ends:
``{"host": "127.0.0.1", "port": 40022, "key": "/…/id", "known_hosts": "/…/known_hosts", "pid": 4711}``.
``pid`` (of QEMU) may be left out; given, it tells a host that is up from one that ended without a word."""


class NoVirtualHost(Exception):
    """The demonstration's virtual host is not up, or the file that says where it is cannot be believed."""


class VirtualHost(NamedTuple):
    """How the virtual host is reached: ``key`` and ``known_hosts`` are files on the controller."""

    address: str
    port: int
    key: str
    known_hosts: str


def folder(name: str) -> Path:
    """A file or folder of the demonstration, see ``demo_folder``."""
    return demo_folder() / name


def record() -> Path:
    """The composed record of two well RTX A6000 with driver 535.261.03 at the virtual host's addresses."""
    return Path(__file__).resolve().parents[1] / "testhost" / "records" / "two-a6000.json"


def host() -> VirtualHost:
    """Where the demonstration's virtual host is. Raises NoVirtualHost, with what to do, when none is up."""
    path = folder(HOST_FILE)
    try:
        with path.open("rb") as file:
            state = json.loads(file.read(1 << 16))
    except FileNotFoundError:
        raise NoVirtualHost(f"none is up ({path} is not there). {_HOW}") from None
    except (OSError, ValueError) as error:
        raise NoVirtualHost(f"{path} cannot be read: {error}. Remove it. {_HOW}") from None
    if wrong := _wrong(state):
        raise NoVirtualHost(f"{path}: {wrong}. Remove it. {_HOW}")
    pid = state.get("pid")
    if pid is not None and not Path(f"/proc/{pid}").exists():
        raise NoVirtualHost(f"it ended: {path} names process {pid}, which is gone. {_HOW}")
    return VirtualHost(state["host"], state["port"], state["key"], state["known_hosts"])


_HOW = "'provision demo --keep' builds and boots one and keeps it; inventories/demo_quick.py needs none"


def _wrong(state: Any) -> str | None:
    if not isinstance(state, dict):
        return "it holds no JSON object"
    for name in ("host", "key", "known_hosts"):
        if not isinstance(state.get(name), str) or not state[name]:
            return f"{name} must be a text"
    for name in ("key", "known_hosts"):
        if not Path(state[name]).is_file():
            return f"{name} {state[name]} is not there"
    port, pid = state.get("port"), state.get("pid")
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        return "port must be a number from 1 to 65535"
    if pid is not None and (not isinstance(pid, int) or isinstance(pid, bool) or pid < 1):
        return "pid must be a process number"
    return None
