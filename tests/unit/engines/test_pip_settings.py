"""What pip is set up with, told to uv: the program is run as a guest runs it, and held against pip's own answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provision.acts.engine import prelude
from provision.spec import Engine
from provision.stack.engine import pip_settings
from provision.stack.engine.desired import desired_engine

SECRET = "https://user:pa'ss@example.org/simple"


def said(tmp_path: Path, **environ: str) -> dict[str, str]:
    """The variables that a shell has after reading what the program prints."""
    source = Path(pip_settings.__file__).read_text()
    clean = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CONFIG_DIRS": str(tmp_path / "xdg"),
        **environ,
    }
    shell = 'eval "$("$0" -c "$1")" && env'
    done = subprocess.run(
        ["sh", "-c", shell, sys.executable, source], env=clean, capture_output=True, text=True, check=True
    )
    rows = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in rows if name.startswith(("UV_", "SSL_", "KPRO_", "ALL_"))}


def has(tmp_path: Path, wanted: dict[str, str]) -> bool:
    """Whatever this machine's own /etc/pip.conf adds."""
    return wanted.items() <= said(tmp_path).items()


def conf(tmp_path: Path, text: str, name: str = ".config/pip/pip.conf") -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_every_address_reaches_uv_with_its_password_whole(tmp_path: Path) -> None:
    conf(
        tmp_path,
        f"[global]\nindex-url = {SECRET}\nextra-index-url =\n    https://a.example/x\n    file:///opt/y\n",
    )
    assert has(
        tmp_path,
        {
            "UV_DEFAULT_INDEX": SECRET,
            "UV_INDEX": "https://a.example/x file:///opt/y",
            "UV_INDEX_STRATEGY": "unsafe-best-match",
        },
    )


def test_folders_certificates_constraints_and_no_index(tmp_path: Path) -> None:
    conf(
        tmp_path,
        "[global]\nfind-links = /a /b\ncert = /c.pem\nno-index = true\n[install]\nconstraint = /d.txt\n",
    )
    assert has(
        tmp_path,
        {
            "UV_FIND_LINKS": "/a,/b",
            "SSL_CERT_FILE": "/c.pem",
            "KPRO_UV_FLAGS": "--no-index",
            "UV_CONSTRAINT": "/d.txt",
        },
    )


def test_the_environment_is_stronger_than_files_and_uv_s_own_than_both(tmp_path: Path) -> None:
    conf(tmp_path, "[global]\nfind-links = /file\nindex-url = https://file.example\n")
    found = said(tmp_path, PIP_FIND_LINKS="/env", UV_DEFAULT_INDEX="https://uv.example")
    assert (found["UV_FIND_LINKS"], found["UV_DEFAULT_INDEX"]) == ("/env", "https://uv.example")


def test_a_user_s_file_is_stronger_than_the_system_s(tmp_path: Path) -> None:
    conf(tmp_path, "[global]\nindex-url = https://system.example\n", "xdg/pip/pip.conf")
    conf(tmp_path, "[global]\nindex-url = https://user.example\n")
    assert said(tmp_path)["UV_DEFAULT_INDEX"] == "https://user.example"


def test_without_settings_nothing_is_said(tmp_path: Path) -> None:
    assert said(tmp_path, PIP_CONFIG_FILE=os.devnull) == {}


def test_a_file_that_cannot_be_read_stops_without_telling_its_lines(tmp_path: Path) -> None:
    conf(tmp_path, "password-of-somebody\n")
    command = [sys.executable, pip_settings.__file__]
    done = subprocess.run(command, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip's configuration cannot be read" in done.stderr
    assert "password-of-somebody" not in done.stderr


def test_pip_itself_reads_the_same_out_of_these_files(tmp_path: Path) -> None:
    conf(tmp_path, "[global]\nindex-url = https://one.example\nfind-links = /a\n")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "xdg")}
    found = [
        [sys.executable, "-m", "pip"],
        ["/usr/bin/python3", "-m", "pip"],
        [shutil.which("pip") or "/nowhere/pip"],
    ]
    for pip in found:
        done = subprocess.run(
            ["env", *pip, "config", "list"], env=environ, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            break
    else:
        pytest.skip("this machine has no pip to compare with")
    ours = pip_settings.options(environ, pip_settings.files(environ))
    theirs = {
        row.partition("=")[0].partition(".")[2]: row.partition("=")[2].strip("'")
        for row in done.stdout.split()
    }
    assert {key: ours.get(key) for key in ("index-url", "find-links")} == {
        key: theirs.get(key) for key in ("index-url", "find-links")
    }


@pytest.mark.parametrize(("told", "flags"), [("1", "--no-index"), ("0", "")])
def test_what_comes_before_uv_has_it_ask_no_index_where_pip_asks_none(
    tmp_path: Path, told: str, flags: str
) -> None:
    script = prelude(desired_engine(Engine(kind="standin", version="1.0.0"))) + 'echo "flags:$KPRO_UV_FLAGS"'
    given = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_NO_INDEX": told, "KPRO_UV_FLAGS": "--x"}
    done = subprocess.run(["sh", "-c", script], env=given, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"flags:{flags}"
