"""The acts of a hand-over, run by a real shell on a small machine, and ``undo.sh`` after them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checks.bdf import Bdf
from provision.acts import assign
from provision.acts.voice import Voice
from provision.assign.handover import Give, Given, ProxmoxRest, Rest, VmKey
from provision.guest.decide import Container
from provision.host import assigned, transport
from provision.host.moves import Edits, FileEdit
from provision.run.errors import ActFailed
from provision.spec import Guest
from tests.unit.run.kernel import Machine
from tests.unit.run.test_assign import AUDIO, CONF, GPU, OTHER, conf, machine, proxmox

__all__ = ["machine", "proxmox"]
RUN = "20261130T010203Z-aaaaaa"
LXC = """case "$0 $*" in
*lxc-info*) cat {state} ;;
*lxc-stop*) echo STOPPED >{state} ;;
*lxc-start*) echo RUNNING >{state} ;;
*lxc-attach*) echo running ;;
esac"""


class Host:
    """What an act is given: scripts run by the machine's shell, files put into its folder."""

    def __init__(self, machine: Machine, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.machine, self.folder = machine, folder
        self.host: Any = SimpleNamespace(name="box")
        self.said: list[str] = []
        self.say = Voice(RUN, self.said.append)
        patch.setattr(transport, "run", self._run)
        patch.setattr(transport, "put", self._put)
        (folder / "lxc-state").write_text("RUNNING\n")
        for name in ("lxc-info", "lxc-stop", "lxc-start", "lxc-attach"):
            machine.program(name, LXC.format(state=folder / "lxc-state"))

    def here(self, text: str) -> str:
        return text.replace("/run/kpro", str(self.folder / "run")).replace(
            "/var/lib/kpro", str(self.machine.state)
        )

    def _run(
        self, host: Any, script: str, *, stdin: bytes | None = None, timeout: float | None = None
    ) -> Any:
        assert stdin is None
        done = self.machine.run(self.here(script))
        return transport.Completed(done.returncode, done.stdout.encode(), done.stderr.encode())

    def _put(self, host: Any, source: io.BytesIO, path: str, **more: Any) -> None:
        Path(self.here(path)).write_bytes(source.read())

    def undo(self, *words: str) -> tuple[int, str]:
        script = (
            (self.machine.state / "undo.sh").read_text().replace(str(self.machine.state), "/var/lib/kpro")
        )
        done = self.machine.run(self.here(script), *words)
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout


@pytest.fixture
def host(machine: Machine, tmp_path: Path) -> Iterator[Host]:
    with pytest.MonkeyPatch.context() as patch:
        yield Host(machine, patch, tmp_path)


def give() -> Give:
    functions = (Given(Bdf.parse(GPU), "nvidia", "9"), Given(Bdf.parse(AUDIO), "snd_hda_intel", "9"))
    return Give(Bdf.parse(GPU), functions, (Bdf.parse(OTHER),))


def rest(folder: Path) -> Rest:
    guest = Guest(name="two", backend="lxc", id="c2")
    (folder / "c2").mkdir()
    (folder / "c2/config").write_text("lxc.start.auto = 1\nnode\n")
    return Rest(Container(guest, str(folder), "lxc.start.auto = 0\n"), running=True)


def test_a_whole_hand_over_is_taken_back_and_the_container_runs_again(host: Host, tmp_path: Path) -> None:
    data = assigned.dump({Bdf.parse(GPU): RUN})
    assign.record(
        host.host, Edits((FileEdit(assigned.PATH, None, data, "it is with virtual machines"),)), host.say
    )
    assign.rest(host.host, rest(tmp_path), host.say)
    assign.give(host.host, give(), host.say)
    assert (host.machine.state / "assigned.json").read_bytes() == data
    assert (tmp_path / "lxc-state").read_text() == "STOPPED\n"
    assert (tmp_path / "c2/config").read_text() == "lxc.start.auto = 0\n"
    assert [host.machine.bus.now(bdf) for bdf in (GPU, AUDIO)] == ["vfio-pci", "vfio-pci"]
    assert host.undo(RUN)[0] == 0
    assert [host.machine.bus.now(bdf) for bdf in (GPU, AUDIO)] == ["nvidia", "snd_hda_intel"]
    assert [host.machine.bus.override(bdf) for bdf in (GPU, AUDIO)] == ["", ""]
    assert (tmp_path / "c2/config").read_text() == "lxc.start.auto = 1\nnode\n"
    assert (tmp_path / "lxc-state").read_text() == "RUNNING\n"
    assert not (host.machine.state / "assigned.json").exists()
    assert host.undo(RUN)[0] == 0


def test_a_record_that_changed_since_it_was_looked_at_is_not_written_over(host: Host) -> None:
    (host.machine.state / "assigned.json").write_text("another run's\n")
    edit = FileEdit(assigned.PATH, None, b"{}", "why")
    with pytest.raises(ActFailed, match="changed under us"):
        assign.record(host.host, Edits((edit,)), host.say)
    assert (host.machine.state / "assigned.json").read_text() == "another run's\n"


def test_a_container_that_does_not_stop_keeps_its_configuration(host: Host, tmp_path: Path) -> None:
    host.machine.program("lxc-stop", "exit 1")
    with pytest.raises(ActFailed, match="container c2 does not stop"):
        assign.rest(host.host, rest(tmp_path), host.say)
    assert (tmp_path / "c2/config").read_text() == "lxc.start.auto = 1\nnode\n"


def test_a_key_of_a_stopped_virtual_machine_is_set_and_taken_back(host: Host, proxmox: Path) -> None:
    assign.key(host.host, VmKey("130", "hostpci1", None, "0000:09:00,pcie=1"), host.say)
    assert "hostpci1: 0000:09:00,pcie=1\n" in conf(proxmox)
    assign.key(host.host, VmKey("130", "hostpci0", "0000:02:00,pcie=1", None), host.say)
    assert "hostpci0" not in conf(proxmox)
    assert host.undo(RUN)[0] == 0
    assert conf(proxmox) == CONF


def test_a_key_is_not_set_on_one_that_was_started_or_changed_meanwhile(host: Host, proxmox: Path) -> None:
    with pytest.raises(ActFailed, match="hostpci0 of VM 130 changed under us"):
        assign.key(host.host, VmKey("130", "hostpci0", "0000:03:00", None), host.say)
    (proxmox / "vm").mkdir()
    (proxmox / "vm/130").write_text("1\n")
    with pytest.raises(ActFailed, match="VM 130 is not stopped: status: running"):
        assign.key(host.host, VmKey("130", "hostpci0", "0000:02:00,pcie=1", None), host.say)
    assert conf(proxmox) == CONF


def test_a_proxmox_container_rests_without_its_node_and_wakes_as_it_was(host: Host, proxmox: Path) -> None:
    before = "arch: amd64\ndev0: /dev/null,mode=0666\ndev1: /dev/zero,mode=0666\nonboot: 1\n"
    (proxmox / "pve/lxc/202.conf").write_text(before)
    (proxmox / "run").mkdir()
    (proxmox / "run/202").touch()
    gone = (("dev0", "/dev/null,mode=0666"),)
    assign.rest(host.host, ProxmoxRest("202", gone, "1", running=True), host.say)
    assert (proxmox / "pve/lxc/202.conf").read_text() == "arch: amd64\ndev1: /dev/zero,mode=0666\nonboot: 0\n"
    assert not (proxmox / "run/202").exists()
    assert host.undo(RUN)[0] == 0
    assert (proxmox / "pve/lxc/202.conf").read_text() == before
    assert (proxmox / "run/202").exists()


def test_a_proxmox_container_starts_with_the_machine_again(host: Host, proxmox: Path) -> None:
    assign.wake(host.host, ProxmoxRest("202", (), "1", running=False), host.say)
    assert "onboot: 1" in (proxmox / "pve/lxc/202.conf").read_text()
