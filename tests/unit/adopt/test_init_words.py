"""``provision init``: what it is asked for, and a file that cannot be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from provision.cli import main
from provision.init import answer, run
from provision.inspect.record import bare
from provision.inventory import InventoryRefused, find
from provision.run.errors import RunError


def asked(host: str = "root@kpro6", output: Path | None = None) -> run.Asked:
    return answer.asked(host, None, output, None, None, None, False)


@pytest.mark.parametrize("host", ["@lokal", "@", "-oProxyCommand=x", "root@box:70000", "a b"])
def test_what_is_no_host_is_said_before_anything_is_connected_to(host: str) -> None:
    with pytest.raises(ValueError, match="is no host: "):
        asked(host)
    assert asked("@local").ssh is None
    assert asked("root@fe80::1").ssh is not None


@pytest.mark.parametrize(
    ("word", "host", "port"),
    [
        ("root@box:22", "box", 22),
        ("root@box", "box", None),
        ("fe80::1", "fe80::1", None),
        ("[fe80::1]:5", "fe80::1", 5),
    ],
)
def test_a_host_is_what_record_and_inspect_take_too(word: str, host: str, port: int | None) -> None:
    ssh = asked(word).ssh
    assert ssh is not None
    assert (ssh.host, ssh.port) == (host, port)
    assert bare(word).ssh == ssh


def test_two_ports_are_one_too_many_and_every_mistake_is_told_at_once() -> None:
    with pytest.raises(ValueError, match=r"two ports of its sshd: give one$"):
        answer.asked("root@box:22", None, None, 23, None, None, False)
    both = answer.asked("root@box:22", None, None, 22, None, None, False).ssh
    assert both is not None
    assert both.port == 22
    with pytest.raises(ValueError, match="is no host") as refused:
        answer.asked("a b", "X_", Path("/no/such/x.txt"), None, None, None, False)
    assert [line.split(" ")[0] for line in str(refused.value).splitlines()] == [
        "'a",
        "--name",
        "--output",
        "--output",
    ]


def test_the_file_is_a_python_file_in_a_folder_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends in \.py"):
        asked(output=tmp_path / "x")
    with pytest.raises(ValueError, match=r"nodir is not there: make it first"):
        asked(output=tmp_path / "nodir/x.py")
    assert asked(output=tmp_path / "x.py").output == tmp_path / "x.py"
    assert asked().output == Path("inventories/kpro6.py")


def test_a_full_disk_is_said_with_the_path_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"x\.py cannot be written: No space left"):
        run._write(tmp_path / "x.py", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_came_meanwhile_is_left(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("mine")
    with pytest.raises(FileExistsError, match=r"x\.py came meanwhile"):
        run._write(tmp_path / "x.py", "text")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("word", ["@local", "root@kpro6"])
@pytest.mark.parametrize("more", [(), ("--zz",)])
def test_a_host_and_a_recorded_machine_exclude_each_other(
    tmp_path: Path, word: str, more: tuple[str, ...]
) -> None:
    done = CliRunner().invoke(main, ["inspect", word, "--sysroot", str(tmp_path), *more])
    assert done.exit_code == 2
    assert f"{word} is a host and --sysroot a recorded machine" in done.output
    assert "take hosts as they are" not in done.output
    assert not more or "'--zz'" in done.output


@pytest.mark.parametrize("word", ["@local", "root@kpro6"])
def test_a_host_in_place_of_an_inventory_is_told_what_takes_it(word: str) -> None:
    with pytest.raises(InventoryRefused) as refused:
        find(word)
    assert "is a host, and an inventory is wanted" in refused.value.reasons[0]
    with pytest.raises(InventoryRefused, match="does not exist"):
        find("./nosuch.py")
