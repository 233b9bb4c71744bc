"""What is wrong between fields is told beside mistakes of single fields, and nothing that only such a mistake makes."""

from __future__ import annotations

from typing import Any

import pytest

FIRST, SECOND = "machine.guests[0].services[0]", "machine.guests[0].services[1]"
GUEST = 'Guest(name="{}", backend="lxc", id="{}", gpus=["42:00.0"])'


def more(text: str) -> tuple[str, str]:
    """One guest more, behind the first."""
    return ("        ),\n    ],\n)", f"        ),\n        {text},\n    ],\n)")


FORMS = [
    # A mistake of form in a service, in its guest, in the machine, and one field that there is not.
    pytest.param(('profile="plain"', "profile=7"), f"{SECOND}.profile", id="service"),
    pytest.param(('suite="bookworm"', 'suite="bokworm"'), "machine.guests[0].suite", id="guest"),
    pytest.param(('name="node1",', 'name="node1", models="relative",'), "machine.models", id="machine"),
    pytest.param(('name="node1",', 'name="node1", modles="/x",'), "machine.modles", id="no such field"),
]
BETWEEN = [
    # Of a service, an engine, a model, a migration.
    pytest.param([("port=8001", 'port=8001, listen="0.0.0.0"')], f"{SECOND}.api_key_file", id="key"),
    pytest.param(
        [('version="0.20.1"', 'version="0.20.1", source="git", commit="1" * 40')],
        f"{SECOND}.engine.repository",
        id="source",
    ),
    pytest.param(
        [
            (
                'Model(repo="a/target", revision="1" * 40)',
                'Model(repo="a/target", revision="1" * 40, source="path")',
            )
        ],
        f"{FIRST}.model.path",
        id="model",
    ),
    pytest.param(
        [("port=8001", 'port=8001, migration=Migration(extra_paths=[ExtraPath(path="/proc/x", why="w")])')],
        f"{SECOND}.migration.extra_paths[0].path",
        id="extra path",
    ),
    # Of a guest: its services, GPUs, mounts, id.
    pytest.param([("port=8001", "port=8000")], f"{SECOND}.port", id="port"),
    pytest.param([('name="second"', 'name="first"')], f"{SECOND}.name", id="unit"),
    pytest.param([("id=101", "id=7")], "machine.guests[0].id", id="vmid"),
    pytest.param(
        [("mounts=[", 'mounts=[Mount(source="/tank/other", target="/srv/models"), ')],
        "machine.guests[0].mounts[1].target",
        id="mount",
    ),
    # Of a machine: its GPUs and guests.
    pytest.param(
        [("gpus=[Gpu", 'gpus=[Gpu(bdf="61:00.0", model="A"), Gpu')], "machine.gpus[2].bdf", id="gpu"
    ),
    pytest.param([("driver=", "gpu_count=1,\n    driver=")], "machine.gpu_count", id="count"),
    pytest.param([more(GUEST.format("other", "other"))], "machine.guests[1].gpus[0]", id="taken"),
    pytest.param(
        [more('Guest(name="llm", backend="lxc", id="x")')], "machine.guests[1].name", id="guest name"
    ),
    pytest.param([more('Guest(name="x", backend="pct", id=101)')], "machine.guests[1].id", id="guest id"),
    pytest.param(
        [
            more(
                'Guest(name="x", backend="lxc", id="x", services=[Service(name="third", engine=Engine(kind="standin",'
                ' version="1.0.0"), model=Model(repo="a/target", revision="1" * 40), port=8000)])'
            )
        ],
        "machine.guests[1].services[0].port",
        id="host port",
    ),
]


def told(reasons: list[str]) -> set[str]:
    return {reason.split(": ")[0] for reason in reasons if "more may follow" not in reason}


@pytest.mark.parametrize(("between", "where"), BETWEEN)
@pytest.mark.parametrize(("form", "place"), FORMS)
def test_both_are_told_in_one_round(
    desk: Any, form: tuple[str, str], place: str, between: list[tuple[str, str]], where: str
) -> None:
    assert told(desk.reasons(*between)) == {where}
    assert told(desk.reasons(form, *between)) == {place, where}


@pytest.mark.parametrize(
    "change",
    [
        # Each is one mistake, whose stand-in alone would contradict another field.
        ('bdf="42:00.0"', 'bdf="42:00.9"'),
        ("gpus=[Gpu", "gpus=[7, Gpu"),
        ('backend="pct",\n            id=101', 'backend="pcr",\n            id=101'),
        ('ssh=Ssh(host="node1.example")', "ssh=7"),
        ("port=8001", 'port=8001, listen="0.0.0.0", api_key_file=7'),
        ("port=8001", 'port=8001, candidate=Candidate(engine=7, profile="plain")'),
        ('version="0.20.1"', 'version="0.20.1", source="gti", repository="https://a/b", commit="1" * 40'),
        ('version="0.20.1"', 'version="0.20.1", source="git", repository="https://a/b", commit="main"'),
        ('revision="1" * 40)', 'revision="1" * 40, source="hbu", files=["*.json"])'),
        ('revision="1" * 40)', 'revision="1" * 40, path="models", files=["*.json"])'),
        ('revision="1" * 40)', 'revision="1" * 40, folder=7, files=["*.json"])'),
        ("port=8001", 'port=8001, listen="0.0.0.0", found=7'),
        (
            "port=8001",
            'port=8001, migration=Migration(traffic=HAProxy(backend="b", source="s", target="t", on="hsot"))',
        ),
        (
            "port=8001",
            'port=8001, migration=Migration(traffic=HAProxy(backend="b", source="s", target="t", on="hsot",'
            ' ssh=Ssh(host="h")))',
        ),
        (
            "suite=",
            'proxmox=Proxmox(template="local:vztmpl/a", storage="lo", size_gib=8, memory_mib=1024,'
            ' ip="192.0.2.7", gateway="192.0.2.1"), network="bridge:vmbr0", suite=',
        ),
        (
            "suite=",
            'proxmox=Proxmox(template="local:vztmpl/a", storage="lo", size_gib=8, memory_mib=1024),'
            ' network="brigde:vmbr0", suite=',
        ),
    ],
)
def test_what_a_mistake_only_makes_look_wrong_is_not_told(desk: Any, change: tuple[str, str]) -> None:
    (reason,) = [one for one in desk.reasons(change) if "more may follow" not in one]
    assert "unknown-" not in reason
    assert "isolated" not in reason or "bridge" in reason


def test_a_network_that_is_none_makes_no_two_guests_share_a_port(desk: Any) -> None:
    guest = (
        'Guest(name="x", backend="lxc", id="x"{}, services=[Service(name="third", engine=Engine(kind="standin",'
        ' version="1.0.0"), model=Model(repo="a/target", revision="1" * 40), port=8000)])'
    )
    assert told(desk.reasons(more(guest.format("")))) == {"machine.guests[1].services[0].port"}
    assert told(desk.reasons(more(guest.format(', network="hots"')))) == {"machine.guests[1].network"}
    first = ('suite="bookworm"', 'suite="bookworm", network="hots"')
    assert told(desk.reasons(first, more(guest.format("")))) == {"machine.guests[0].network"}


FLEET = """from provision.spec import *

one = Machine(name="one", ssh=Ssh(host="one.example"))
two = Machine(name="two", ssh=Ssh(host="two.example"))
fleet = Fleet(machines=[one, two])
metal, guests = fleet.pyinfra_groups()
"""


def test_machines_of_a_fleet_are_held_against_each_other_as_far_as_they_are_known(desk: Any) -> None:
    same = FLEET.replace('name="two"', 'name="one"')
    assert told(desk.reasons_of(same)) == {"fleet.machines[1].name"}
    wrong = same.replace('"two.example")', '"two.example"), reboot="maybe"')
    assert told(desk.reasons_of(wrong)) == {"fleet.machines[1].name", "two.reboot"}
    here = FLEET.replace(', ssh=Ssh(host="one.example")', "").replace(', ssh=Ssh(host="two.example")', "")
    assert told(desk.reasons_of(here)) == {"fleet.machines[1].ssh"}
    assert told(desk.reasons_of(here.replace('name="one"', 'name="one", ssh=7'))) == {"one.ssh"}
    assert told(desk.reasons_of(FLEET.replace("[one, two]", "[one, 7, two]"))) == {"fleet.machines[1]"}
    assert told(desk.reasons_of(same.replace("[one, two]", "[one, 7, two]"))) == {"fleet.machines[1]"}


def test_a_limit_and_a_name_that_lead_nowhere_are_told_beside_a_mistake_of_form(desk: Any) -> None:
    wrong = ('suite="bookworm"', 'suite="bokworm"')
    found = desk.reasons(wrong, limit=["nothing"])
    assert told(found) == {"machine.guests[0].suite", "--limit nothing matches nothing"}
    assert "the guests are llm;" in found[1]
    assert told(desk.reasons(wrong, limit=["llm"])) == {"machine.guests[0].suite"}
    nowhere = ("node1.example", "no-such-host.invalid")
    assert told(desk.reasons(wrong, nowhere, names=True)) == {"machine.guests[0].suite", "machine.ssh.host"}
    # What is called otherwise, or groups of the file's own: not known, so nothing is said of the limit.
    assert told(desk.reasons(('name="llm"', 'name="LLM"'), limit=["nothing"])) == {"machine.guests[0].name"}
    groups = ("metal, guests = ", "more = HostGroup()\nmetal, guests = ")
    assert told(desk.reasons(wrong, groups, limit=["more"])) == {"machine.guests[0].suite"}


def test_a_service_says_all_that_is_wrong_between_its_fields(desk: Any) -> None:
    candidate = 'candidate=Candidate(engine=Engine(kind="vllm", version="0.20.1"), profile="plain")'
    found = desk.reasons(
        ("port=8001", f'port=8001, listen="0.0.0.0", {candidate}'), ('name="second"', f'name="{"s" * 60}"')
    )
    assert told(found) == {f"{SECOND}.name", f"{SECOND}.api_key_file"}


def test_what_is_between_fields_of_an_engine_waits_for_its_single_fields(desk: Any) -> None:
    """Every field of an engine decides about its others, so none is complained of beside one that is wrong."""
    source = ('version="0.20.1"', 'version="0.20.1", source="git", commit="1" * 40')
    assert told(desk.reasons(source)) == {f"{SECOND}.engine.repository"}
    python = (source[0], f"{source[1]}, python=3")
    assert told(desk.reasons(python)) == {f"{SECOND}.engine.python"}
