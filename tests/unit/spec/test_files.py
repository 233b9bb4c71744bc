"""Mistakes of the file as a whole: not there, no Python, no machine, groups that pyinfra would misread."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from provision import inventory
from provision.inventory import InventoryRefused, find, load

GROUPS = "metal, guests = machine.pyinfra_groups()"


def refusal(*arguments: Any, **how: Any) -> list[str]:
    with pytest.raises(InventoryRefused) as refused:
        load(*arguments, **how)
    return refused.value.reasons


def last_line(desk: Any) -> int:
    return int(desk.valid().rstrip("\n").count("\n")) + 1


def test_a_word_means_the_file_of_that_name_here_before_the_house_s_own(desk: Any) -> None:
    house = find("kpro5")
    assert house.is_file()
    assert house.parent.name in ("inventories", "_inventories")
    mine = desk.write(desk.valid(), "kpro5.py")
    assert find("kpro5").samefile(mine)
    assert find("inventories/kpro5.py").samefile(mine)


@pytest.mark.parametrize("asked", ["node11", "inventories/node11.py", "./inventories/nod1.py"])
def test_a_missing_inventory_is_refused_with_near_names(desk: Any, asked: str) -> None:
    desk.write(desk.valid())
    (reason,) = refusal(asked)
    assert "node1?" in reason
    assert asked in reason


def test_a_name_that_is_near_to_none_is_told_what_there_is(desk: Any) -> None:
    desk.write(desk.valid())
    (reason,) = refusal("inventories/zzz.py")
    assert "does not exist; there are node1" in reason


@pytest.mark.parametrize("asked", ["./inventories", "../", "..", ".", "/"])
def test_a_folder_is_no_inventory(desk: Any, asked: str) -> None:
    desk.write(desk.valid())
    (reason,) = refusal(asked)
    assert f"{asked} is a folder, and an inventory is a .py file; there are " in reason
    assert "node1" in reason


def test_python_that_is_no_inventory_is_not_offered_as_one(desk: Any) -> None:
    desk.write(desk.valid())
    Path("config.py").write_text("from provision.before_pyinfra import reasons\n")
    Path("deploy.py").write_text("from provision import chain\n")
    Path("nodes.py").write_text("from provision.spec import Machine\n")
    for asked in ("./confg.py", "./deploi.py", "."):
        (reason,) = refusal(asked)
        assert not re.search(r"config\b|deploy\b", reason)
        assert "there are nodes" in reason


@pytest.mark.parametrize("asked", ["", " "])
def test_an_empty_text_names_no_inventory(desk: Any, asked: str) -> None:
    desk.write(desk.valid())
    (reason,) = refusal(asked)
    assert reason.startswith("an empty text names no inventory; there are ")
    assert "node1" in reason


@pytest.mark.parametrize("name", ["x.yml", "x.yaml", "x.json", "hosts.ini"])
def test_an_inventory_of_another_tool_is_not_run_as_python(desk: Any, name: str) -> None:
    Path(name).write_text("- hosts: world\n")
    (reason,) = refusal(f"./{name}")
    assert f"./{name} is a {Path(name).suffix} file, and an inventory is Python, a .py file" in reason
    assert "provision init" in reason


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("def broken(:", "this is no Python: "),
        (
            "import no_such_module_here",
            "ModuleNotFoundError: No module named 'no_such_module_here'",
        ),
        ("undefined_name", "NameError: name 'undefined_name' is not defined"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)", "the file ends the program"),
        ("Gpu('42:00.0')", "TypeError: a spec takes its fields by name"),
        ("open('/nonexistent/key')", "FileNotFoundError: "),
    ],
)
def test_an_error_in_the_file_is_one_line_with_its_place(desk: Any, line: str, words: str) -> None:
    (reason,) = desk.reasons((GROUPS, line))
    assert reason.startswith(f"inventories/node1.py:{last_line(desk)}: {words}")
    assert "\n" not in reason
    assert "Traceback" not in reason


def test_an_error_inside_a_function_is_placed_where_the_function_fails(desk: Any) -> None:
    (reason,) = desk.reasons_of("def _f():\n    return {}['x']\n_f()\n")
    assert reason.startswith("inventories/node1.py:2: KeyError: 'x'")


def test_a_file_that_is_no_text_is_refused(desk: Any) -> None:
    path = desk.write("")
    path.write_bytes(b"\xff\xfe\x00")
    (reason,) = refusal(str(path))
    assert "cannot be read" in reason


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('PACKAGES = ["curl", "rsync"]', "would take 'curl', 'rsync' for hosts; call it _PACKAGES"),
        ('packages = ("curl", "rsync")', "a tuple of strings"),
        ("empty = []", "empty: a list at the top"),
        ("machines = [machine]", "machines: a list of machines"),
        ("first = metal[:1]", "HostGroup(…)"),
        ("from os import sys; argv = sys.argv", "argv: a list"),
    ],
)
def test_a_list_at_the_top_is_refused_because_pyinfra_takes_it_for_hosts(
    desk: Any, line: str, words: str
) -> None:
    reasons = desk.reasons((GROUPS, f"{GROUPS}\n{line}"))
    place = f"(inventories/node1.py:{last_line(desk) + 1})"
    assert any(words in reason and reason.endswith(place) for reason in reasons), reasons


@pytest.mark.parametrize(
    "line",
    [
        '_PACKAGES = ["curl", "rsync"]',
        'PACKAGES = {"curl", "rsync"}',
        "first = HostGroup(metal[:1])",
        "name = 'x'",
    ],
)
def test_what_pyinfra_does_not_take_for_hosts_may_stand_at_the_top(desk: Any, line: str) -> None:
    assert desk.load((GROUPS, f"{GROUPS}\n{line}"))


def test_a_file_without_any_machine_is_refused(desk: Any) -> None:
    (reason,) = desk.reasons_of("X = 1\n")
    assert reason.startswith("inventories/node1.py: describes no machine")


@pytest.mark.parametrize(
    ("end", "missing"),
    [
        ("", "metal and guests"),
        ("metal, _guests = machine.pyinfra_groups()", "guests"),
        ("_metal, guests = machine.pyinfra_groups()", "metal"),
        ("hosts, guests = machine.pyinfra_groups()", "metal"),
    ],
)
def test_a_file_whose_groups_are_missing_is_refused(desk: Any, end: str, missing: str) -> None:
    (reason,) = desk.reasons((GROUPS, end))
    assert f"has no {missing}, so pyinfra would find no host" in reason


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("guests, metal = machine.pyinfra_groups()", "exchanged"),
        (
            f"{GROUPS}\nguests = HostGroup()",
            "guests is not what the machines make of themselves (missing: @guest/",
        ),
        (f"{GROUPS}\nmetal = HostGroup([*metal, ('x', {{}})])", "(too many: x)"),
        (f"{GROUPS}\nmetal[0][1]['ssh_user'] = 'bob'", "(other data or order)"),
        (f"{GROUPS}\nother = Machine(name='node2')", "other: 'node2' is in no host group"),
        (f"{GROUPS}\nother = HostGroup([('node9', {{}})])", "other names hosts of no machine here: node9"),
        (f"{GROUPS}\nmetal = HostGroup()\nguests = HostGroup()", "hold no machine"),
    ],
)
def test_groups_that_do_not_follow_from_the_machines_are_refused(desk: Any, end: str, words: str) -> None:
    reasons = desk.reasons((GROUPS, end))
    assert any(words in reason for reason in reasons), reasons


def test_machines_named_one_by_one_may_be_put_together_as_a_fleet(desk: Any) -> None:
    end = (
        "second = Machine(name='node2', ssh=Ssh(host='node2.example'))\n"
        "metal, guests = Fleet(machines=[machine, second]).pyinfra_groups()"
    )
    assert [machine.name for machine in desk.load((GROUPS, end)).machines] == ["node1", "node2"]


def test_the_package_s_own_inventories_are_the_last_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = inventory.folders_of_inventories()
    assert tmp_path / "inventories" not in folders
    (tmp_path / "inventories").mkdir()
    assert inventory.folders_of_inventories() == [tmp_path / "inventories", *folders]
