"""Engine environments built in a real container by the act itself: locked, patched, from a commit; what must not be.

The worst that this act can do: take away an environment that is in use, let a half-made one count, and tell the
password of an index. Each has its test.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api.host import Host

from provision.acts import engine as engine_act
from provision.acts import stack
from provision.acts.voice import Voice
from provision.host import transport
from provision.run import wanted
from provision.run.errors import ActFailed
from provision.spec import Engine, Machine, Patch
from provision.stack.decide import FOLDERS
from provision.stack.engine import locks
from provision.stack.engine.decide import EngineBuild
from provision.stack.engine.desired import DesiredEngine, desired_engine
from provision.testhost.index import Index, serve_index
from tests.doubles.wheels import digest as record_digest
from tests.doubles.wheels import engine_wheels, patch, repository, wheel
from tests.guest.rig import Container, connected, host

SECRET = "s3cret-of-the-index"
GIT = (
    "lxc.mount.entry = /usr/bin/git usr/bin/git none bind,ro,create=file",
    "lxc.mount.entry = /usr/lib/git-core usr/lib/git-core none bind,ro,create=dir",
)
"""This machine's own git: a container without an archive cannot install one."""


@dataclass
class Place:
    """A container that is built in, and what was said."""

    container: Container
    inside: Host
    said: list[str] = field(default_factory=list)

    def build(self, engine: Engine, **more: Any) -> DesiredEngine:
        desired = replace(desired_engine(engine), **more)
        voice = Voice("20261130T030000Z-aaaaaa", self.said.append)
        engine_act.build_engine(self.inside, EngineBuild(desired, None), voice)
        return desired

    def path(self, path: str) -> Path:
        return self.container.rootfs / path.lstrip("/")

    def marker(self, engine: DesiredEngine) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path(engine.marker).read_text())
        return found

    def runs(self, engine: DesiredEngine, code: str) -> str:
        return self.container.attach(engine.python_path, "-c", code).strip()

    def environments(self) -> dict[str, str]:
        """Every file of every environment, by content."""
        done = subprocess.run(
            ["sh", "-c", "find . -type f ! -name '*.pyc' -exec sha256sum {} + | sort"],
            cwd=self.path("/opt/kpro/envs"),
            capture_output=True,
            text=True,
            check=True,
        )
        return {line[66:]: line[:64] for line in done.stdout.splitlines()}


@pytest.fixture(scope="module")
def made(new_container: Callable[..., Container]) -> Iterator[Place]:
    container = new_container(lines=GIT)
    machine = Machine(name="box", guests=(container.spec(),))
    with connected(machine) as state:
        inside = host(state, machine.guest_host_name(machine.guests[0]))
        voice = Voice("20261130T030000Z-aaaaaa", lambda text: None)
        stack.base(inside, FOLDERS, voice)
        uv = wanted._uv()
        stack.put_uv(inside, uv, voice)
        yield Place(container, inside)


@pytest.fixture
def place(made: Place, own_home: None) -> Iterator[Place]:
    made.said.clear()
    yield made
    made.container.attach(
        "sh", "-c", "rm -rf /opt/kpro/envs/* /var/cache/kpro/uv /etc/pip.conf /etc/environment /srv/wheels"
    )


@pytest.fixture
def index(place: Place, tmp_path: Path) -> Iterator[Index]:
    """An index with a password, told to the guest's pip alone."""
    with serve_index(engine_wheels(tmp_path / "wheels")) as served:
        address = served.url.replace("//", f"//kpro:{SECRET}@")
        place.path("/etc/pip.conf").write_text(f"[global]\nindex-url = {address}\n")
        yield served


STANDIN = {"kind": "standin", "version": "1.0.0"}


def patched(folder: Path, text: str, name: str = "fix.patch") -> tuple[Patch, ...]:
    (folder / name).write_text(text)
    return (Patch(file=folder / name, why="three is not four"),)


def test_an_environment_from_the_index_is_locked_with_hashes_here_and_there(
    place: Place, index: Index
) -> None:
    engine = place.build(Engine(**STANDIN))
    lock = place.path(f"{engine.path}/{locks.NAME}").read_text()
    assert [name for name, _, hashed in locks.rows(lock) if hashed] == ["kpro-dep", "kpro-standin"]
    assert locks.kept(engine.name) == lock
    kept = desired_engine(Engine(**STANDIN)).lock
    assert kept is not None
    assert place.marker(engine)["lock"] == kept.sha256
    assert any("kpro-standin" in path for path in index.requests)


def test_the_password_of_an_index_is_written_down_nowhere(place: Place, index: Index, tmp_path: Path) -> None:
    place.build(Engine(**STANDIN))
    wheel(tmp_path / "wheels", "kpro_standin", "2.0.0", {"kpro_standin.py": ""}, ["kpro-missing"])
    with pytest.raises(ActFailed) as failed:
        place.build(
            Engine(**STANDIN), requirement="kpro-standin==2.0.0", path="/opt/kpro/envs/two", lock=None
        )
    found = place.container.attach(
        "sh", "-c", f"grep -rl {SECRET} /opt/kpro /var/cache/kpro /var/log /tmp /run /root || :"
    )
    assert found.split() == []
    assert SECRET not in str(failed.value) + "".join(place.said)
    assert SECRET not in "".join(path.read_text() for path in locks.folder().iterdir())


def test_the_next_build_installs_what_the_lock_says_though_the_index_has_newer(
    place: Place, index: Index, tmp_path: Path
) -> None:
    first = place.build(Engine(**STANDIN))
    wheel(tmp_path / "wheels", "kpro_dep", "1.1", {"kpro_dep.py": "VERSION = '1.1'\n"})
    place.path(first.marker).unlink()
    second = place.build(Engine(**STANDIN))
    assert place.runs(second, "import kpro_dep; print(kpro_dep.VERSION)") == "1.0"


def test_a_package_with_other_bytes_than_the_lock_says_is_refused(
    place: Place, index: Index, tmp_path: Path
) -> None:
    first = place.build(Engine(**STANDIN))
    wheel(tmp_path / "wheels", "kpro_dep", "1.0", {"kpro_dep.py": "VERSION = 'forged'\n"})
    place.path(first.marker).unlink()
    place.container.attach("rm", "-rf", "/var/cache/kpro/uv")
    with pytest.raises(ActFailed, match=r"[Hh]ash"):
        place.build(Engine(**STANDIN))
    assert not place.path(first.marker).exists()


def test_what_pip_is_told_by_its_environment_holds_for_uv(place: Place, tmp_path: Path) -> None:
    engine_wheels(place.path("/srv/wheels"))
    # Nothing listens there: an index that is asked all the same would end the build.
    asked = "PIP_INDEX_URL=http://127.0.0.1:9/simple"
    place.path("/etc/environment").write_text(f'PIP_NO_INDEX=1\n{asked}\nPIP_FIND_LINKS="/srv/wheels"\n')
    engine = place.build(Engine(**STANDIN))
    assert place.runs(engine, "import kpro_standin.core as c; print(c.answer())") == "3"


def test_a_patch_changes_the_installed_package_and_its_record(place: Place, tmp_path: Path) -> None:
    wheels = engine_wheels(tmp_path / "wheels")
    spec = Engine(**STANDIN, source="wheel", wheelhouse=wheels, patches=patched(tmp_path, patch()))
    engine = place.build(spec)
    assert place.runs(engine, "import kpro_standin.core as c; print(c.answer())") == "4"
    site = place.path(engine.site)
    data = (site / "kpro_standin/core.py").read_bytes()
    record = (site / "kpro_standin-1.0.0.dist-info/RECORD").read_text()
    assert f"kpro_standin/core.py,{record_digest(data)},{len(data)}" in record.splitlines()
    assert place.marker(engine)["patches"][0]["why"] == "three is not four"
    assert engine.digest != desired_engine(spec.model_copy(update={"patches": ()})).digest


def test_a_patch_that_does_not_apply_leaves_no_environment_and_the_others_alone(
    place: Place, index: Index, tmp_path: Path
) -> None:
    good = place.build(Engine(**STANDIN))
    before = place.environments()
    two = (*patched(tmp_path, patch(), "good.patch"), *patched(tmp_path, _elsewhere(), "bad.patch"))
    with pytest.raises(
        ActFailed, match=r"bad\.patch does not apply .*core\.py, hunk 1.*'    first = 1' where"
    ):
        place.build(Engine(**STANDIN, patches=two))
    bad = desired_engine(Engine(**STANDIN, patches=two))
    assert not place.path(bad.marker).exists()
    # No part of it: not the hunk of the patch that fits, either.
    assert "second = 2" in place.path(f"{bad.site}/kpro_standin/core.py").read_text()
    after = place.environments()
    assert {name: after.get(name) for name in before if good.name in name} == {
        name: digest for name, digest in before.items() if good.name in name
    }


def _elsewhere() -> str:
    return patch().replace("second = 2", "second = two").replace("first = 1", "first = one")


def test_a_patch_that_is_part_of_the_release_already_is_told_apart(place: Place, tmp_path: Path) -> None:
    wheels = engine_wheels(tmp_path / "wheels", module=_merged())
    spec = Engine(**STANDIN, source="wheel", wheelhouse=wheels, patches=patched(tmp_path, patch()))
    with pytest.raises(ActFailed, match=r"is part of kpro-standin==1\.0\.0 already"):
        place.build(spec)


def _merged() -> str:
    from tests.doubles.wheels import ENGINE

    return ENGINE.replace("second = 2", "second = 3")


@pytest.fixture
def commit(place: Place) -> Iterator[str]:
    yield repository(place.path("/srv/repository"))
    place.container.attach("rm", "-rf", "/srv/repository")


def from_git(commit: str, **more: Any) -> Engine:
    return Engine(**STANDIN, source="git", repository="file:///srv/repository", commit=commit, **more)


def test_a_commit_is_built_patched_and_locked(
    place: Place, index: Index, commit: str, tmp_path: Path
) -> None:
    engine = place.build(from_git(commit, patches=patched(tmp_path, patch())), left_out=())
    assert place.runs(engine, "import kpro_standin.core as c, kpro_dep; print(c.answer())") == "4"
    marker = place.marker(engine)
    assert (marker["commit"], marker["patches"][0]["name"]) == (commit, "fix.patch")
    lock = place.path(f"{engine.path}/{locks.NAME}").read_text()
    assert [name for name, _, _ in locks.rows(lock)] == ["kpro-dep"]
    assert not place.path(engine.source_folder).exists()


def test_a_patch_that_does_not_apply_to_the_commit_is_refused_before_anything_is_built(
    place: Place, index: Index, commit: str, tmp_path: Path
) -> None:
    spec = from_git(commit, patches=patched(tmp_path, _elsewhere()))
    with pytest.raises(ActFailed, match=f"does not apply to {commit[:12]}"):
        place.build(spec)
    assert not place.path(f"{desired_engine(spec).path}/kpro-wheel").exists()


def test_a_commit_that_the_repository_does_not_have_is_refused(
    place: Place, index: Index, commit: str
) -> None:
    spec = from_git("0" * 40)
    with pytest.raises(ActFailed, match="checking out"):
        place.build(spec)
    assert not place.path(desired_engine(spec).marker).exists()


def test_a_commit_that_builds_another_version_is_refused(place: Place, index: Index) -> None:
    commit = repository(place.path("/srv/other"), version="2.0.0")
    spec = from_git(commit).model_copy(update={"repository": "file:///srv/other"})
    with pytest.raises(ActFailed, match=r"the inventory says kpro-standin==1\.0\.0"):
        place.build(spec)


def test_an_environment_in_use_is_never_taken_away(place: Place, tmp_path: Path) -> None:
    wheels = engine_wheels(tmp_path / "wheels")
    spec = Engine(**STANDIN, source="wheel", wheelhouse=wheels)
    engine = place.build(spec)
    place.path(engine.marker).unlink()
    sleeper = transport.run(
        place.inside,
        f"setsid {engine.python_path} -c 'import time; time.sleep(300)' >/dev/null 2>&1 </dev/null & echo $!",
    )
    before = place.environments()
    try:
        with pytest.raises(ActFailed, match="is in use by /proc/"):
            place.build(spec)
        assert place.environments() == before
    finally:
        place.container.attach("kill", sleeper.text.strip())


def test_an_environment_that_cannot_be_imported_does_not_count(place: Place, tmp_path: Path) -> None:
    wheels = engine_wheels(tmp_path / "wheels")
    wheel(
        wheels, "kpro_standin", "1.0.0", {"kpro_standin/__init__.py": "import nothing_there\n"}, ["kpro-dep"]
    )
    spec = Engine(**STANDIN, source="wheel", wheelhouse=wheels)
    with pytest.raises(ActFailed, match="nothing_there"):
        place.build(spec)
    assert not place.path(desired_engine(spec).marker).exists()


def test_an_interrupted_build_is_made_anew(place: Place, tmp_path: Path) -> None:
    spec = Engine(**STANDIN, source="wheel", wheelhouse=engine_wheels(tmp_path / "wheels"))
    left = place.path(desired_engine(spec).path)
    (left / "lib").mkdir(parents=True)
    (left / "lib/half").write_text("cut off")
    engine = place.build(spec)
    assert not (left / "lib/half").exists()
    assert place.runs(engine, "import kpro_standin") == ""


def test_a_wheelhouse_s_own_lock_is_installed_to_the_letter(place: Place, tmp_path: Path) -> None:
    wheels = engine_wheels(tmp_path / "wheels")
    (wheels / locks.OF_WHEELHOUSE).write_text("kpro-standin==1.0.0\n")
    engine = place.build(Engine(**STANDIN, source="wheel", wheelhouse=wheels))
    packages = place.path(f"{engine.path}/kpro-packages.txt").read_text().split()
    assert packages == ["kpro-standin==1.0.0"]
