"""Run on a node: plans one container with one GPU of a given minor, and carries the plan out. Prints the kinds.

``acts_on_node.py ID MINOR [CHANGE]``; CHANGE is a line that somebody adds to the file between plan and acts, or
``asleep``: the container is stopped for another driver before, which gave its GPU this minor.
"""

# ruff: noqa: T201 - it is a program
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyinfra.api.config import Config
from pyinfra.api.connect import connect_all
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import State

from provision import acts
from provision.acts import guests
from provision.acts.voice import Voice
from provision.guest.decide import container_plan
from provision.guest.proxmox.plan import conf_path, mark_path, record_path
from provision.host.moves import PCT, Asleep
from provision.run.errors import ActFailed
from provision.spec import Gpu, Guest, Machine
from tests.unit.plan.seen import Seen


def seen(id: str, minor: str) -> Seen:
    found = Seen()
    for path in (conf_path(id), record_path(id), mark_path(id), "/etc/pve/storage.cfg"):
        found.put("file", path, Path(path).read_bytes() if Path(path).exists() else None)
    status = subprocess.run(["pct", "status", id], capture_output=True, text=True, check=False)
    found.cmd(f"pct-status-{id}", status.stdout + status.stderr, status.returncode)
    nodes = "".join(f"{path} c3 0 character special file\n" for path in Path("/dev").glob("nvidia*"))
    found.cmd("device-nodes", nodes).put("file", "/proc/devices", "Character devices:\n195 nvidia\n")
    gpu = "/proc/driver/nvidia/gpus/0000:42:00.0/information"
    return found.put("file", gpu, f"Device Minor: \t {minor}\n")


def main(id: str, minor: str, change: str = "") -> int:
    guest = Guest(name="llm", backend="pct", id=id, gpus=["42:00.0"], numa="any")
    gpu = Gpu(bdf="42:00.0", model="RTX A6000")
    machine = Machine(name="box", managed=False, gpus=[gpu], guests=[guest])
    state = State(Inventory((["@local"], {})), Config())
    connect_all(state)
    host, voice = state.inventory.get_host("@local"), Voice(f"run-{minor}", print)
    if change == "asleep":
        change, voice = "", Voice(f"exchange-{minor}", print)
        guests.stop(host, Asleep(id, PCT, ("ssh.service",)), voice)
    plan = container_plan(machine, guest, seen(id, minor).snapshot)
    for refusal in plan.refusals:
        print(refusal, file=sys.stderr)
    if plan.refusals:
        return 3
    if change:
        with Path(conf_path(id)).open("a") as file:
            file.write(f"{change}\n")
    for item in plan.items:
        print(item.kind)
        try:
            acts.carry_out(host, item, voice)
        except ActFailed as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
