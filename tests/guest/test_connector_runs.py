"""Whole pyinfra runs by its command line: limits, failed machines, one run from nothing, Proxmox VE's backend."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from gevent import subprocess

from provision.host import transport
from provision.spec import Guest, Machine, Ssh
from tests.guest.rig import Container, Sshd, connected, host, make_container


class Runs:
    """A folder with an inventory and a deploy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, machine: Machine, deploy: str, *flags: str, order: str = "metal, guests"
    ) -> subprocess.CompletedProcess[str]:
        (self.folder / "inv.py").write_text(
            "from provision.spec import Machine as _Machine\n"
            f"_m = _Machine.model_validate_json({machine.model_dump_json()!r})\n"
            f"_metal, _guests = _m.pyinfra_groups()\n"
            + {
                "metal, guests": "metal, guests = _metal, _guests\n",
                "guests, metal": "guests, metal = _guests, _metal\n",
            }[order]
        )
        head = """\
        from pyinfra import host, inventory
        from pyinfra.operations import files, server
        from provision.host import transport
        from provision.spec import Guest
        metal = not host.data.get("guest")
        """
        (self.folder / "deploy.py").write_text(textwrap.dedent(head) + textwrap.dedent(deploy))
        return subprocess.run(
            [str(Path(sys.executable).with_name("pyinfra")), "inv.py", "deploy.py", *flags],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYINFRA_PROGRESS": "off"},
            check=False,
        )


@pytest.fixture
def pyinfra(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_a_limit_to_the_guest_alone_connects_its_machine_and_runs_no_step_on_it(
    pyinfra: Runs, machine: Machine, container: Container, tmp_path: Path
) -> None:
    deploy = f"""
    if metal:
        server.shell(name="on the metal", commands=["touch {tmp_path}/metal"])
    else:
        server.shell(name="inside", commands=["hostname > /root/kpro-limit"])
    """
    name = machine.guest_host_name(machine.guests[0])
    done = pyinfra(machine, deploy, "-y", "--limit", name)
    assert done.returncode == 0, done.stderr
    assert f"(for {name}, itself left out by the limit)" in done.stderr
    assert container.attach("cat", "/root/kpro-limit").strip() == container.name
    assert not (tmp_path / "metal").exists()
    container.attach("rm", "/root/kpro-limit")


def test_a_step_that_fails_on_the_machine_fails_its_guests_with_the_reason(
    pyinfra: Runs, machine: Machine, container: Container
) -> None:
    deploy = """
    if metal:
        server.shell(name="release the GPUs", commands=["echo 42:00.0 is in use >&2; exit 1"])
    else:
        server.shell(name="inside", commands=["touch /root/kpro-never"])
    """
    done = pyinfra(machine, deploy, "-y")
    assert done.returncode == 1
    assert (
        f"its machine {machine.host_name} failed: step 'release the GPUs' (42:00.0 is in use)" in done.stderr
    )
    assert not (container.rootfs / "root/kpro-never").exists()


@pytest.mark.parametrize("order", ["metal, guests", "guests, metal"])
@pytest.mark.parametrize("limit", [(), ("--limit", "@guest/far/inside")])
def test_a_machine_that_cannot_be_reached_fails_its_guests_with_the_reason(
    pyinfra: Runs, sshd: Sshd, container: Container, order: str, limit: tuple[str, ...]
) -> None:
    ssh = Ssh.model_validate({**sshd.ssh().model_dump(), "port": 1})
    other = Guest(name="other", backend="lxc", id="other")
    machine = Machine(name="far", ssh=ssh, guests=(container.spec(), other))
    deploy = 'server.shell(name="any", commands=["touch /root/kpro-never"])'
    done = pyinfra(machine, deploy, "-y", *limit, order=order)
    assert done.returncode == 1
    assert "its machine far cannot be reached: Could not connect" in done.stderr
    assert not (container.rootfs / "root/kpro-never").exists()


def test_a_dry_run_and_a_real_one_from_nothing_through_the_container_s_creation(
    pyinfra: Runs, guest_root: Path, tmp_path: Path
) -> None:
    name = f"kprotest-{os.getpid()}-born"
    machine = Machine(name="box", guests=(Guest(name="born", backend="lxc", id=name),))
    container = make_container(name, guest_root)
    shutil.move(container.rootfs.parent / "config", tmp_path / "config")
    deploy = f"""
    if metal:
        server.shell(name="create", commands=["cp {tmp_path}/config /var/lib/lxc/{name}/ && lxc-start -n {name} -d"])
    else:
        files.put(name="file", src="payload", dest="/root/payload", mode="600")
        server.shell(name="inside", commands=["echo 'it'\\"'\\"'s $HOME é' > /root/said"])
    """
    (tmp_path / "payload").write_bytes(bytes(range(256)))
    try:
        dry = pyinfra(machine, deploy, "--dry")
        assert dry.returncode == 0, dry.stderr
        assert not (container.rootfs.parent / "config").exists()
        done = pyinfra(machine, deploy, "-y")
        assert done.returncode == 0, done.stderr
        assert (container.rootfs / "root/payload").read_bytes() == bytes(range(256))
        assert (container.rootfs / "root/said").read_text() == "it's $HOME é\n"
        again = 'if not metal: files.put(src="payload", dest="/root/payload", mode="600")'
        second = pyinfra(machine, again, "-y")
        assert second.returncode == 0, second.stderr
        assert "No changes" in second.stderr
    finally:
        shutil.move(tmp_path / "config", container.rootfs.parent / "config")
        container.destroy()


@pytest.fixture
def pct(container: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A `pct` that knows container 101, which is the LXC container, and answers nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def answers(status: str) -> None:
        (folder / "pct").write_text(
            textwrap.dedent(f"""\
            #!/bin/sh
            case "$1 $2" in
            "status 101") {status} ;;
            "exec 101") [ "$3" = -- ] || exit 98; shift 3; exec lxc-attach -n {container.name} -- "$@" ;;
            *) echo "pct: not answered: $*" >&2; exit 99 ;;
            esac
            """)
        )
        (folder / "pct").chmod(0o755)

    answers('echo "status: running"')
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return answers


def test_a_proxmox_guest_is_reached_by_pct(
    pct: Callable[[str], None], container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPRO_LEAK", "secret")
    machine = Machine(name="box", guests=(Guest(name="llm", backend="pct", id="101"),))
    with connected(machine) as state:
        inside = host(state, "@guest/@local/llm")
        done = transport.run(inside, "hostname; env; cat", stdin=b"\xff\n")
        assert done.stdout.startswith(f"{container.name}\n".encode())
        assert done.stdout.endswith(b"\xff\n")
        assert b"KPRO_LEAK" not in done.stdout
        pct("echo \"Configuration file 'nodes/box/lxc/101.conf' does not exist\" >&2; exit 2")
        assert inside.connector.look().state.value == "absent"
        pct('echo "ipcc_send_rec failed" >&2; exit 2')
        assert inside.connector.look().state.value == "unknown"
