"""A migration is closed in its own direction, and until then neither host is taken back to before kpro."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from provision.migrate import record, run, standing
from provision.run.errors import Refused
from provision.run.moved import refuse_while_moving
from tests.unit.migrate.test_standing import BOX, of
from tests.unit.plan.seen import Seen


def ends(monkeypatch: pytest.MonkeyPatch, source: str | None, target: str | None) -> Any:
    kept = {"kpro6": source, "kpro5": target}

    def read(side: Any) -> Any:
        text = kept[side.name]
        peer = "kpro5" if side.name == "kpro6" else "kpro6"
        return None if text is None else replace(standing.parse(text), peer=peer)

    monkeypatch.setattr(record, "read", read)
    return SimpleNamespace(source=SimpleNamespace(name="kpro6"), target=SimpleNamespace(name="kpro5"))


@pytest.mark.parametrize("state", ["open", "moved"])
def test_the_inventories_of_an_open_way_are_not_taken_the_other_way_round(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run._records(ends(monkeypatch, of(state), of(state, "target")))
    for swapped in ((of(state, "target"), of(state)), (of(state, "target"), None), (None, of(state))):
        with pytest.raises(ValueError, match="not the other way round"):
            run._records(ends(monkeypatch, *swapped))


def test_a_way_that_is_closed_keeps_nobody_from_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = ends(monkeypatch, of("finalized", "target"), of("finalized"))
    assert [one.role for one in run._records(closed)] == ["target", "source"]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (of("moved"), "the only way back"),
        (of("moved", "target"), "the only host that serves it"),
        (of("open"), "two hands on one service"),
        (of("finalized"), None),
        (of("rolled_back", "target"), None),
        (None, None),
    ],
)
def test_a_host_of_a_migration_that_is_not_closed_is_not_taken_back(
    record: str | None, why: str | None
) -> None:
    host = Seen()
    for name in ("chat", "code"):
        host.put("file", standing.path(name), record if name == "chat" else None)
    session: Any = SimpleNamespace(
        observed=lambda machine: SimpleNamespace(host=host.snapshot), migrating=standing.Migrating()
    )
    if why is None:
        refuse_while_moving(session, BOX)
        return
    with pytest.raises(Refused, match=why):
        refuse_while_moving(session, BOX)
