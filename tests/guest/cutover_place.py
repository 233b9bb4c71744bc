"""The one container that all tests of the cut-over share, taken to an answering service by the real acts, once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.acts import ACTS
from provision.acts.voice import Voice
from provision.run.wanted import wanted_for
from provision.stack.decide import FOLDERS
from provision.stack.engine.decide import EngineBuild
from provision.stack.models import ModelPut
from tests.guest.cutover_rig import FAST, Cut
from tests.guest.place import Place
from tests.guest.rig import Container, connected, host, make_container


@pytest.fixture(scope="session")
def made_cut(guest_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cut]:
    place = Place(tmp_path_factory.mktemp("cut"), Container(f"kprotest-{os.getpid()}-cut"))
    place.write()
    make_container(place.container.name, guest_root)
    try:
        place.container.start()
        with connected(Cut(place, None).machine()) as state, pytest.MonkeyPatch.context() as patched:
            patched.setenv("XDG_CACHE_HOME", str(place.folder / "cache"))
            state.is_executing = True
            cut = Cut(place, host(state, place.guest_host))
            _set_up(cut)
            assert cut.over("first", *FAST, trial=False, gate=()).error is None
            yield cut
    finally:
        place.remove()


def _set_up(cut: Cut) -> None:
    service = cut.service(*FAST)
    wanted = wanted_for(cut.machine(service))
    desired = cut.desired(service)
    (model,) = desired.models
    assert wanted.uv is not None
    steps: tuple[tuple[str, object], ...] = (
        ("stack.base", FOLDERS),
        ("stack.provcheck", wanted.pyz),
        ("stack.uv", wanted.uv),
        ("stack.engine", EngineBuild(desired.engine, wanted.uv)),
        ("stack.model", ModelPut(model, model.directory)),
    )
    for kind, payload in steps:
        ACTS[kind](cut.host, payload, Voice("run-0", lambda line: None))
