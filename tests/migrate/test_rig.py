"""The two hosts are hosts: kpro brings a service up on one, over SSH, with the programs that an operator has."""

from __future__ import annotations

from pathlib import Path

from tests.migrate.place import Place
from tests.migrate.rig import Pair


def test_apply_brings_the_service_up_on_host_a_and_host_b_knows_nothing_of_it(
    pair: Pair, tmp_path: Path
) -> None:
    place = Place(tmp_path, pair)
    place.write()
    done = place.apply()
    assert done.returncode == 0, done.stdout + done.stderr
    assert place.answer(pair.a)
    assert not place.answer(pair.b)
