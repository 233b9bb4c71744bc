"""``--host``: the ssh program is a double that runs the command here, in a shell, as sshd would."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks import record, remote
from checks.errors import BadInput, Unreachable

HERE = 'while [ "$1" != "--" ]; do shift; done; shift 2; exec sh -c "$1"'


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """``ssh(script)`` puts a double of the ssh program first on the PATH; its arguments go to the file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def install(script: str) -> Path:
        program = folder / "ssh"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/args\n{script}\n')
        program.chmod(0o755)
        return tmp_path / "args"

    return install


def test_it_runs_there_from_memory_and_leaves_nothing(
    ssh: Callable[[str], Path], provcheck: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    args = ssh(f"cd {scratch}; {HERE}")
    kept = tmp_path / "box.json"
    said = provcheck("gpus", "--host", "box", "--expect", 0, "--json", "--record", kept)
    assert (said.code, said.report["verdict"], said.report["evidence"]) == (0, "pass", "live")
    assert args.read_text().splitlines()[:3] == ["-T", "--", "box"]
    assert list(scratch.iterdir()) == []
    assert record.load(kept).host == said.report["facts"]["host"]


def test_the_other_machine_needs_no_package_of_ours(
    ssh: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "bin" / "python3"
    system = "/usr/bin/python3"
    if not Path(system).exists():
        pytest.skip("no bare python3 here")
    ssh(HERE)
    python.symlink_to(system)
    assert remote.record("box", 30.0).nvml is not None


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'ssh: connect to host box port 22: Connection refused' >&2; exit 255", "Connection refused"),
        ("cat >/dev/null; echo 'sh: 1: python3: not found' >&2; exit 127", "has no python3"),
        ("cat >/dev/null; echo 'python 3.7 is too old' >&2; exit 76", "too old"),
        ("cat >/dev/null; echo Welcome", "sent no record"),
        ("exit 255", "could not reach"),
    ],
)
def test_a_machine_that_cannot_be_asked_is_unknown_and_exit_3(
    script: str, said: str, ssh: Callable[[str], Path], provcheck: Callable[..., Any]
) -> None:
    ssh(script)
    answer = provcheck("gpus", "--host", "box", "--json")
    assert (answer.code, answer.status("node.reachable", "host")) == (3, "unknown")
    assert said in answer.report["findings"][0]["message"]


def test_a_machine_that_stays_silent_is_given_up(
    ssh: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "SLACK", 0.3)
    ssh("exec sleep 60")
    with pytest.raises(Unreachable, match="no answer"):
        remote.record("box", 0.2)


def test_without_an_ssh_program_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unreachable, match="no ssh program"):
        remote.record("box", 1.0)


@pytest.mark.parametrize("name", ["-oProxyCommand=touch /tmp/x", "--", ""])
def test_a_name_that_would_be_an_option_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="no host name"):
        remote.call(name, ["gpus"], 1.0)


def test_arguments_reach_the_other_side_unchanged(ssh: Callable[[str], Path]) -> None:
    ssh(HERE)
    with pytest.raises(BadInput, match="no probe named") as caught:
        remote.call("box", ["_probe", "a 'b' $HOME; touch x"], 5.0)
    assert "$HOME; touch x" in str(caught.value)
    assert json.dumps(str(caught.value))


def test_the_report_of_another_machine_is_as_good_as_ours(
    ssh: Callable[[str], Path], provcheck: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    ssh(HERE)
    there = remote.report("box", ["gpus", "--expect", "0"], 30.0)
    assert (there.command, there.verdict.value) == ("gpus", "pass")
    failing = remote.report("box", ["gpus", "--expect", "9"], 30.0)
    assert failing.verdict.value in ("fail", "unknown"), "exit 1 and 3 are reports too"
    said = provcheck("all", "--host", "box", "--expect", 0, "--json")
    assert (said.code, said.report["command"]) == (0, "all")
    assert "all runs on box" in said.err


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 255", "could not reach"),
        ("cat >/dev/null; echo Welcome; exit 0", "sent no report"),
        ('cat >/dev/null; echo \'{"schema": "provcheck/1"}\'; exit 1', "sent no report"),
        ("cat >/dev/null; echo 'bash: No such command' >&2; exit 2", "No such command"),
        ("cat >/dev/null; exit 0", "did not run"),
        ("cat >/dev/null; yes '[' | head -c 9000000", "sent no report"),
    ],
)
def test_a_machine_without_a_report_is_unknown_and_exit_3(
    script: str, said: str, ssh: Callable[[str], Path], provcheck: Callable[..., Any]
) -> None:
    ssh(script)
    answer = provcheck("all", "--host", "box", "--json")
    assert (answer.code, answer.status("node.reachable", "host")) == (3, "unknown")
    assert said in answer.report["findings"][0]["message"]


def test_what_is_refused_here_is_refused_through_host_as_well(
    ssh: Callable[[str], Path], provcheck: Callable[..., Any]
) -> None:
    ssh(HERE)
    for words in (("nccl", "--library", "/nonexistent"), ("nccl", "--pid", "999999999")):
        here, there = provcheck(*words), provcheck(*words, "--host", "box")
        assert (here.code, there.code) == (2, 2), there.out
        assert here.err.removeprefix("provcheck: ") in there.err


def test_a_refused_login_is_no_want_of_root_here(
    ssh: Callable[[str], Path], provcheck: Callable[..., Any]
) -> None:
    ssh("cat >/dev/null; echo 'user@box: Permission denied (publickey,password).' >&2; exit 255")
    for command in ("gpus", "nccl", "load", "all"):
        said = provcheck(command, "--host", "box")
        assert said.code == 3
        assert "Permission denied (publickey" in said.out
        assert "root" not in said.out


def test_nccl_of_another_machine_takes_its_options_along(
    ssh: Callable[[str], Path], provcheck: Callable[..., Any]
) -> None:
    args = ssh("cat >/dev/null; echo no >&2; exit 2")
    said = provcheck(
        "nccl", "--host", "box", "--size", "64M", "--unit", "kpro-chat.service", "--force", "--json"
    )
    assert (said.code, said.status("node.reachable", "host")) == (3, "unknown")
    sent = args.read_text()
    assert "nccl --size 64M --unit kpro-chat.service" in sent
    assert "--force --json" in sent
    assert provcheck("nccl", "--host", "box", "--record", "x.json").code == 2
