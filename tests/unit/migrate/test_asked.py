"""Which two ends are meant: said before anything is connected to, or refused with what there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from provision.cli import main
from provision.inventory import InventoryRefused
from provision.migrate.asked import Asked, _with, both_ends

_FILE = """\
from provision.spec import Candidate, Engine, Fleet, Guest, Machine, Model, Service, Ssh

def _service(name, port):
    engine = Engine(kind="standin", version="1.0.0")
    model = Model(repo="kpro/tiny", revision="1" * 40)
    return Service(name=name, engine=engine, model=model, port=port, candidate={candidate})

def _machine(name):
    services = [_service(one, 8000 + at) for at, one in enumerate({services})]
    guests = [Guest(name="llm", backend="lxc", id="llm", services=services)]
    return Machine(name=name, ssh=Ssh(host="192.0.2." + str(len(name) + {at})), managed=False, guests=guests)

_machines = [_machine(one) for one in {machines}]
metal, guests = Fleet(machines=_machines).pyinfra_groups()
"""


def inventory(
    folder: Path, name: str, services: list[str], machines: list[str] | None = None, candidate: str = "None"
) -> str:
    path = folder / f"{name}.py"
    at = 10 if name == "a" else 100
    path.write_text(_FILE.format(services=services, machines=machines or [name], candidate=candidate, at=at))
    return str(path)


def asked(source: str, target: str, service: str | None = None) -> Asked:
    return Asked(source, target, service, "begin", False, "", True, False, False)


def test_the_one_service_that_both_name_is_meant(tmp_path: Path) -> None:
    ask = asked(inventory(tmp_path, "a", ["chat", "code"]), inventory(tmp_path, "b", ["chat"]))
    source, target, _ = both_ends(ask)
    assert (source.name, target.name, source.service.name, target.service.name) == ("a", "b", "chat", "chat")


def test_of_several_one_is_to_be_said_and_both_must_have_it(tmp_path: Path) -> None:
    paths = inventory(tmp_path, "a", ["chat", "code"]), inventory(tmp_path, "b", ["chat", "code"])
    with pytest.raises(ValueError, match="chat, code: say which with --service"):
        both_ends(asked(*paths))
    assert both_ends(asked(*paths, "code"))[0].service.name == "code"
    with pytest.raises(
        ValueError, match="--service mail: both inventories must name it; both name chat, code"
    ):
        both_ends(asked(*paths, "mail"))


def test_a_service_that_only_one_names_cannot_move(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="both name none: write the service into the target's inventory too"):
        both_ends(asked(inventory(tmp_path, "a", ["chat"]), inventory(tmp_path, "b", ["code"])))


def test_a_service_moves_between_two_machines_one_in_each_inventory(tmp_path: Path) -> None:
    one = inventory(tmp_path, "a", ["chat"])
    with pytest.raises(ValueError, match=r"both the machine a"):
        both_ends(asked(one, one))
    with pytest.raises(ValueError, match=r"b\.py has 2 machines"):
        both_ends(asked(one, inventory(tmp_path, "b", ["chat"], ["b", "bb"])))


def test_a_migration_tries_no_candidate(tmp_path: Path) -> None:
    candidate = "Candidate(engine=engine, profile='plain', flags=('--max-model-len', '512'))"
    _, target, _ = both_ends(
        asked(
            inventory(tmp_path, "a", ["chat"], candidate=candidate),
            inventory(tmp_path, "b", ["chat"], candidate=candidate),
        )
    )
    assert target.service.candidate is None
    assert target.machine.guests[0].services == (target.service,)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--resume", "--rollback"], "one at a time"),
        (["--remove-models"], "goes with --finalize"),
        (["--models-from", "/mnt"], "goes with --cold"),
        (["--source-is-off"], "goes with --cold"),
        (["--cold", "--models-from", "backup"], "absolute path"),
    ],
)
def test_options_that_contradict_each_other_are_usage_errors(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["migrate", "a", "b", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_other_services_of_the_target_are_left_alone_and_their_folders_stay(tmp_path: Path) -> None:
    both = ["chat", "code"]
    ask = asked(inventory(tmp_path, "a", both), inventory(tmp_path, "b", both), "chat")
    _, target, _ = both_ends(ask)
    (guest,) = target.machine.guests
    assert [one.name for one in guest.services] == ["chat"]
    # The folder that kpro makes for models is not one that the operator has to make.
    assert guest.mounts == ()
    kept = _with(target.machine, guest, ())
    assert [(mount.source, mount.target) for mount in kept.mounts] == [("/srv/models", "/srv/models")]


def test_two_wrong_inventories_are_both_told_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.py", "b.py")]
    for path, wrong in zip(paths, ("Machine(name='a', gpus='x')", "no_such_name"), strict=True):
        path.write_text(f"from provision.spec import Machine\n{wrong}\n")
    with pytest.raises(InventoryRefused) as refused:
        both_ends(asked(*map(str, paths)))
    assert any("a.py" in reason and "gpus" in reason for reason in refused.value.reasons)
    assert any("b.py" in reason and "no_such_name" in reason for reason in refused.value.reasons)


def test_two_machines_that_are_not_reached_are_both_told_and_the_way_without_the_source(
    tmp_path: Path,
) -> None:
    paths = inventory(tmp_path, "a", ["chat"]), inventory(tmp_path, "b", ["chat"])
    for path, last in zip(map(Path, paths), (2, 3), strict=True):
        path.write_text(re.sub(r"Ssh\(.*?\)\)", f"Ssh(host='127.0.0.{last}', port=1)", path.read_text()))

    def run(*more: str) -> tuple[int, str]:
        words = ["-c", "from provision.cli import main; main()", "migrate", *paths, "--dry-run", *more]
        environment = os.environ | {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=environment,
        )
        return done.returncode, done.stderr

    code, said = run()
    assert code == 1, said
    for word in ("127.0.0.2", "127.0.0.3", "Where a is dead for good: --cold"):
        assert word in said
    code, said = run("--cold")
    assert code == 1, said
    assert "127.0.0.3" in said
    assert "127.0.0.2" not in said
