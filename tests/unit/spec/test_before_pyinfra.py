"""Plain pyinfra from the project folder: what cannot be meant ends with 2 before anything is connected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provision.before_pyinfra import of_specs, reasons

LOCAL = """
from provision.spec import *
machine = Machine(name="here", guests=[Guest(name="demo", backend="lxc", id="demo")])
metal, guests = machine.pyinfra_groups()
"""
REMOTE = LOCAL.replace('name="here",', 'name="far", ssh=Ssh(host="no-such-host.invalid"),')


def call(inventory: str, *operations: str, **other: Any) -> list[str]:
    return reasons({"inventory": inventory, "operations": operations or ("deploy.py",), **other})


def one(*arguments: str, **other: Any) -> str:
    (reason,) = call(*arguments, **other)
    return reason


def test_a_right_inventory_passes(desk: Any) -> None:
    path = str(desk.write(LOCAL))
    for operations in (
        ("deploy.py",),
        ("debug-inventory",),
        ("fact", "server.Hostname"),
        ("exec", "--", "true"),
    ):
        assert call(path, *operations) == []


@pytest.mark.parametrize("operation", ["deploy.py", "debug-inventory", "fact", "exec", "server.shell"])
def test_a_mistyped_inventory_is_refused_for_every_command(desk: Any, operation: str) -> None:
    desk.write(LOCAL)
    assert "does not exist; did you mean node1?" in one("inventories/node11.py", operation)


@pytest.mark.parametrize("operation", ["deploy.py", "debug-inventory", "fact", "exec"])
def test_a_wrong_inventory_is_refused_for_every_command(desk: Any, operation: str) -> None:
    path = str(desk.write(LOCAL.replace("guests=[Guest", "gests=[Guest")))
    assert one(path, operation).startswith("machine.gests: ")


def test_an_unresolvable_host_is_refused_unless_nothing_is_to_be_connected(desk: Any) -> None:
    path = str(desk.write(REMOTE))
    for operation in ("deploy.py", "fact", "exec"):
        assert one(path, operation).startswith("machine.ssh.host: 'no-such-host.invalid' cannot be resolved")
    assert call(path, "debug-inventory") == []


def test_files_that_would_be_copied_matter_to_the_deploy_only(desk: Any) -> None:
    service = (
        'services=[Service(name="s", engine=Engine(kind="standin", version="1.0.0"), '
        'model=Model(repo="a/b", revision="1" * 40, folder="/nonexistent/models"))]'
    )
    path = str(desk.write(LOCAL.replace('id="demo"', f'id="demo", {service}')))
    assert one(path, "deploy.py").startswith("machine.guests[0].services[0].model.folder: ")
    assert call(path, "exec") == []


@pytest.mark.parametrize("limit", ["@local", "@guest/@local/demo", "@*", "metal", "guests", "all", "node1"])
def test_a_limit_that_pyinfra_matches_passes(desk: Any, limit: str) -> None:
    assert call(str(desk.write(LOCAL)), limit=(limit,)) == []


@pytest.mark.parametrize(
    ("option", "pattern", "words"),
    [
        ("limit", "nope", "--limit nope matches nothing: the machines are here"),
        ("exclude", "nope", "--exclude nope matches nothing: the machines are here"),
        ("limit", "demo", "write --limit @guest/@local/demo"),
        ("limit", "here", "write --limit @local --limit @guest/@local/demo"),
    ],
)
def test_a_limit_that_pyinfra_would_take_for_nothing_is_refused(
    desk: Any, option: str, pattern: str, words: str
) -> None:
    reasons_ = call(str(desk.write(LOCAL)), **{option: (pattern,)})
    assert any(words in reason for reason in reasons_), reasons_


def test_an_exclusion_that_leaves_nothing_is_refused(desk: Any) -> None:
    path = str(desk.write(LOCAL))
    assert "leaves no host" in one(path, exclude=("all",))
    assert "leaves no host" in one(path, limit=("metal",), exclude=("@local",))
    assert call(path, exclude=("guests",)) == []


def test_a_word_is_no_inventory_for_pyinfra(desk: Any) -> None:
    desk.write(LOCAL)
    assert one("node1") == "pyinfra takes 'node1' for a host name: write the file, inventories/node1.py"


@pytest.mark.parametrize("adhoc", ["@local", "@local,127.0.0.1", "127.0.0.1", "some.module:function"])
def test_hosts_named_on_the_command_line_are_for_single_commands_not_for_the_deploy(
    desk: Any, adhoc: str
) -> None:
    assert "deploy.py needs an inventory of specs" in one(adhoc, "deploy.py")
    assert "deploy.py needs an inventory of specs" in one(adhoc, "sub/deploy.py")
    assert call(adhoc, "exec", "--", "true") == []


@pytest.mark.parametrize("adhoc", ["no-such-host.invalid", "@local,no-such-host.invalid"])
def test_a_host_that_does_not_resolve_is_refused_for_single_commands_too(desk: Any, adhoc: str) -> None:
    assert "'no-such-host.invalid' cannot be resolved from here" in one(adhoc, "exec")
    assert call("127.0.0.1", "exec") == []


def test_a_limit_on_hosts_of_the_command_line_must_match_one(desk: Any) -> None:
    assert "matches none of @local, 127.0.0.1" in one("@local,127.0.0.1", "exec", limit=("node",))
    assert call("@local,127.0.0.1", "exec", limit=("@local",)) == []


def test_a_name_given_a_host_by_data_is_resolved_as_that_host(desk: Any) -> None:
    assert call("node", "exec", data=("ssh_hostname=127.0.0.1",)) == []
    assert "'no-such-host.invalid'" in one("node", "exec", data=("ssh_hostname=no-such-host.invalid",))


def test_an_inventory_of_plain_pyinfra_is_its_own_business_except_for_the_deploy(desk: Any) -> None:
    path = desk.write('hosts = ["@local"]\n')
    assert not of_specs(path)
    assert call(str(path), "exec") == []
    assert any("hosts: a list of strings" in reason for reason in call(str(path), "deploy.py"))
    assert of_specs(desk.write(LOCAL))
    assert of_specs(desk.write("import provision.spec\n"))
    assert not of_specs(desk.write("import provisional\n"))


def pyinfra(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "pyinfra"
    if not program.exists():
        pytest.fail("pyinfra is a dependency and its program is not beside this Python")
    return subprocess.run(
        [str(program), *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYINFRA_PROGRESS": "off"},
    )


@pytest.fixture
def project(desk: Any, repo_root: Path) -> Path:
    """A project folder: the house's config.py, an inventory, and a deploy that leaves a trace."""
    folder = Path(desk.folder)
    (folder / "config.py").write_text((repo_root / "config.py").read_text())
    (folder / "deploy.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    desk.write(LOCAL.replace(', guests=[Guest(name="demo", backend="lxc", id="demo")]', ""))
    return folder


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("inventories/node11.py", "deploy.py", "-y"), "did you mean node1?"),
        (("inventories/node1.py", "deploy.py", "-y", "--limit", "nope"), "--limit nope matches nothing"),
        (("@local", "deploy.py", "-y"), "needs an inventory of specs"),
        (("no-such-host.invalid", "exec", "--", "true"), "cannot be resolved"),
    ],
)
def test_the_real_pyinfra_ends_with_2_and_does_nothing(
    project: Path, words: tuple[str, ...], told: str
) -> None:
    done = pyinfra(project, *words)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "Loading inventory" not in done.stderr
    assert not (project / "ran").exists()


def test_the_real_pyinfra_runs_what_is_right(project: Path) -> None:
    done = pyinfra(project, "inventories/node1.py", "deploy.py", "-y")
    assert done.returncode == 0, done.stderr
    assert (project / "ran").exists()
    shown = pyinfra(project, "inventories/node1.py", "debug-inventory")
    assert shown.returncode == 0, shown.stderr
    assert '"name": "here"' in shown.stdout + shown.stderr
