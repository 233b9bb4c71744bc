"""What a machine's state file forbids, and what no file can make it say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.snapshot import Section, Snapshot
from provision.migrate import standing
from provision.migrate.standing import Record
from provision.plan import Refusal
from provision.spec import Engine, Guest, Machine, Model, Service

RUN = "20261130T120000Z-a1b2c3"
RECORD = Record(RUN, "tiny", "source", "kpro5", "me@here", "copy", "open", "2026-11-30T12:00:00.000+00:00")
MACHINE = Machine(
    name="kpro6",
    managed=False,
    guests=(
        Guest(
            name="llm",
            backend="lxc",
            id="llm",
            services=(
                Service(
                    name="tiny",
                    engine=Engine(kind="standin", version="1.0.0"),
                    model=Model(repo="kpro/tiny", revision="0" * 40),
                ),
            ),
        ),
    ),
)


def host(text: bytes | None, error: str | None = None) -> Snapshot:
    path = standing.path("tiny")
    return Snapshot({("file", path): Section("file", path, text, error)})


def inside(fenced: bool) -> Snapshot:
    path, drop_ins = standing.fence("tiny"), "/etc/systemd/system/kpro-tiny.service.d"
    there = b"kpro-migrated.conf\n" if fenced else None
    return Snapshot(
        {
            ("file", path): Section("file", path, b"{}\n" if fenced else None, None),
            ("dir", drop_ins): Section("dir", drop_ins, there, None),
        }
    )


def refused(seen: Snapshot, own: str = "", guest: Snapshot | None = None) -> list[Refusal]:
    return list(standing.refusals(MACHINE, seen, {"llm": guest}, own))


def test_a_record_survives_its_file() -> None:
    assert standing.parse(RECORD.dump().decode()) == RECORD


def test_an_open_migration_keeps_every_other_run_off_and_names_its_own() -> None:
    found = refused(host(RECORD.dump()))
    assert RUN in found[0].seen
    assert "--resume" in found[0].next_step
    assert refused(host(RECORD.dump()), own=RUN) == []
    assert refused(host(None)) == []


@pytest.mark.parametrize(
    ("role", "state", "kept_off"),
    [
        ("source", "open", True),
        ("target", "open", True),
        ("source", "moved", True),
        ("target", "moved", False),
        ("source", "finalized", True),
        ("target", "finalized", False),
        ("source", "rolled_back", False),
    ],
)
def test_a_service_that_was_moved_is_never_started_on_its_old_host(
    role: standing.Role, state: standing.State, kept_off: bool
) -> None:
    assert bool(refused(host(replace(RECORD, role=role, state=state).dump()))) is kept_off


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"schema": "kpro-migration/2"}', b'{"schema": "kpro-migration/1", "run": "x"}'],
)
def test_a_torn_state_file_is_no_leave_to_go_on(text: bytes) -> None:
    assert "cannot be read" in refused(host(text))[0].seen


def test_a_state_file_that_could_not_be_looked_at_is_no_leave_either() -> None:
    assert "cannot be read" in refused(host(None, "Permission denied"))[0].seen


def test_a_fence_without_a_state_file_keeps_the_service_off_too() -> None:
    (found,) = refused(host(None), guest=inside(True))
    assert "lie in the guest" in found.seen
    assert refused(host(None), guest=inside(False)) == []


def test_a_role_or_state_of_another_version_is_not_guessed() -> None:
    for change in ({"role": "witness"}, {"state": "half"}):
        with pytest.raises(ValueError, match="role"):
            standing.parse(replace(RECORD, **change).dump().decode())  # type: ignore[arg-type]


def test_what_moved_away_for_good_is_history_to_a_migration_that_brings_it_back_and_to_nobody_else() -> None:
    gone = host(replace(RECORD, state="finalized", words=("k6", "k5", "--service", "tiny")).dump())
    assert refused(gone, own="another") == []
    assert "lie in the guest" in refused(gone, own="another", guest=inside(True))[0].seen
    (found,) = refused(gone)
    assert "for good" in found.seen
    assert "to move it back here, provision migrate k5 k6 --service tiny;" in found.next_step
    for words in ((), ("k6",)):
        (old,) = refused(host(replace(RECORD, state="finalized", words=words).dump()))
        assert "provision migrate INVENTORY-OF-kpro5 INVENTORY-OF-kpro6;" in old.next_step
    for state in ("open", "moved"):
        assert refused(host(replace(RECORD, state=state).dump()), own="another")  # type: ignore[arg-type]
