"""Every output that a record writes is known, and a live machine is not spoken of as a record."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.snapshot import Section, Snapshot
from provision.inspect import texts
from provision.inspect.examine import examine
from provision.inspect.record import _states
from provision.inspect.requests import RECORDED, requests
from provision.inventory import load
from provision.planner import requests as planned
from tests.unit.inspect.live import observe_here
from tests.unit.inspect.test_conclusions import identities
from tests.unit.inspect.test_texts import tree

INVENTORIES = Path(__file__).resolve().parents[3] / "inventories"


@pytest.mark.parametrize("name", ["kpro5", "kpro6", "fleet"])
def test_every_output_that_a_record_writes_is_known(name: str) -> None:
    guests = Snapshot(
        {
            ("file", path): Section("file", path, b"")
            for path in ("/etc/pve/lxc/7.conf", "/var/lib/lxc/a/config")
        }
    )
    loaded = load(str(INVENTORIES / f"{name}.py"), (), files="none", names=False)
    for one in loaded.machines:
        wanted = [*planned(one), *requests(one), *RECORDED, *_states(guests)]
        names = {request.split(":")[1] for request in wanted if request.startswith("cmd:")}
        assert {"date-month", "fabric-manager-unit", "lxc-info-a"} <= names
        assert {name for name in names if not texts.is_known(name)} == set()


def test_a_known_output_is_not_called_strange_and_another_is(tmp_path: Path) -> None:
    assert "text.unread" not in identities(tree(tmp_path, **{"cmd__date-month": "2026-11\n"}))
    assert "text.unread" in identities(tree(tmp_path, **{"cmd__date-of-birth": "2026-11\n"}))


def test_a_live_machine_is_not_spoken_of_as_a_record() -> None:
    snapshot = observe_here(requests())
    assert ("cmd", "lsmod") in snapshot.sections
    report = examine(snapshot)
    assert not [why for why in report.unknown.values() if "recorded" in why]


@pytest.mark.parametrize("kind", ["lsmod", "dkms", "device-nodes"])
def test_what_gave_no_output_is_told_in_the_words_of_where_it_was_asked(kind: str) -> None:
    for recorded, words in ((True, "was recorded"), (False, "gave no output")):
        report = examine(Snapshot({}), recorded=recorded)
        said = {"lsmod": "loaded modules", "dkms": "dkms", "device-nodes": "device nodes"}[kind]
        assert words in report.unknown[said]


def test_a_machine_that_was_not_started_by_efi_has_no_secure_boot() -> None:
    kernel = ("/sys/module/module/parameters/sig_enforce", "/sys/kernel/security/lockdown")
    efi = {("file", path): Section("file", path, None) for path in kernel}
    efi["dir", "/sys/firmware/efi"] = Section("dir", "/sys/firmware/efi", None)
    assert examine(Snapshot(efi)).host["secure_boot"] == "disabled"
    assert examine(Snapshot(efi), recorded=True).host["secure_boot"] == "unknown"
    absent = {**efi, ("file", "/.kpro/absent"): Section("file", "/.kpro/absent", b"/sys/firmware/efi\n")}
    assert examine(Snapshot(absent), recorded=True).host["secure_boot"] == "disabled"
