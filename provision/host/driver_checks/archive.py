"""Are Debian's own packages good for this machine? Pure."""

from __future__ import annotations

from checks.bdf import Bdf
from provision.data.archives import DEBIAN_LIMITS
from provision.data.gpu_arch import architecture
from provision.data.kernels import release
from provision.host import view
from provision.host.driver_checks import seen
from provision.host.driver_checks.engines import engines_of
from provision.host.driver_checks.scene import Said, Scene
from provision.host.fitting import cuda_of
from provision.plan import Refusal

WHERE = "machine.driver.route"


def judge(scene: Scene) -> Said:
    if not scene.installing or scene.driver is None or scene.driver.route != "debian":
        return
    for about, what in (("proxmox", _proxmox(scene)), ("blackwell", _gpus(scene)), ("cuda", _cuda(scene))):
        if what:
            limit = DEBIAN_LIMITS[about]
            yield Refusal(WHERE, what, f"{limit.text} ({limit.source})", "set route='nvidia' or route='run'")


def _proxmox(scene: Scene) -> str | None:
    """Proxmox VE by its own word; else by its kernel, which only it has."""
    kernels = [
        kernel
        for kernel in scene.kernels
        if kernel.endswith("-pve") and (release(kernel) or ()) >= (6, 17, 0)
    ]
    if kernels:
        return f"route 'debian' on Proxmox VE with kernel {', '.join(kernels)}"
    version = seen.proxmox(scene.snapshot)
    return (
        f"route 'debian' on Proxmox VE {version[0]}.{version[1]}" if version and version >= (9, 1) else None
    )


def _gpus(scene: Scene) -> str | None:
    named = {Bdf.parse(gpu.bdf) for gpu in scene.machine.gpus}
    young = [
        f"{function.bdf} is {row.name}"
        for function in view.pci_functions(scene.snapshot)
        if function.is_gpu and function.bdf in named
        for row in [architecture(function.device)]
        if row.first is not None and row.first >= 570
    ]
    return f"route 'debian', and {', '.join(young)}" if young else None


def _cuda(scene: Scene) -> str | None:
    wanted = [
        f"{engine.kind} {engine.version} ({where}) brings CUDA {cuda}"
        for where, engine in engines_of(scene.machine)
        for cuda in [cuda_of(engine)]
        if cuda and int(cuda.split(".")[0]) >= 13
    ]
    return f"route 'debian', and {', '.join(wanted)}" if wanted else None
