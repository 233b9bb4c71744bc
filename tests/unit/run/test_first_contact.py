"""A machine that is met for the first time, by a real SSH server on loopback that lets nobody in."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paramiko import Ed25519Key, SSHException
from pyinfra.connectors.sshuserclient import client as pyinfras

from provision.host import first_contact

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
pytestmark = pytest.mark.skipif(
    not (Path(SSHD).exists() and shutil.which("ssh-keygen")), reason="there is no sshd here"
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """Its port, and its key as ssh-keygen shows it (``SHA256:…``)."""
    key = tmp_path / "host_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    shown = subprocess.run(["ssh-keygen", "-lf", str(key)], capture_output=True, text=True, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [SSHD, "-D", "-e", "-f", "/dev/null", "-h", str(key), "-p", str(port)]
    words += ["-o", "ListenAddress=127.0.0.1", "-o", "PidFile=none", "-o", "UsePAM=no"]
    server = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port, shown.stdout.split()[1]
    finally:
        server.terminate()
        server.wait()


def _inspect(port: int, home: Path) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
    code = "from provision.cli import main; main(prog_name='provision')"
    return subprocess.run(
        [sys.executable, "-c", code, "inspect", f"root@127.0.0.1:{port}"],
        capture_output=True,
        text=True,
        check=False,
        env={**kept, "HOME": str(home)},
    )


def test_the_key_is_kept_in_a_file_that_was_not_there_and_told_once_as_ssh_keygen_shows_it(
    served: tuple[int, str], tmp_path: Path
) -> None:
    port, digest = served
    done = _inspect(port, tmp_path / "home")
    assert done.stderr.count(f"ED25519 {digest}") == 1
    assert "does not let root in" in done.stderr
    assert "No such file" not in done.stderr
    (line,) = [one for one in done.stderr.splitlines() if "host key" in one]
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in line
    folder = tmp_path / "home" / ".ssh"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "known_hosts").stat().st_mode) == 0o600
    again = _inspect(port, tmp_path / "home")
    assert digest not in again.stderr
    assert len((folder / "known_hosts").read_text().splitlines()) == 1


def test_who_is_strict_in_his_ssh_config_has_no_unknown_key_taken(
    served: tuple[int, str], tmp_path: Path
) -> None:
    port, _ = served
    folder = tmp_path / "home" / ".ssh"
    folder.mkdir(parents=True)
    (folder / "config").write_text("Host *\n  StrictHostKeyChecking yes\n")
    done = _inspect(port, tmp_path / "home")
    assert done.returncode == 1
    assert "its host key is not in known_hosts, and no other is taken. Next: ssh -p" in done.stderr
    assert "does not let root in" not in done.stderr
    assert not (folder / "known_hosts").exists()


@pytest.mark.parametrize("word", ["no", "accept-new", "ask"])
def test_other_words_in_ssh_config_change_nothing(served: tuple[int, str], tmp_path: Path, word: str) -> None:
    folder = tmp_path / "home" / ".ssh"
    folder.mkdir(parents=True)
    (folder / "config").write_text(f"Host *\n  StrictHostKeyChecking {word}\n")
    assert served[1] in _inspect(served[0], tmp_path / "home").stderr


def test_a_key_that_cannot_be_kept_is_not_taken_and_that_is_the_cause(
    served: tuple[int, str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".ssh").write_text("a file\n")
    done = _inspect(served[0], home)
    assert done.returncode == 1
    assert "its host key cannot be kept in " in done.stderr
    assert "Next: ssh -p" in done.stderr
    assert served[1] not in done.stderr


def test_a_second_connection_of_the_same_process_does_not_tell_it_again(tmp_path: Path) -> None:
    before = pyinfras.AcceptNewPolicy.missing_host_key
    said: list[str] = []
    try:
        first_contact.tell(said.append)
        client: Any = pyinfras.SSHClient()
        policy: Any = pyinfras.AcceptNewPolicy()
        client._host_keys_filename = str(tmp_path / "ssh" / "known_hosts")
        key = Ed25519Key.from_private_key_file(str(_key(tmp_path)))
        policy.missing_host_key(client, "[box]:2222", key)
        assert client._host_keys.check("[box]:2222", key)
        assert len(said) == 1
        client._host_keys_filename = "/proc/nothing/known_hosts"
        with pytest.raises(SSHException, match="cannot be kept in"):
            policy.missing_host_key(client, "other", key)
        assert len(said) == 1
    finally:
        pyinfras.AcceptNewPolicy.missing_host_key = before  # type: ignore[method-assign, unused-ignore]


def _key(folder: Path) -> Path:
    file = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return file
