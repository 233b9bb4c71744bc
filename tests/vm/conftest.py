"""One virtual host for the tier. The first run builds its image, which needs root; later ones do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provision.testhost.vm import image
from provision.testhost.vm.host import EmulatedGpu, VirtualHost
from provision.testhost.vm.image import Image
from provision.testhost.vm.recipe import Recipe
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
