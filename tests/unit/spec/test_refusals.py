"""Every way in which a field can be wrong is refused with the field's path, beside the right one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provision.data import engines
from provision.inventory import InventoryRefused, load
from provision.spec import Machine

OFFLINE: Any = {"files": "none", "names": False}
FIRST = "machine.guests[0].services[0]"
SECOND = "machine.guests[0].services[1]"
CANDIDATE = (
    "port=8000,\n                ),",
    'port=8000,\n                    candidate=Candidate(engine=Engine(kind="vllm", version="0.20.1"), '
    'profile="vllm-dflash", drafter=Model(repo="a/drafter", revision="2" * 40)),\n                ),',
)


def test_the_valid_inventory_is_accepted(desk: Any) -> None:
    inventory = desk.load(CANDIDATE)
    assert [machine.name for machine in inventory.machines] == ["node1"]
    assert inventory.path == desk.folder / "inventories" / "node1.py"


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        # a typo in a key, at every depth
        (("driver=Driver", "drvier=Driver"), "machine.drvier", "did you mean 'driver'?"),
        (("suite=", "siute="), "machine.guests[0].siute", "did you mean 'suite'?"),
        (("port=8001", "prt=8001"), f"{SECOND}.prt", "did you mean 'port'?"),
        (('route="nvidia"', 'rout="nvidia"'), "machine.driver.rout", "did you mean 'route'?"),
        (('model="RTX A6000"', 'modle="RTX A6000"'), "machine.gpus[0].modle", "did you mean 'model'?"),
        # missing, or of another kind
        (('name="node1",\n', "\n"), "machine.name", "is missing"),
        (('engine=Engine(kind="vllm", version="0.20.1"),', ""), f"{SECOND}.engine", "is missing"),
        (("port=8001", 'port="8001"'), f"{SECOND}.port", "whole number without quotes"),
        (("port=8001", "port=True"), f"{SECOND}.port", "whole number"),
        (("port=8001", "port=80010"), f"{SECOND}.port", "at most 65535"),
        (("port=8001", "port=0"), f"{SECOND}.port", "at least 1"),
        (("port=8001", "port=8001, ready_seconds=0"), f"{SECOND}.ready_seconds", "at least 1"),
        (
            ('gpus=["42:00.0", "61:00.0"]', 'gpus="42:00.0"'),
            "machine.guests[0].gpus",
            "list in square brackets",
        ),
        (("driver=Driver(", "managed='no', driver=Driver("), "machine.managed", "True or False"),
        (
            ('version="0.20.1")', 'version="0.20.1", python=3.10)'),
            f"{SECOND}.engine.python",
            "Python reads 3.10 as 3.1",
        ),
        (('version="0.20.1")', 'version="0.20.1", python="3")'), f"{SECOND}.engine.python", "'3.11'"),
        (('version="0.20.1")', 'version="0.20.1", python="3.\u0661")'), f"{SECOND}.engine.python", "'3.11'"),
        (('backend="pct"', 'backend="lcx"'), "machine.guests[0].backend", "did you mean 'lxc'?"),
        (('flavour="open"', 'flavour="opne"'), "machine.driver.flavour", "did you mean 'open'?"),
        (('ssh=Ssh(host="node1.example")', 'ssh="node1"'), "machine.ssh", "must be a Ssh(…)"),
        (('host="node1.example"', 'host="root@node1"'), "machine.ssh.host", "no host name"),
        (('host="node1.example"', 'host="-oProxyCommand=x"'), "machine.ssh.host", "no host name"),
        (('name="node1"', 'name="Node 1"'), "machine.name", "lower-case letters"),
        (('source="/tank/models"', 'source="tank"'), "machine.guests[0].mounts[0].source", "absolute"),
        (('repo="a/target"', 'repo="target"'), f"{FIRST}.model.repo", "organisation/name"),
        (('revision="1" * 40', 'revision="main"'), f"{FIRST}.model.revision", "no commit of 40"),
        (("id=101", "id=99"), "machine.guests[0].id", "from 100"),
        (('suite="bookworm"', 'network="bridge"'), "machine.guests[0].network", "'bridge:<name"),
        (('suite="bookworm"', 'network="bridge:vmbré"'), "machine.guests[0].network", "'bridge:<name"),
        (('gpus=[Gpu(bdf="42:00.0"', 'gpus=[Gpu(bdf="42:0G.0"'), "machine.gpus[0].bdf", "not a PCI address"),
        (('gpus=[Gpu(bdf="42:00.0"', 'gpus=[Gpu(bdf="42:3f.0"'), "machine.gpus[0].bdf", "00 to 1f"),
        (('model="RTX A6000"', 'model=""'), "machine.gpus[0].model", "names no card"),
        (('model="RTX A6000"', 'model="RTX"'), "machine.gpus[0].model", "names no card"),
        (("port=8001", "port=8001, environment={'A-B': '1'}"), f"{SECOND}.environment", "'A-B'"),
        (("port=8001", "port=8001, environment={'A': 'x\\ny'}"), f"{SECOND}.environment", "line break"),
        (("port=8001", "port=8001, environment={'A': 'x\\ry'}"), f"{SECOND}.environment", "line break"),
        (('"--tensor-parallel-size", "2"', '"--seed\\0", "2"'), f"{SECOND}.flags", "NUL byte"),
        (("port=8001", "port=8001, listen='node1'"), f"{SECOND}.listen", "no IP address"),
        # addresses and GPUs that do not agree with each other
        (
            ('Gpu(bdf="61:00.0"', 'Gpu(bdf="0000:42:00.0"'),
            "machine.gpus[1].bdf",
            "0000:42:00.0 is already gpus[0]",
        ),
        (
            ('gpus=["42:00.0", "61:00.0"]', 'gpus=["42:00.0", "62:00.0"]'),
            "machine.guests[0].gpus[1]",
            "lists 0000:42:00.0, 0000:61:00.0",
        ),
        (
            ('gpus=["42:00.0", "61:00.0"]', 'gpus=["42:00.0", "0000:42:00.0"]'),
            "machine.guests[0].gpus[1]",
            "already gpus[0]",
        ),
        (("driver=Driver(", "gpu_count=1, driver=Driver("), "machine.gpu_count", "less than the 2 GPUs"),
        (("driver=Driver(", "gpu_count='2', driver=Driver("), "machine.gpu_count", "whole number"),
        # two services on one port, of one name
        (("port=8001", "port=8000"), f"{SECOND}.port", "8000 is already the port of services[0] (first)"),
        (('name="second"', 'name="first"'), f"{SECOND}.name", "already services[0]"),
        # keys
        (("port=8001", "listen='0.0.0.0', port=8001"), f"{SECOND}.api_key_file", "is missing"),
        (
            ("port=8000,", "port=8000, api_key_file='/etc/kpro.key',"),
            f"{FIRST}.api_key_file",
            "cannot be kept secret",
        ),
        # versions
        (('version="0.20.1"', 'version="0.20.9"'), f"{SECOND}.engine.version", "there are 0.20.1, 0.33.0"),
        (('kind="vllm"', 'kind="vlm"'), f"{SECOND}.engine.kind", "there are vllm"),
        (
            ('kind="vllm", version="0.20.1"', 'kind="vllm", version="0.33.0", python="3.10"'),
            f"{SECOND}.engine.python",
            ">=3.11",
        ),
        (('version="580.159.04"', 'version="580.195.04"'), "machine.driver.version", "580.159.04"),
        (('version="580.159.04"', 'version="999.1"'), "machine.driver.version", "form of an NVIDIA version"),
        (('version="580.159.04"', 'version="470.10"'), "machine.driver.version", "known branches are 535"),
        (
            ('version="580.159.04", flavour="open", route="nvidia"', 'version="580.159.04"'),
            "machine.driver.version",
            "Debian's archive does not carry",
        ),
        (
            ('version="580.159.04"', 'version="570.148.08"'),
            "machine.driver.version",
            "older than 580.65.06, which CUDA 13 of sglang 0.5.11 needs (guests[0].services[0].engine)",
        ),
        # wheels
        (
            ('version="0.20.1")', 'version="0.20.1", source="wheel")'),
            f"{SECOND}.engine.wheelhouse",
            "source='wheel' needs",
        ),
        (
            ('version="0.20.1")', 'version="0.20.1", wheelhouse="/srv/wheels")'),
            f"{SECOND}.engine.wheelhouse",
            "only source='wheel'",
        ),
        (
            ('version="0.20.1")', 'version="0.20.1", source="pypi")'),
            f"{SECOND}.engine.source",
            "there are 'index', 'wheel'",
        ),
        # profiles
        (
            ('profile="sglang-mtp"', 'profile="sglang-mpt"'),
            f"{FIRST}.profile",
            "did you mean 'sglang-mtp'?",
        ),
        (
            ('profile="sglang-mtp"', 'profile="vllm-mtp"'),
            f"{FIRST}.profile",
            "is for vllm, not for sglang",
        ),
        (
            (
                'version="0.5.11"),\n                    model=Model(repo="a/target", revision="1" * 40),\n'
                '                    profile="sglang-mtp"',
                'version="0.5.10.post1"), drafter=Model(repo="a/d", revision="2" * 40),\n'
                '                    model=Model(repo="a/t", revision="1" * 40), profile="sglang-dflash"',
            ),
            f"{FIRST}.profile",
            "needs sglang >=0.5.11",
        ),
        (('profile="plain"', 'profile="vllm-dflash"'), f"{SECOND}.drafter", "drafts with a second model"),
        (
            ('profile="plain"', 'profile="plain", drafter=Model(repo="a/d", revision="2" * 40)'),
            f"{SECOND}.drafter",
            "never read",
        ),
        # flags
        (
            ('"--tensor-parallel-size", "2"', '"--tensor-parallel-size", "3"'),
            f"{SECOND}.flags[1]",
            "3 GPUs are asked for, and the guest has 2",
        ),
        (
            ('"--tensor-parallel-size", "2"', '"--tensor-parallel-size=4"'),
            f"{SECOND}.flags[0]",
            "4 GPUs are asked for",
        ),
        (
            ('"--tensor-parallel-size", "2"', '"--tensor-parallel-size", "two"'),
            f"{SECOND}.flags[1]",
            "whole number of GPUs",
        ),
        (
            ('"--tensor-parallel-size", "2"', '"--tensor-parallel-size 2"'),
            f"{SECOND}.flags[0]",
            "write '--tensor-parallel-size', '2'",
        ),
        (
            ('"--tensor-parallel-size", "2"', '"--api-key", "sesame"'),
            f"{SECOND}.flags[0]",
            "--api-key is written by kpro",
        ),
        (
            ('"--tensor-parallel-size", "2"', '"--port=9000"'),
            f"{SECOND}.flags[0]",
            "--port is written by kpro",
        ),
        # the guest must be able to run the engine
        (('suite="bookworm"', 'suite="trixie"'), f"{FIRST}.engine.python", "suite='trixie' has 3.13"),
        (('"0.20.1")', '"0.20.1", python="3.12")'), f"{SECOND}.engine.python", "suite='bookworm' has 3.11"),
        (
            ('gpus=["42:00.0", "61:00.0"],\n', "\n"),
            f"{FIRST}.engine.kind",
            "sglang needs a GPU",
        ),
        (
            (
                'model=Model(repo="a/target", revision="1" * 40)',
                'model=Model(repo="a/target", revision="1" * 40, folder="/tmp")',
            ),
            f"{FIRST}.model.folder",
            "mounts[0] shows read-only",
        ),
    ],
)
def test_a_wrong_field_is_refused_with_its_path(
    desk: Any, change: tuple[str, str], field: str, words: str
) -> None:
    reasons = desk.reasons(change)
    told = [reason for reason in reasons if reason.startswith(f"{field}: ")]
    assert told, reasons
    assert words in told[0]
    assert "inventories/node1.py:" in told[0]


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (
            ('kind="vllm", version="0.20.1"), profile', 'kind="vllm", version="0.2"), profile'),
            "engine.version",
            "0.20.1",
        ),
        (('profile="vllm-dflash"', 'profile="sglang-dflash"'), "profile", "not for vllm"),
        (('drafter=Model(repo="a/drafter", revision="2" * 40)', ""), "drafter", "is missing"),
        (
            ('profile="vllm-dflash",', 'profile="vllm-dflash", flags=["-tp", "8"],'),
            "flags[1]",
            "8 GPUs are asked for",
        ),
    ],
)
def test_a_candidate_is_held_to_the_same_rules(
    desk: Any, change: tuple[str, str], field: str, words: str
) -> None:
    reasons = desk.reasons(CANDIDATE, change)
    told = [reason for reason in reasons if reason.startswith(f"{FIRST}.candidate.{field}: ")]
    assert told, reasons
    assert words in told[0]


def test_a_wheel_for_a_newer_c_library_than_the_guest_s_is_refused(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [replace(row, glibc=(2, 38)) if row.kind == "vllm" else row for row in engines.RELEASES]
    assert desk.load()
    monkeypatch.setattr(engines, "RELEASES", tuple(rows))
    (reason,) = desk.reasons()
    assert reason.startswith(
        f"{SECOND}.engine.version: vllm 0.20.1 needs glibc 2.38, and suite='bookworm' has 2.36"
    )


def test_a_cuda_12_engine_runs_on_the_driver_that_debian_carries(desk: Any) -> None:
    text = """
from provision.spec import *
machine = Machine(
    name="node1",
    gpus=[Gpu(bdf="42:00.0", model="RTX A6000")],
    driver=Driver(version="550.163.01", route="debian"),
    guests=[Guest(name="llm", backend="lxc", id="llm", gpus=["42:00.0"], services=[Service(
        name="s",
        engine=Engine(kind="sglang", version="0.5.10.post1"),
        model=Model(repo="a/b", revision="1" * 40),
    )])],
)
metal, guests = machine.pyinfra_groups()
"""
    assert load(str(desk.write(text)), **OFFLINE)
    (reason,) = desk.reasons_of(text.replace("0.5.10.post1", "0.5.11"))
    assert reason.startswith("machine.driver.version: 550.163.01 is older than 580.65.06")


def test_a_candidate_takes_a_port_too(desk: Any) -> None:
    assert desk.load(CANDIDATE)
    reasons = desk.reasons(CANDIDATE, ("port=8001", "port=18000"))
    assert reasons[0].startswith(f"{SECOND}.port: 18000 is already the port of services[0].candidate")


def test_the_line_is_that_of_the_field(desk: Any) -> None:
    text = desk.valid(("port=8001", "port=99999"))
    line = text[: text.index("port=99999")].count("\n") + 1
    assert desk.reasons_of(text) == [
        f"{SECOND}.port: 99999 is too large: at most 65535 (inventories/node1.py:{line})"
    ]


def test_all_reasons_are_told_at_once(desk: Any) -> None:
    reasons = desk.reasons(
        ("driver=Driver", "drvier=Driver"),
        ('backend="pct"', 'backend="lcx"'),
        ("port=8000,", "port=True,"),
        ("port=8001,", "prt=8001,"),
        ('repo="a/target"', 'repo="target"'),
        ("metal, guests", 'PACKAGES = ["curl", "rsync"]\nmetal, guests'),
    )
    starts = [reason.split(": ")[0] for reason in reasons]
    assert sorted(starts) == sorted(
        [
            "machine.drvier",
            "machine.guests[0].backend",
            f"{FIRST}.port",
            f"{SECOND}.prt",
            f"{FIRST}.model.repo",
            "PACKAGES",
        ]
    )


def test_a_sound_part_of_a_broken_machine_is_judged_too(desk: Any) -> None:
    reasons = desk.reasons(("driver=Driver", "drvier=Driver"), ('"0.20.1"', '"0.20.2"'))
    assert [reason.split(": ")[0] for reason in reasons] == ["machine.drvier", f"{SECOND}.engine.version"]


def test_a_spec_that_no_machine_holds_is_named_by_the_file_s_own_name(desk: Any) -> None:
    text = desk.valid().replace(
        "machine = Machine(", 'llm = Gpu(bdf="nowhere", model="x")\nmachine = Machine('
    )
    assert desk.reasons_of(text)[0].startswith("llm.bdf: 'nowhere' is not a PCI address")


def test_a_spec_kept_in_a_variable_is_found_in_its_place(desk: Any) -> None:
    text = (
        desk.valid()
        .replace('driver=Driver(version="580.159.04", flavour="open", route="nvidia")', "driver=pinned")
        .replace(
            "machine = Machine(", 'pinned = Driver(version="580.159.04", route="nvdia")\nmachine = Machine('
        )
    )
    (reason,) = desk.reasons_of(text)
    assert reason.startswith("machine.driver.route: 'nvdia' is unknown: did you mean 'nvidia'?")
    assert reason.endswith("(inventories/node1.py:5)")


def test_a_changed_copy_is_told_with_its_place_too(desk: Any) -> None:
    text = """
from provision.spec import *
_base = Machine(name="node1", ssh=Ssh(host="node1"))
machine = _base.model_copy(update={"name": "node2", "reboot": "never"})
metal, guests = machine.pyinfra_groups()
"""
    (reason,) = desk.reasons_of(text)
    assert reason.startswith("machine.reboot: 'never' is unknown")
    assert reason.endswith("(inventories/node1.py:4)")


def test_specs_built_by_a_neighbour_are_placed_where_the_file_asks_for_them(desk: Any) -> None:
    (desk.folder / "our_driver_pins.py").write_text(
        "from provision.spec import *\ndef driver():\n    return Driver(version='580.159.04', route='nvdia')\n"
    )
    text = """
from our_driver_pins import driver
from provision.spec import *
machine = Machine(name="node1", driver=driver())
metal, guests = machine.pyinfra_groups()
"""
    (reason,) = desk.reasons_of(text)
    assert reason.startswith("machine.driver.route: 'nvdia' is unknown: did you mean 'nvidia'?")
    assert reason.endswith("(inventories/node1.py:4)")


def test_a_machine_of_a_fleet_is_named_by_its_place(desk: Any) -> None:
    text = """
from provision.spec import *

def _node(number):
    reboot = "never" if number == 2 else "refused"
    return Machine(name=f"node{number}", ssh=Ssh(host=f"node{number}"), reboot=reboot)

fleet = Fleet(machines=[_node(number) for number in range(4)])
metal, guests = fleet.pyinfra_groups()
"""
    (reason,) = desk.reasons_of(text)
    assert reason.startswith("fleet.machines[2].reboot: 'never' is unknown")
    assert (
        len(load(str(desk.write(text.replace('"never" if number == 2 else ', ""))), **OFFLINE).machines) == 4
    )


@pytest.mark.parametrize(
    ("second", "field"),
    [
        ('Machine(name="a", ssh=Ssh(host="b"))', "fleet.machines[1].name"),
        ('Machine(name="b")', None),
    ],
)
def test_two_machines_of_a_fleet_are_two(desk: Any, second: str, field: str | None) -> None:
    text = f"""
from provision.spec import *
fleet = Fleet(machines=[Machine(name="a", ssh=Ssh(host="a")), {second}])
metal, guests = fleet.pyinfra_groups()
"""
    if field is None:
        assert len(load(str(desk.write(text)), **OFFLINE).machines) == 2
    else:
        assert desk.reasons_of(text)[0].startswith(f"{field}: ")


def test_only_one_machine_can_be_this_one(desk: Any) -> None:
    text = """
from provision.spec import *
fleet = Fleet(machines=[Machine(name="a"), Machine(name="b")])
metal, guests = fleet.pyinfra_groups()
"""
    assert desk.reasons_of(text)[0].startswith("fleet.machines[1].ssh: is missing")


def test_two_guests_on_the_machine_s_own_network_share_its_ports(desk: Any) -> None:
    service = (
        'Service(name="s", engine=Engine(kind="standin", version="1.0.0"), '
        'model=Model(repo="a/b", revision="1" * 40), port=8000)'
    )

    def text(network: str) -> str:
        return f'''
from provision.spec import *
machine = Machine(name="a", guests=[
    Guest(name="g", backend="lxc", id="g", network="host", services=[{service}]),
    Guest(name="h", backend="lxc", id="h", network="{network}", services=[{service}]),
])
metal, guests = machine.pyinfra_groups()
'''

    (reason,) = desk.reasons_of(text("host"))
    assert reason.startswith(
        "machine.guests[1].services[0].port: 8000 is already the port of guests[0].services[0]"
    )
    assert load(str(desk.write(text("isolated"))), **OFFLINE)


@pytest.mark.parametrize("twin", ['name="llm"', "id=101"])
def test_two_guests_of_one_name_or_id_are_refused(desk: Any, twin: str) -> None:
    other = 'Guest(name="other", backend="pct", id=102),\n    ],\n)'
    assert desk.load(("    ],\n)", other))
    same = other.replace('name="other"' if "name" in twin else "id=102", twin)
    (reason,) = desk.reasons(("    ],\n)", same))
    assert reason.startswith(f"machine.guests[1].{twin.split('=')[0]}: ")
    assert "is already guests[0]" in reason


def test_a_gpu_goes_into_one_guest_only(desk: Any) -> None:
    (reason,) = desk.reasons(
        ("    ],\n)", '    Guest(name="other", backend="pct", id=102, gpus=["61:00.0"]),\n    ],\n)')
    )
    assert reason.startswith("machine.guests[1].gpus[0]: 0000:61:00.0 is already given to guests[0] (llm)")


def test_a_path_of_a_secret_is_named_but_no_value_of_a_variable(desk: Any) -> None:
    reasons = desk.reasons(("port=8001", "port=8001, environment={'TOKEN': 4711}"))
    assert reasons[0].startswith(f"{SECOND}.environment.TOKEN: ")
    assert "4711" not in reasons[0]


def test_a_file_that_imports_its_neighbour_sees_the_working_folder(desk: Any) -> None:
    (desk.folder / "our_hosts_here.py").write_text("NAME = 'node7'\n")
    text = desk.valid(('name="node1"', "name=NAME")).replace(
        "from provision.spec", "from our_hosts_here import NAME\nfrom provision.spec"
    )
    assert load(str(desk.write(text)), **OFFLINE).machines[0].name == "node7"


def test_reading_leaves_nothing_behind(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before = list(sys.path)
    desk.load(("metal, guests", "print('hello')\nmetal, guests"))
    assert sys.path == before
    assert "kpro_inventory" not in sys.modules
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="Machine"):
        Machine(name="Not A Name")


def test_the_shown_path_is_relative_only_inside_the_working_folder(desk: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere.py"
    elsewhere.write_text("metal = [\n")
    with pytest.raises(InventoryRefused) as refused:
        load(str(elsewhere))
    assert refused.value.reasons[0].startswith(f"{elsewhere}:")
