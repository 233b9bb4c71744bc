"""A service that was set up by hand in a container: found, written down, and compared with what was written."""

from __future__ import annotations

import json
import shutil
import time
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provision.testhost import demo_files
from tests.controller import Operator
from tests.guest.place import free_port
from tests.guest.rig import Container, Sshd

pytestmark = pytest.mark.usefixtures("one_operator")

UNIT = "llm-server.service"
SECRET = "sk-4711-nobody-else"
_UNIT = """\
[Unit]
Description=somebody's own service

[Service]
Environment=CUDA_DEVICE_ORDER=PCI_BUS_ID HF_TOKEN={secret}
ExecStart=/opt/serve/bin/python -m kpro_standin --model /srv/weights/tiny --host 127.0.0.1 --port {port} \\
    --served-model-name tiny {more}
User=nobody

[Install]
WantedBy=multi-user.target
"""


@dataclass
class Hand(Operator):
    """A container with a service that nobody's tool made."""

    container: Container
    port: int

    def serve(self, more: str = "") -> None:
        unit = self.container.rootfs / "etc/systemd/system" / UNIT
        unit.write_text(_UNIT.format(port=self.port, more=more, secret=SECRET))
        self.container.attach("systemctl", "daemon-reload")
        self.container.attach("systemctl", "enable", "-q", UNIT)
        self.container.attach("systemctl", "restart", UNIT)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError(self.container.attach("journalctl", "-u", UNIT, "-n", "20"))

    def init(self, *words: str) -> tuple[int, str]:
        done = self.provision("init", "--output", str(self.inventory), "--name", "box", *words)
        return done.returncode, done.stdout + done.stderr

    def state(self) -> str:
        """What a look must leave as it is."""
        return self.container.attach(
            "sh", "-c", "find /etc /opt /srv /root /var/lib /tmp -xdev -type f -printf '%p %s %T@\\n' | sort"
        )


@pytest.fixture(scope="module")
def hand(new_container: Callable[..., Container], tmp_path_factory: pytest.TempPathFactory) -> Hand:
    folder = tmp_path_factory.mktemp("hand")
    demo_files.prepare(folder / "files")
    weights = folder / "weights"
    shutil.copytree(demo_files.model_folder(folder / "files"), weights / "tiny")
    container = new_container(lines=(f"lxc.mount.entry = {weights} srv/weights none bind,create=dir,ro 0 0",))
    site = container.rootfs / "opt/serve/lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (wheel,) = demo_files.wheel_folder(folder / "files").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    (container.rootfs / "opt/serve/bin").mkdir()
    (container.rootfs / "opt/serve/bin/python").symlink_to("/usr/bin/python3")
    (container.rootfs / "opt/serve/pyvenv.cfg").write_text("home = /usr/bin\n")
    made = Hand(folder, container, free_port())
    made.serve()
    return made


@pytest.fixture
def written(hand: Hand) -> Hand:
    hand.inventory.unlink(missing_ok=True)
    code, said = hand.init("@local", "--no-baseline")
    assert code == 0, said
    return hand


def test_what_was_written_is_in_sync_with_what_runs(written: Hand) -> None:
    plan = written.plan()
    assert (plan["exit"], plan["machines"][0]["items"], plan["machines"][0]["refusals"]) == (0, [], [])


def test_the_service_is_described_and_its_secrets_are_not(written: Hand) -> None:
    text = written.inventory.read_text()
    for part in (
        UNIT,
        '"HF_TOKEN"',
        'kind="standin"',
        "/srv/weights/tiny",
        f"port={written.port}",
        written.container.name,
    ):
        assert part in text, part
    assert SECRET not in text
    assert "one fused look" not in text, "the look saw itself"


def test_a_baseline_is_measured_on_the_running_service_and_nothing_is_changed(hand: Hand) -> None:
    hand.inventory.unlink(missing_ok=True)
    before = hand.state()
    code, said = hand.init("@local", "--json")
    assert code == 0, said
    document = json.loads(said.splitlines()[0])
    (guest,) = [one for one in document["machine"]["guests"] if one["id"] == hand.container.name]
    assert guest["services"][0]["baseline"]["decode_tok_s"] > 0
    assert hand.state() == before


def test_a_file_that_is_there_is_not_overwritten(written: Hand) -> None:
    written.inventory.write_text("mine\n")
    code, said = written.init("@local", "--no-baseline")
    assert code == 2
    assert "is there already" in said
    assert written.inventory.read_text() == "mine\n"


def test_a_service_that_was_changed_since_is_refused_with_what_runs(written: Hand) -> None:
    written.serve("--max-num-seqs 7")
    try:
        plan = written.plan()
    finally:
        written.serve()
    assert plan["exit"] == 3
    (refusal,) = plan["machines"][0]["refusals"]
    assert refusal["where"].endswith("found.command")
    assert "--max-num-seqs 7" in refusal["seen"]


def test_status_shows_the_service_as_it_runs(written: Hand) -> None:
    def service() -> dict[str, Any]:
        done = written.provision("status", str(written.inventory), "--json")
        (machine,) = json.loads(done.stdout)["machines"]
        assert not [what for what in machine["unknown"] if what.startswith("service")], machine["unknown"]
        (guest,) = [one for one in machine["guests"] if one["id"] == written.container.name]
        found: dict[str, Any] = guest["services"][0]
        return found

    seen = service()
    assert (seen["active"], seen["engine"], seen["port"]) == ("active", "standin 1.0.0", written.port)
    assert seen["drift"] == []
    written.container.attach("systemctl", "stop", UNIT)
    written.container.attach("systemctl", "daemon-reload")
    try:
        stopped = service()
    finally:
        written.serve()
    assert stopped["active"] == "inactive"
    assert stopped["drift"] == [{"field": "found.unit", "seen": f"{UNIT} is inactive"}]


def test_a_record_of_it_plans_as_the_machine_does_and_holds_no_secret(written: Hand, tmp_path: Path) -> None:
    for more, name in (("", "same"), ("--max-num-seqs 7", "changed")):
        if more:
            written.serve(more)
        try:
            done = written.provision("record", str(written.inventory), str(tmp_path / name))
            live = written.plan()
        finally:
            if more:
                written.serve()
        assert done.returncode == 0, done.stderr
        told = written.provision("plan", str(written.inventory), "--sysroot", str(tmp_path / name), "--json")
        (recorded,), (machine,) = json.loads(told.stdout)["machines"], live["machines"]
        assert (recorded["items"], recorded["refusals"]) == (machine["items"], machine["refusals"])
        assert bool(machine["refusals"]) == bool(more)
        texts = b"".join(path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file())
        assert SECRET.encode() not in texts


def test_nothing_of_it_is_applied_or_stopped(written: Hand) -> None:
    before = written.container.attach("systemctl", "show", "-p", "MainPID", UNIT)
    done = written.apply()
    assert done.returncode == 0, done.stderr
    assert written.container.attach("systemctl", "show", "-p", "MainPID", UNIT) == before


def test_over_ssh_it_is_the_same(hand: Hand, sshd: Sshd) -> None:
    hand.inventory.unlink(missing_ok=True)
    spec = sshd.ssh()
    words = ("--port", str(spec.port), "--key", str(spec.key), "--known-hosts", str(spec.known_hosts))
    code, said = hand.init("root@127.0.0.1", *words, "--no-baseline")
    assert code == 0, said
    assert hand.plan()["exit"] == 0


def test_a_host_that_is_none_is_said_in_one_line(hand: Hand) -> None:
    hand.inventory.unlink(missing_ok=True)
    for where, code, said in (
        ("nobody@127.0.0.1:1", 1, "127.0.0.1"),
        ("nobody@127.0.0.1:none", 2, "none"),
    ):
        found = hand.init(where, "--no-baseline")
        assert (found[0], "Traceback" in found[1], said in found[1]) == (code, False, True), found
        assert not hand.inventory.exists()
