"""The other modules that DKMS builds: one that fails leaves the kernel half-configured, and the next boot without it.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.snapshot import CouldNotLook
from provision.host import boot, dkms
from provision.host.dkms import BuildFailure, DkmsModule
from provision.host.driver_checks import seen
from provision.host.driver_checks.scene import PACKAGED, Said, Scene
from provision.plan import Refusal


@dataclass(frozen=True)
class Lost:
    """A module that the running kernel has from DKMS and ``kernel`` has not. ``state`` is what DKMS says of it there,
    ``none`` where nothing; ``log``: why it did not compile, as far as its log tells."""

    name: str
    version: str
    kernel: str
    state: str
    log: dkms.MakeLog | None

    @property
    def is_nvidia(self) -> bool:
        return BuildFailure(self.name, self.version, self.kernel, None).is_nvidia

    def __str__(self) -> str:
        why = ""
        if self.log is not None:
            where = f"/var/lib/dkms/{self.name}/{self.version}/build/make.log"
            why = f"; {where} says: {self.log.line or 'nothing that is known'}"
        state = (
            "it is not built for it"
            if self.state == "none"
            else f"DKMS has it as {self.state!r}, not installed"
        )
        return f"{self.name}/{self.version} serves the running kernel, and for {self.kernel} {state}{why}"


def lost(
    modules: Sequence[DkmsModule],
    running: str,
    kernels: Sequence[str],
    logs: dict[tuple[str, str], str] | None = None,
) -> tuple[Lost, ...]:
    """The modules that would be missing after a boot into one of ``kernels``."""
    found = []
    for name in dict.fromkeys(module.name for module in modules):
        rows = [module for module in modules if module.name == name]
        here = [module for module in rows if module.installed and module.kernel == running]
        for kernel in kernels:
            there = [module for module in rows if module.kernel == kernel]
            if not here or kernel == running or any(module.installed for module in there):
                continue
            version = here[-1].version
            text = (logs or {}).get((name, version))
            log = dkms.makelog_verdict(text) if text is not None else None
            if log is not None and log.kernel not in (None, kernel):
                log = None
            found.append(Lost(name, version, kernel, there[-1].state if there else "none", log))
    return tuple(found)


def judge(scene: Scene) -> Said:
    """A reboot into a kernel that would lose a module is withheld; without a reboot it is told."""
    modules = seen.dkms_modules(scene.snapshot)
    logs = seen.make_logs(scene.snapshot)
    ours = scene.driver is not None
    for one in lost(modules, scene.running, scene.booting, logs):
        if one.is_nvidia and ours:
            continue  # the plan of the driver itself judges and installs it
        if scene.rebooting:
            yield Refusal(
                f"machine {scene.machine.name}",
                str(one),
                "the reboot is withheld: what rests on that module would not come back",
                _remedy(one, scene),
            )
        else:
            yield f"{one}; before the next boot: {_remedy(one, scene)}"
    yield from _failed(scene, modules, logs)
    for module in modules:
        if module.state == "broken":
            yield f"DKMS knows {module} without its source (broken): rm -r /var/lib/dkms/{module} where nobody needs it"
        elif module.differs and module.kernel in scene.kernels:
            yield (
                f"what lies in the folder of kernel {module.kernel} is not the {module} that DKMS built "
                f"({module.remarks[0]}): dkms install --force {module} -k {module.kernel}"
            )


def _remedy(one: Lost, scene: Scene) -> str:
    again = f"dkms install {one.name}/{one.version} -k {one.kernel}"
    if one.log is not None:
        again = f"{one.log.next_step}, or remove it (dkms remove {one.name}/{one.version} --all)"
    return f"{again}; or stay on this kernel: {pin(scene)}"


def pin(scene: Scene) -> str:
    """The command that keeps the running kernel for the next boots."""
    if scene.running.endswith("-pve") or scene.snapshot.text(boot.PROXMOX_LOADERS) is not None:
        return f"proxmox-boot-tool kernel pin {scene.running}"
    return f"set GRUB_DEFAULT to the entry of {scene.running} in /etc/default/grub, then update-grub"


def _failed(
    scene: Scene, modules: Sequence[DkmsModule], logs: dict[tuple[str, str], str]
) -> Iterator[Refusal | str]:
    """Packages that are half-configured, with the module that is to blame where one can be found."""
    names = seen.half_configured(scene.snapshot)
    if not names:
        return
    culprits = _culprits(scene, modules, logs)
    to_blame = "; ".join(culprits)
    kernels = any("kernel" in name or name.startswith("linux-image") for name in names)
    if not to_blame and scene.installing and scene.driver and scene.driver.route in PACKAGED:
        return  # the plan of the driver itself refuses, before it asks apt
    text, next_step = (
        f"packages are half-configured: {', '.join(names)}",
        "dpkg --configure -a says why; repair it",
    )
    if to_blame:
        text += f"; to blame is {to_blame}, not the NVIDIA driver"
        removed = " && ".join(f"dkms remove {culprit.split()[0]} --all" for culprit in culprits)
        next_step = f"mend or remove it ({removed}), then dpkg --configure -a"
    yield Refusal(
        f"machine {scene.machine.name}",
        text,
        "every call of apt would fail on them"
        + (", and a kernel among them may have no initramfs: the reboot is withheld too" if kernels else ""),
        f"{next_step}; until then: {pin(scene)}" if kernels else f"{next_step}, then run again",
    )


def _culprits(
    scene: Scene, modules: Sequence[DkmsModule], logs: dict[tuple[str, str], str]
) -> tuple[str, ...]:
    """The foreign modules whose build failed: by apt's own log, else by the logs that DKMS left, for a kernel for which
    the module is not installed."""
    try:
        code, text = scene.snapshot.command("apt-term-log")
    except CouldNotLook:
        code, text = 1, ""  # who is to blame then stays open; that packages are half-configured does not
    culprit = dkms.postinst_culprit(text) if code == 0 else None
    done = {(module.name, module.kernel) for module in modules if module.installed}
    found = [
        str(failure)
        for failure in (culprit.foreign if culprit else ())
        if (failure.name, failure.kernel) not in done
    ]
    for (name, version), log in logs.items():
        verdict = dkms.makelog_verdict(log)
        failure = BuildFailure(name, version, verdict.kernel, None)
        known = any(text.startswith(f"{name}/{version}") for text in found)
        if (
            not failure.is_nvidia
            and not known
            and (name, verdict.kernel) not in done
            and verdict.cause != "unknown"
        ):
            found.append(f"{failure} ({verdict.line})")
    return tuple(dict.fromkeys(found))
