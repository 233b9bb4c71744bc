"""Containers with systemd on this machine, and an sshd on its loopback. Needs root, LXC and mmdebstrap."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from gevent import subprocess

from provision.guest import root
from provision.spec import Machine
from tests.doubles.apt import archive, catalogue
from tests.doubles.apt.archive import Key
from tests.guest import apart
from tests.guest.apt_host import Contained, Served, make_bare
from tests.guest.cutover_place import made_cut
from tests.guest.rig import Container, Sshd, make_container, make_sshd

__all__ = ["made_cut"]

# Read before any test gets a home of its own: a root is built once for all sessions.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kpro" / "roots"
HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        apart.go()


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Whole files go to the workers, the longest first."""
    from tests.guest.longest_first import LongestFirst

    return LongestFirst(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.guest)


@contextmanager
def _one_session_at_a_time() -> Iterator[None]:
    """Building, unpacking and booting: one test session after the other."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".sessions").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def guest_root() -> Path:
    """A Debian 12 root with systemd, built once (about 25 s) and kept in the cache."""
    missing = [tool for tool in ("lxc-start", "mmdebstrap") if not shutil.which(tool)]
    if os.geteuid() != 0 or missing:
        pytest.fail(f"the guest tier needs root, LXC and mmdebstrap (missing: {missing or 'root'})")
    with _one_session_at_a_time():
        script = root.build_script("bookworm", folder=str(CACHE))
        built = subprocess.run(
            [*apart.outside, "sh", "-s"],
            input=script,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert built.returncode == 0, built.stderr[-3000:]
    return Path(built.stdout.strip())


@pytest.fixture(scope="session")
def new_container(guest_root: Path) -> Iterator[Callable[..., Container]]:
    """Makes containers (``start=True``, and what rig.make_container takes); all end with the session."""
    made: list[Container] = []
    numbers = count()

    def make(*, start: bool = True, network: str = "none", lines: tuple[str, ...] = ()) -> Container:
        with _one_session_at_a_time():
            container = make_container(f"kprotest-{os.getpid()}-{next(numbers)}", guest_root, network, lines)
            made.append(container)
            if start:
                container.start()
        return container

    yield make
    for container in made:
        container.destroy()


@pytest.fixture(scope="session")
def container(new_container: Callable[..., Container]) -> Container:
    """A running container with systemd, on this machine's own network. Leave it as you found it."""
    return new_container()


@pytest.fixture(scope="session")
def stopped_container(new_container: Callable[..., Container]) -> Container:
    """A container that exists and does not run."""
    return new_container(start=False)


@pytest.fixture(scope="session")
def bare_host(new_container: Callable[..., Container], tmp_path_factory: pytest.TempPathFactory) -> Contained:
    """A container as a machine without a driver, with loopback archives. Leave it as you found it."""
    return make_bare(new_container(start=False), tmp_path_factory.mktemp("archives"))


@pytest.fixture
def host(bare_host: Contained, monkeypatch: pytest.MonkeyPatch) -> Contained:
    """It is the machine of the acts."""
    bare_host.use(monkeypatch)
    return bare_host


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    key = Key.make(tmp_path_factory.mktemp("gnupg") / "home")
    yield key
    key.stop()


@pytest.fixture(scope="session")
def vendor(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Iterator[Served]:
    """NVIDIA's repository for debian12, and its keyring package."""
    folder = tmp_path_factory.mktemp("vendor")
    served = Served(folder)
    here = folder / "debian12/x86_64"
    debs = catalogue.nvidia(catalogue.VERSION, catalogue.NEWER, "620.10.01", fails_on=catalogue.BROKEN)
    archive.write(here, "NVIDIA", "", debs, key, "NVIDIA CUDA")
    deb = catalogue.keyring(f"{served.address}/debian12/x86_64", key.public).build(here)
    deb.rename(here / "cuda-keyring_1.1-1_all.deb")
    for name, other in (("forged", Key.make(folder.parent / f"{folder.name}-forger")), ("unsigned", None)):
        # The right keyring, over lists that somebody else signed, or nobody.
        place = folder / name / "debian12/x86_64"
        archive.write(place, "NVIDIA", "", catalogue.nvidia(catalogue.VERSION), other, "NVIDIA CUDA")
        deb = catalogue.keyring(f"{served.address}/{name}/debian12/x86_64", key.public).build(place)
        deb.rename(place / "cuda-keyring_1.1-1_all.deb")
        if other:
            other.stop()
    yield served
    served.stop()


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A loopback sshd, for a machine that is reached by SSH."""
    server = make_sshd(tmp_path_factory.mktemp("sshd"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["local", "ssh"])
def machine(request: pytest.FixtureRequest, container: Container) -> Machine:
    """This machine, as @local and over SSH, with the running container and one that does not exist."""
    ssh = request.getfixturevalue("sshd").ssh() if request.param == "ssh" else None
    absent = container.spec("nowhere").model_copy(update={"id": f"{container.name}-absent"})
    return Machine(name="box", ssh=ssh, guests=(container.spec(), absent))


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """The machine has one lock for all changing runs; two test sessions would meet there, and workers do not."""
    if apart.outside:
        yield
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".chain").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operator")


@pytest.fixture
def one_operator(home: Path, own_home: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of a module are one operator: runs and caches are shared."""
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
