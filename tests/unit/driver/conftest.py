"""A small prebuilt driver with the form of a real one, and the inventory that pins it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.driver import cache, pack
from provision.driver.archive import Manifest
from provision.spec import Driver, Gpu, Machine
from tests.unit.driver.judged import plain
from tests.unit.driver.rooted import Overlaid, module
from tests.unit.plan.seen import Seen

VERSION, KERNEL = "535.261.03", "6.1.0-50-amd64"


@pytest.fixture
def host() -> Seen:
    return plain()


@pytest.fixture
def machine() -> Machine:
    return Machine(
        name="box",
        gpus=[Gpu(bdf="42:00.0", model="RTX A6000")],
        driver=Driver(version=VERSION, flavour="open", route="prebuilt"),
    )


@pytest.fixture
def make_archive(tmp_path: Path) -> Callable[..., Path]:
    """Writes an archive into the controller's cache."""
    if shutil.which("zstd") is None:
        pytest.skip("the program zstd is not here")

    def make(
        version: str = VERSION,
        kernel: str = KERNEL,
        inside: str | None = None,
        license: str = "Dual MIT/GPL",
        signed: bool = False,
        claims: str | None = None,
        module_version: str | None = None,
    ) -> Path:
        """``inside``: the kernel that the modules were built for; ``claims``: the sha256 that is written down."""
        stage = tmp_path / f"stage-{version}-{kernel}"
        shutil.rmtree(stage, ignore_errors=True)
        for folder in ("modules", "firmware", "bin", "lib"):
            (stage / folder).mkdir(parents=True)
        for name in ("nvidia", "nvidia-uvm"):
            data = module(name, module_version or version, inside or kernel, license, signed)
            (stage / "modules" / f"{name}.ko").write_bytes(data)
        (stage / "firmware/gsp_ga10x.bin").write_bytes(b"firmware " + version.encode())
        for name in ("libcuda", "libnvidia-ml"):
            (stage / f"lib/{name}.so.{version}").write_bytes(name.encode() + version.encode())
            (stage / f"lib/{name}.so.1").symlink_to(f"{name}.so.{version}")
        for name in ("nvidia-smi", "nvidia-modprobe"):
            (stage / "bin" / name).write_text(f"#!/bin/sh\necho {version}\n")
        files, links = pack.listed(stage)
        if claims is not None:
            files = tuple(
                entry
                if entry.path != "modules/nvidia-uvm.ko"
                else type(entry)(entry.path, entry.size, claims, entry.mode)
                for entry in files
            )
        vermagic = f"{kernel} SMP preempt mod_unload modversions"
        manifest = Manifest(
            version, "open", kernel, vermagic, "ab" * 32 if signed else None, {"a": "1"}, files, links
        )
        path = cache.path_of(manifest.prebuilt)
        path.parent.mkdir(parents=True, exist_ok=True)
        pack.write(stage, manifest, path)
        return path

    return make


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Overlaid:
    """A machine with one kernel and no driver."""
    place = Overlaid(tmp_path / "place")
    kernel = place.folder / "up/usr/lib/modules" / KERNEL / "kernel"
    kernel.mkdir(parents=True)
    (kernel / "loop.ko").write_bytes(module("loop", "1", KERNEL))
    (kernel.parent / "modules.dep").write_text("kernel/loop.ko:\n")
    probe = place.sh("true")
    if probe.returncode:
        pytest.skip(f"no user namespace with overlays here: {probe.stderr.decode().strip()[-120:]}")
    place.use(monkeypatch)
    return place
