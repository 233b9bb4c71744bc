"""An engine that lies in the guest as a tree: deployed by the chain into a real container, changed, taken away."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.testhost import demo_files
from tests.guest.place import Place
from tests.guest.rig import Container

pytestmark = pytest.mark.usefixtures("one_operator")

TREE = "/srv/models/tree"
ENGINE = {"source": "tree", "interpreter": "/usr/bin/python3", "folders": [TREE]}


@pytest.fixture(scope="module")
def made(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("place"), Container(f"kprotest-{os.getpid()}-tree"))
    place.write(engine=ENGINE)
    wheels = demo_files.wheel_folder(place.folder / "files")
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        wheel.extractall(place.models / "tree")
    yield place
    place.remove()


@pytest.fixture
def place(made: Place) -> Place:
    done = made.apply()
    assert done.returncode == 0, done.stderr[-3000:]
    return made


def _environment(place: Place) -> Path:
    (found,) = (place.container.rootfs / "opt/kpro/envs").iterdir()
    return found


def test_the_service_runs_from_the_tree_and_nothing_is_installed(place: Place) -> None:
    assert place.answer().strip()
    marker = json.loads((_environment(place) / "kpro-env.json").read_text())
    assert marker["folders"] == [TREE]
    assert not (place.container.rootfs / "opt/kpro/bin/uv").exists()
    variables = place.container.attach(
        "sh", "-c", f"tr '\\0' '\\n' </proc/{place.main_pid()}/environ"
    ).splitlines()
    assert f"PYTHONPATH={TREE}" in variables
    assert not list((place.models / "tree").rglob("*.pyc"))


def test_a_second_run_changes_nothing(place: Place) -> None:
    pid, digests = place.main_pid(), place.digests()
    assert place.plan()["exit"] == 0
    assert place.apply().returncode == 0
    assert (place.main_pid(), place.digests()) == (pid, digests)


def test_a_changed_tree_is_noticed_verified_and_seen_generating(place: Place) -> None:
    before, pid = _environment(place), place.main_pid()
    with (place.models / "tree/kpro_standin/version.py").open("a") as file:
        file.write("\n# another build\n")
    document = place.plan()
    assert [item["kind"] for item in document["machines"][0]["items"]] == ["stack.engine", "service.cutover"]
    assert place.apply().returncode == 0
    assert _environment(place) == before
    assert place.main_pid() != pid
    assert place.plan()["exit"] == 0


def test_a_tree_that_does_not_import_stops_before_the_service_is_touched(place: Place) -> None:
    pid = place.main_pid()
    init = place.models / "tree/kpro_standin/__init__.py"
    whole = init.read_text()
    try:
        init.write_text("import no_such_module\n")
        done = place.apply()
        assert done.returncode == 1
        assert "no_such_module" in done.stderr
        assert place.main_pid() == pid
        assert place.answer().strip()
    finally:
        init.write_text(whole)


def test_a_tree_that_is_gone_is_refused_and_the_service_left_alone(place: Place) -> None:
    pid = place.main_pid()
    tree, away = place.models / "tree", place.models / "away"
    tree.rename(away)
    try:
        document = place.plan()
        assert document["exit"] == 3
        assert f"the guest has no {TREE}" in json.dumps(document)
        assert place.main_pid() == pid
    finally:
        away.rename(tree)
    shutil.rmtree(away, ignore_errors=True)
