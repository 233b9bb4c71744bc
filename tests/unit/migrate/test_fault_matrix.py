from __future__ import annotations
import time
from pathlib import Path
import pytest
from provision.migrate import runbook
from tests.unit.migrate.model import World
from tests.unit.migrate.model_move import Controller, furnish, quick


@pytest.mark.parametrize("extra", [False, True])
def test_trunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: bool) -> None:
    quick(monkeypatch)
    t = time.time()
    world = World(tmp_path / "w", extra)
    print("world", time.time() - t)
    try:
        furnish(world)
        monkeypatch.setenv("XDG_STATE_HOME", str(world.stage / "state"))
        c = Controller(world)
        m = c.moving()
        t = time.time()
        c.begin(m)
        try:
            runbook.forward(m)
        finally:
            print("\n".join(c.said))
            print((world.stage / "unasked").read_text())
        print("forward", time.time() - t, world.calls)
        t = time.time()
        print(c.command("rollback"), time.time() - t, c.said[-3:])
    finally:
        world.close()
    assert 0
