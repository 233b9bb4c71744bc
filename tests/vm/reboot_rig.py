"""A test host to be rebooted, and controllers that do it: processes of their own, so that one can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.spec import Guest, Machine, Ssh
from provision.testhost.vm.ssh import Address

_CONTROLLER = """
import pyinfra_cli, io, json, sys
from provision.acts import confirm, nodes, reboot
from provision.acts.voice import Voice
from provision.host import keeping, reconnect, transport
from provision.host.moves import Edits, FileEdit, Reason, Reboot
from provision.plan import Item, Step
from provision.run.session import Session
from provision.spec import Machine
from tests.guest.rig import connected, host

machine, given = Machine.model_validate_json(sys.argv[1]), json.loads(sys.argv[2])

def say(text):
    print(text, flush=True)

def sh(command):
    done = transport.run(metal, command, timeout=120)
    assert done.ok, done
    return done.text

def change(path, text):
    keeping.before_file(metal, session.id, path, text.encode())
    transport.put(metal, io.BytesIO(text.encode()), path, mode="644", owner="0:0")

def rebooted(**times):
    wanted = Reboot((Reason("a-row", "host", "a reason of the test's"),), deadline=400, **times)
    item = Item(Step.REBOOT, "reboot", "vm", "vm", "reboot: a reason of the test's", wanted)
    session.begin(machine, item)
    reboot.reboot(metal, wanted, voice)
    try:
        session.check_lock(machine)
        say("FAIL: the lock outlived the boot")
    except Exception as error:
        say(f"lost: {error}")
    session.rebooted(machine)
    session.check_lock(machine)
    session.end(machine, item)
    say("RETAKEN")

with connected(machine) as state:
    state.is_executing = True
    metal = host(state, "vm")
    session = Session(state, reason="a test", say=say)
    voice = Voice(session.id, say)
    say(f"RUN {session.id}")
    session.take_lock(machine)
"""


@dataclass
class Controller:
    """A controller at work. The code sees ``machine``, ``metal``, ``session``, ``voice``, ``sh``, ``change``,
    ``rebooted`` and ``given``."""

    process: subprocess.Popen[str]
    run: str = ""

    @classmethod
    def start(cls, address: Address, code: str, guests: tuple[Guest, ...] = (), **given: Any) -> Controller:
        machine = Machine(name="vm", ssh=ssh_of(address), reboot="allowed", guests=guests)
        text = _CONTROLLER + textwrap.indent(textwrap.dedent(code), "    ")
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", text, machine.model_dump_json(), json.dumps(given)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        controller = cls(process)
        controller.run = controller.until("RUN ").removeprefix("RUN ")
        return controller

    def until(self, what: str) -> str:
        """The next line that begins with ``what``."""
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if line.startswith(what):
                return line.strip()
        raise AssertionError(f"{what!r} was never said:\n{''.join(seen)}")

    def end(self, seconds: float = 600) -> str:
        """Its last words; fails when it failed."""
        said, _ = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, said
        assert "FAIL" not in said, said
        return said

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def ssh_of(address: Address) -> Ssh:
    return Ssh(
        host=address.host,
        port=address.port,
        user=address.user,
        key=str(address.key),
        known_hosts=str(address.known_hosts),
    )


def attached() -> Address | None:
    """``KPRO_TEST_HOST=PORT:KEY:KNOWN_HOSTS``: a test host that runs already and may be rebooted."""
    words = os.environ.get("KPRO_TEST_HOST", "").split(":")
    return Address(int(words[0]), Path(words[1]), Path(words[2])) if len(words) == 3 else None


def eventually(address: Address, command: str, what: str, seconds: float) -> str:
    """The output of a command of the test host, once it succeeds; the host may be away in between."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            done = address.run(command, timeout=30, check=False)
            if done.returncode == 0:
                return done.stdout
        except OSError:
            pass
        except Exception as error:  # noqa: BLE001 - a host that boots answers in many ways
            last = error
        time.sleep(2)
    raise AssertionError(f"not within {seconds} s: {what} {locals().get('last', '')}")


def boot_id(box: Address) -> str:
    return box.run("cat /proc/sys/kernel/random/boot_id").stdout.strip()


def events(box: Address, run: str) -> list[dict[str, str]]:
    return [
        json.loads(line) for line in box.run(f"cat /var/lib/kpro/journal/{run}.jsonl").stdout.splitlines()
    ]
