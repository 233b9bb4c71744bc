"""A cut-over in a real container: what serves is never worsened, and is back and generating before a refusal is told."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.guest.cutover_rig import Cut
from tests.guest.place import Place
from tests.guest.rig import Container, connected, host

pytestmark = pytest.mark.usefixtures("one_operator")


@pytest.fixture(scope="module")
def cut(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cut]:
    """A container in which the service was taken from nothing to answering by the whole chain."""
    place = Place(tmp_path_factory.mktemp("cut"), Container(f"kprotest-{os.getpid()}-cut"))
    place.write()
    try:
        done = place.apply()
        assert done.returncode == 0, done.stderr[-3000:]
        machine = Cut(place, None).machine(Cut(place, None).service())
        with connected(machine) as state:
            state.is_executing = True
            yield Cut(place, host(state, place.guest_host))
    finally:
        place.remove()


def test_x(cut: Cut) -> None:
    for mode in ("beside", "swap"):
        ended = cut.over(mode, "--tok-s", "401" if mode == "swap" else "400")
        print(ended.text)
        assert ended.error is None
        print(cut.outcome(), cut.left())
    ended = cut.over("swap", "--fault", "garbage")
    print(ended.text, cut.outcome(), cut.left())
    ended = cut.over("beside", "--fault", "crash")
    print(ended.text, cut.outcome(), cut.left())
    ended = cut.over("swap", "--fault", "memory")
    print(ended.text, cut.outcome(), cut.left())
