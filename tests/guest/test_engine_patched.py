"""Patches by a deploy: one that applies is in what serves, one that does not is refused before anything is touched."""

from __future__ import annotations

import difflib
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.testhost import demo_files
from tests.guest.place import Place
from tests.guest.rig import Container

pytestmark = pytest.mark.usefixtures("one_operator")

FILE = "kpro_standin/version.py"
MARK = "PATCHED = True\n"


def _wheel(place: Place) -> Path:
    files = place.folder / "files"
    demo_files.prepare(files)
    return next(demo_files.wheel_folder(files).glob("*.whl"))


def _engine(place: Place, *, spoilt: bool = False) -> dict[str, Any]:
    """The stand-in from its wheelhouse, with a change of one of its own files."""
    wheel = _wheel(place)
    with zipfile.ZipFile(wheel) as archive:
        old = archive.read(FILE).decode().splitlines(keepends=True)
    text = "".join(difflib.unified_diff(old, [*old, MARK], f"a/{FILE}", f"b/{FILE}"))
    patch = place.folder / ("spoilt.patch" if spoilt else "mark.patch")
    patch.write_text(text.replace(old[-1], f"other {old[-1]}") if spoilt else text)
    patches = [{"file": str(patch), "why": "to tell it by its mark"}]
    return {"source": "wheel", "wheelhouse": str(wheel.parent), "patches": patches}


@pytest.fixture(scope="module")
def made(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("place"), Container(f"kprotest-{os.getpid()}-patched"))
    yield place
    place.remove()


def _environments(place: Place) -> set[str]:
    return {path.name for path in (place.container.rootfs / "opt/kpro/envs").iterdir()}


def test_a_patch_is_shown_applied_and_in_what_serves(made: Place) -> None:
    made.write(engine=_engine(made))
    assert "patched by mark.patch (to tell it by its mark)" in json.dumps(made.plan())
    done = made.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert made.answer().strip()
    (environment,) = (made.container.rootfs / "opt/kpro/envs").iterdir()
    (patched,) = environment.glob(f"lib/python3*/site-packages/{FILE}")
    assert patched.read_text().endswith(MARK)
    assert json.loads((environment / "kpro-env.json").read_text())["patches"][0]["name"] == "mark.patch"
    assert made.plan()["exit"] == 0


def test_a_patch_that_does_not_apply_is_refused_and_nothing_is_touched(made: Place) -> None:
    pid, before, digests = made.main_pid(), _environments(made), made.digests()
    made.write(engine=_engine(made, spoilt=True))
    done = made.apply()
    assert done.returncode == 2, done.stderr[-3000:]
    assert "spoilt.patch does not apply to kpro_standin-1.0.0" in done.stderr
    assert f"{FILE}, hunk 1" in done.stderr
    assert (made.main_pid(), _environments(made), made.digests()) == (pid, before, digests)


def test_without_the_patch_another_environment_serves_and_the_patched_one_is_kept_for_the_way_back(
    made: Place,
) -> None:
    made.write()
    (patched,) = _environments(made)
    done = made.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    assert made.answer().strip()
    assert len(_environments(made)) == 2
    assert any(patched in note for note in made.plan()["machines"][0]["notes"])
    made.write(engine=_engine(made))
    kinds = [item["kind"] for item in made.plan()["machines"][0]["items"]]
    assert "stack.engine" not in kinds
