"""The unit of a service in a real container: its walls hold, it still has what an engine needs, and it is heard where
the inventory says and nowhere else, whatever the engine opens besides."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.data.around import Around
from provision.spec import Engine, Guest, Model, Service
from provision.stack.unit import rendered
from tests.guest.rig import Container, sh

UID = 8100
OTHER = "10.9.9.2"
PROGRAM = """\
import http.server, json, os, resource, socket, sys, threading

def can(path):
    try:
        open(path, "w").close()
        return True
    except OSError as error:
        return error.strerror

host, port = sys.argv[sys.argv.index("--host") + 1], int(sys.argv[sys.argv.index("--port") + 1])
if "--die" in sys.argv:
    sys.exit(int(sys.argv[sys.argv.index("--die") + 1]))
store = socket.create_server(("0.0.0.0", 39000))  # as PyTorch's TCPStore does, whatever host it is given
home = os.environ["HOME"]
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
nvidia = os.path.exists("/dev/nvidia0") and open("/dev/nvidia0", "rb+", buffering=0).fileno() > 0
told = {
    "writes": {path: can(path) for path in (home + "/x", "/tmp/x", "/dev/shm/x", "/etc/x", "/srv/x", "/opt/x",
                                           "/var/cache/kpro/x", "/var/cache/kpro/ffffffffffff/x")},
    "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
    "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "capabilities": status["CapBnd"].strip() + status["CapEff"].strip(),
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "uid": os.getuid(),
    "key_in_arguments": "s3cret" in " ".join(sys.argv),
    "key": os.environ.get("VLLM_API_KEY"),
    "gpu": nvidia,
    "sees_home": os.path.isdir("/root") and os.access("/root", os.R_OK),
}
with open(home + "/told.json", "w") as file:
    json.dump(told, file)
threading.Thread(target=lambda: [store.accept() for _ in range(9)], daemon=True).start()
http.server.ThreadingHTTPServer((host, port), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
CONNECT = """\
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2).close()
    print("open")
except OSError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def place(new_container: Callable[..., Container]) -> Container:
    """A container of its own network, with an "engine" that tells what it may, and a stand-in for a GPU's node."""
    made = new_container(network="empty")
    engine = made.rootfs / "opt/kpro/envs/x/bin"
    engine.mkdir(parents=True)
    (engine / "vllm").write_text(f"#!/usr/bin/python3\n{PROGRAM}")
    (engine / "vllm").chmod(0o755)
    (made.rootfs / "srv").mkdir(exist_ok=True)
    (made.rootfs / "etc/kpro").mkdir(exist_ok=True)
    (made.rootfs / "opt/connect.py").write_text(CONNECT)
    pid = sh("lxc-info", "-n", made.name, "-pH").stdout.strip()
    for command in (("link", "set", "lo", "up"), ("addr", "add", f"{OTHER}/24", "dev", "lo")):
        sh("nsenter", "-t", pid, "-n", "ip", *command)
    made.attach(
        "sh",
        "-c",
        f"groupadd --gid {UID} kpro && useradd --uid {UID} --gid kpro -M -d /var/cache/kpro -s /usr/sbin/nologin kpro"
        " && install -d -m 755 -o kpro -g kpro /var/cache/kpro /var/cache/kpro/ffffffffffff"
        # The null device under a GPU's name: whoever may open it has not lost /dev.
        " && mknod -m 666 /dev/nvidia0 c 1 3",
    )
    return made


def service(*flags: str, **other: object) -> Service:
    return Service(
        name="qwen",
        engine=Engine(kind="vllm", version="0.20.1"),
        model=Model(repo="a/b", revision="1" * 40),
        flags=flags,
        **other,
    )


def start(
    place: Container,
    made: Service,
    gate: tuple[str, ...] = ("/bin/true",),
    key: str | None = None,
    without: str = "\0",
) -> str:
    """Starts it and returns the folder of its cache, inside. What an earlier one told is gone."""
    place.attach("systemctl", "stop", "kpro-qwen.service", check=False)
    guest = Guest(name="llm", backend="lxc", id=place.name, gpus=["01:00.0"])
    unit = rendered(guest, made, "/opt/kpro/envs/x", gate, Around(1), key, ())
    line = next(line for line in unit.unit.splitlines() if line.startswith("CacheDirectory="))
    folder = f"/var/cache/{line.partition('=')[2]}"
    Path(f"{place.rootfs}{folder}/told.json").unlink(missing_ok=True)
    (place.rootfs / "etc/systemd/system/kpro-qwen.service").write_text(unit.unit.replace(without, ""))
    path = place.rootfs / "etc/kpro/qwen.env"
    path.write_text(unit.environment)
    path.chmod(0o600)
    place.attach("systemctl", "daemon-reload")
    place.attach("systemctl", "reset-failed", "kpro-qwen.service", check=False)
    place.attach("systemctl", "restart", "kpro-qwen.service", check=False)
    return folder


def told(place: Container, folder: str) -> dict[str, object]:
    path = Path(f"{place.rootfs}{folder}/told.json")
    until = time.monotonic() + 30
    while not path.exists() or not path.read_text().endswith("}"):
        assert time.monotonic() < until, place.attach(
            "journalctl", "-u", "kpro-qwen", "-n", "30", check=False
        )
        time.sleep(0.2)
    found: dict[str, object] = json.loads(path.read_text())
    while connect(place, "127.0.0.1", 8000) != "open":
        assert time.monotonic() < until
    return found


def connect(place: Container, host: str, port: int) -> str:
    return place.attach("python3", "/opt/connect.py", host, str(port)).strip()


def test_an_engine_has_what_it_needs_and_nothing_more(place: Container) -> None:
    folder = start(place, service())
    found = told(place, folder)
    writes = found["writes"]
    assert isinstance(writes, dict)
    assert [path for path, answer in writes.items() if answer is True] == [
        f"{folder}/x",
        "/tmp/x",
        "/dev/shm/x",
    ]
    assert found["gpu"] is True
    # As much as the container has: a limit that this machine itself has nobody in it can lift.
    limits = place.attach("cat", "/proc/1/limits").splitlines()
    memory, files = (
        next(line for line in limits if line.startswith(name)).split()[-2]
        for name in ("Max locked memory", "Max open files")
    )
    assert str(found["memlock"]) == memory.replace("unlimited", "-1")
    assert found["files"] == min(65536, int(files))
    assert found["uid"] == UID
    assert (found["capabilities"], found["no_new_privileges"]) == ("0" * 32, "1")
    assert found["sees_home"] is False
    assert not (place.rootfs / "tmp/x").exists()


def test_a_key_is_given_to_the_engine_and_to_nobody_else(place: Container) -> None:
    folder = start(place, service(), key="s3cret")
    found = told(place, folder)
    assert (found["key"], found["key_in_arguments"]) == ("s3cret", False)
    assert "s3cret" not in place.attach("systemctl", "show", "kpro-qwen.service")
    assert "s3cret" not in place.attach("ps", "-eo", "args")
    assert oct((place.rootfs / "etc/kpro/qwen.env").stat().st_mode)[-3:] == "600"
    as_nobody = place.attach(
        "setpriv", "--reuid=65534", "--clear-groups", "cat", "/etc/kpro/qwen.env", check=False
    )
    assert "s3cret" not in as_nobody


def test_it_listens_at_the_address_that_the_inventory_names(place: Container) -> None:
    """By the kernel's own table: nothing of /proc/net/tcp but 127.0.0.1:8000 and what the engine opened by itself."""
    told(place, start(place, service()))
    listening = {
        tuple(line.split()[1].split(":"))
        for line in place.attach("cat", "/proc/net/tcp").splitlines()[1:]
        if line.split()[3] == "0A"
    }
    assert ("0100007F", f"{8000:04X}") in listening
    assert {address for address, port in listening if port == f"{8000:04X}"} == {"0100007F"}


def test_what_the_engine_opens_to_everybody_is_reached_by_nobody_from_outside(place: Container) -> None:
    told(place, start(place, service()))
    assert connect(place, "127.0.0.1", 8000) == "open"
    assert connect(place, "127.0.0.1", 39000) == "open"
    outside = connect(place, OTHER, 39000)
    said = place.attach("journalctl", "-b", "--no-pager", "-o", "cat", check=False)
    if "does not support BPF" in said:
        pytest.skip("this kernel lets no container attach BPF, and systemd said so in the journal")
    assert outside != "open"
    told(place, start(place, service(), without="IPAddressDeny=any"))
    assert connect(place, OTHER, 39000) == "open"


def test_a_red_gate_starts_no_engine(place: Container) -> None:
    folder = start(place, service(), gate=("/bin/false",))
    time.sleep(1)
    assert not Path(f"{place.rootfs}{folder}/told.json").exists()
    state = place.attach("systemctl", "show", "-p", "ActiveState", "-p", "SubState", "kpro-qwen.service")
    assert "ActiveState=active" not in state


def test_a_command_line_that_is_refused_is_not_tried_again(place: Container) -> None:
    start(place, service("--die", "2"))
    time.sleep(1)
    shown = place.attach("systemctl", "show", "-p", "ActiveState", "-p", "NRestarts", "kpro-qwen.service")
    assert "ActiveState=failed" in shown
    assert "NRestarts=0" in shown
    start(place, service("--die", "1"))
    time.sleep(1)
    again = place.attach("systemctl", "show", "-p", "SubState", "kpro-qwen.service")
    assert "auto-restart" in again
    place.attach("systemctl", "stop", "kpro-qwen.service")
