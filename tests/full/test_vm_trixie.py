"""A driver that is known not to build for the kernel that will boot: refused before anything is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.testhost.vm.recipe import Recipe
from tests.full.metal import LOCKED, booted, install

pytestmark = pytest.mark.usefixtures("one_operator")


def test_a_driver_that_does_not_build_for_this_kernel_is_refused_and_the_machine_boots_as_before(
    tmp_path: Path,
) -> None:
    with booted(tmp_path, Recipe(suite="trixie")) as metal:
        kernel = metal.sh("uname -r").strip()
        if not kernel.startswith("6.12.117"):
            pytest.skip(f"the suite's kernel is {kernel} by now")
        before = metal.configuration()
        assert metal.drivers() == LOCKED
        metal.write(route="debian", driver="550.163.01")
        done = install(metal)
        assert done.returncode == 3, done.stderr[-5000:]
        assert "pci_resize_resource" in done.stderr
        assert kernel in done.stderr
        assert metal.configuration() == before
        assert metal.sh("ls -A /var/lib/kpro 2>/dev/null; exit 0").split() in ([], ["roots"])
        metal.vm.reboot()
        assert metal.drivers() == LOCKED
        assert metal.configuration() == before
