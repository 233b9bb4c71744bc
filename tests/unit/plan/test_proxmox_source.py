"""Before anything is changed: is there what a Proxmox container would be made from, and where its root would come?"""

from __future__ import annotations

import pytest

from provision.guest.decide import container_plan
from provision.guest.proxmox.plan import requests
from provision.plan import Plan
from provision.spec import Guest, Machine
from tests.unit.plan.seen import Seen
from tests.unit.plan.test_proxmox_decide import ABSENT, CREATION

STORAGE = """dir: local
\tpath /var/lib/vz
\tcontent iso,vztmpl,backup

zfspool: tank
\tpool tank
\tcontent images,rootdir

zfspool: plain
\tpool plain
"""
LIST = f"NAME                                                         SIZE  \n{CREATION.template}         120.65MB\n"


@pytest.fixture
def host() -> Seen:
    seen = Seen().cmd("pct-status-105", ABSENT, 2).put("file", "/etc/pve/storage.cfg", STORAGE)
    return seen.cmd("pveam-list-local", LIST)


def plan(host: Seen, **change: object) -> Plan:
    made = CREATION.model_copy(update=change)
    guest = Guest(name="llm", backend="pct", id=105, network="bridge:vmbr0", proxmox=made)
    return container_plan(Machine(name="box", guests=[guest]), guest, host.snapshot)


def refused(plan: Plan) -> list[str]:
    return [refusal.where.removeprefix("machine.guests[0].proxmox.") for refusal in plan.refusals]


def test_a_container_is_made_where_its_template_and_its_storage_are(host: Seen) -> None:
    found = plan(host)
    assert (found.refusals, found.notes) == ((), ())
    assert [item.kind for item in found.items] == [
        "container.create",
        "container.configure",
        "container.start",
    ]
    assert refused(plan(host, storage="plain")) == [], "a pool holds roots unless its content says otherwise"


def test_a_template_that_is_not_on_the_machine_is_refused_with_those_that_are(host: Seen) -> None:
    found = plan(host, template="local:vztmpl/debian-13-standard_13.1-2_amd64.tar.zst")
    assert refused(found) == ["template"]
    assert CREATION.template in found.refusals[0].seen
    assert "pveam download local debian-13-standard_13.1-2_amd64.tar.zst" in found.refusals[0].next_step
    found = plan(host.cmd("pveam-list-local", LIST.splitlines()[0]))
    assert "storage local has none" in found.refusals[0].seen


def test_a_storage_of_templates_that_does_not_exist_has_none(host: Seen) -> None:
    assert refused(plan(host.cmd("pveam-list-local", "storage 'local' does not exist\n", 255))) == [
        "template"
    ]


@pytest.mark.parametrize(
    ("storage", "seen", "step"),
    [
        ("tnak", "has no storage tnak", "choose one that has containers: plain, tank"),
        ("local", "is for backup, iso, vztmpl", "pvesm set local --content backup,iso,rootdir,vztmpl"),
    ],
)
def test_a_storage_that_takes_no_root_is_refused(host: Seen, storage: str, seen: str, step: str) -> None:
    found = plan(host, storage=storage)
    assert refused(found) == ["storage"]
    assert seen in found.refusals[0].seen
    assert step in found.refusals[0].next_step


def test_both_reasons_are_said_at_once(host: Seen) -> None:
    assert refused(plan(host.cmd("pveam-list-local", ""), storage="tnak")) == ["storage", "template"]


def test_what_could_not_be_told_is_noted_and_left_to_pct(host: Seen) -> None:
    del host.sections["cmd", "pveam-list-local"]
    found = plan(host)
    assert found.refusals == ()
    assert "was not looked at" in found.notes[0]
    found = plan(host.cmd("pveam-list-local", "ipcc_send_rec[1] failed\n", 111))
    assert (found.refusals, "ipcc_send_rec[1] failed" in found.notes[0]) == ((), True)


@pytest.mark.parametrize("text", [None, ""])
def test_without_a_storage_cfg_only_pct_knows_the_storages(host: Seen, text: str | None) -> None:
    assert refused(plan(host.put("file", "/etc/pve/storage.cfg", text))) == []


def test_only_a_guest_that_says_how_it_is_made_asks_for_templates() -> None:
    made = Guest(name="llm", backend="pct", id=105, network="bridge:vmbr0", proxmox=CREATION)
    by_hand = made.model_copy(update={"proxmox": None})
    assert "cmd:pveam-list-local:pveam list local" in requests(Machine(name="box", guests=[made]))
    assert not [
        one for one in requests(Machine(name="box", guests=[by_hand])) if one.startswith("cmd:pveam-list")
    ]
