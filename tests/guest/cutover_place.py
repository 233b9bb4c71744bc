"""The one container that all tests of the cut-over share: the whole chain takes it from nothing to answering, once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.guest.conftest import one_chain_at_a_time
from tests.guest.cutover_rig import Cut
from tests.guest.place import Place
from tests.guest.rig import Container, connected, host


@pytest.fixture(scope="session")
def made_cut(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cut]:
    place = Place(tmp_path_factory.mktemp("cut"), Container(f"kprotest-{os.getpid()}-cut"))
    place.write(flags=("--tok-s", "400"))
    try:
        with pytest.MonkeyPatch.context() as patched, one_chain_at_a_time():
            for name in ("STATE", "CACHE"):
                patched.setenv(f"XDG_{name}_HOME", str(place.folder / name.lower()))
            done = place.apply()
        assert done.returncode == 0, done.stderr[-3000:]
        service = Cut(place, None).service()
        with connected(Cut(place, None).machine(service)) as state:
            state.is_executing = True
            yield Cut(place, host(state, place.guest_host))
    finally:
        place.remove()
