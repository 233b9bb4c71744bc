"""One virtual host for the tier. The first run builds its image, which needs root; later ones do not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.data import demo
from provision.testhost.vm import image
from provision.testhost.vm.host import EmulatedGpu, VirtualHost
from provision.testhost.vm.image import Image
from provision.testhost.vm.recipe import Recipe
from provision.testhost.vm.ssh import Address
from tests.controller import BIN
from tests.vm.place import Metal
from tests.vm.reboot_rig import attached
from tests.vm.rig import CACHE, WAIT, say


@pytest.fixture(scope="session")
def real_cache() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", CACHE)
        yield


@pytest.fixture(scope="session")
def vm_image(real_cache: None) -> Image:
    """The image with both GPUs locked in every usual way."""
    return image.ready(Recipe(), say)


@pytest.fixture(scope="module")
def vm(vm_image: Image) -> Iterator[VirtualHost]:
    """A fresh host, booted. The tests of a module share it and run in order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", CACHE)
        machine = VirtualHost(vm_image, (EmulatedGpu(), EmulatedGpu()), say=say, owner="tests/vm", wait=WAIT)
        with machine:
            patch.undo()
            yield machine


@pytest.fixture(scope="session")
def prebuilt(vm_image: Image) -> Path:
    """The folder with the pinned driver for the image's kernel, compiled once for all sessions."""
    command = [str(BIN / "provision"), "build-driver", "--driver", demo.DRIVER, "--kernel", vm_image.kernel]
    done = subprocess.run(
        command,
        env={**os.environ, "XDG_CACHE_HOME": CACHE},
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=1800,
        check=True,
    )
    return Path(done.stdout.strip()).parent


@pytest.fixture(scope="module")
def home(prebuilt: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An operator's home, with the prebuilt drivers in its cache."""
    made = tmp_path_factory.mktemp("operator")
    (made / "cache" / "kpro").mkdir(parents=True)
    (made / "cache" / "kpro" / "prebuilt").symlink_to(prebuilt)
    return made


@pytest.fixture
def one_operator(home: Path, own_home: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of a module are one operator: runs and caches are shared."""
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))


@pytest.fixture(scope="module")
def metal(vm: VirtualHost, tmp_path_factory: pytest.TempPathFactory) -> Metal:
    return Metal(tmp_path_factory.mktemp("place"), vm)


@pytest.fixture(scope="module")
def box(request: pytest.FixtureRequest) -> Address:
    """A test host, the tier's own or one that runs already; its GPUs play no part here."""
    there = attached()
    return there if there is not None else request.getfixturevalue("vm").address


@pytest.fixture
def clean(box: Address) -> None:
    """Nothing of an earlier test is armed or taken for this one's."""
    box.run("rm -rf /var/lib/kpro /etc/kpro-proof; mkdir -p /var/lib/kpro; chmod 700 /var/lib/kpro")
