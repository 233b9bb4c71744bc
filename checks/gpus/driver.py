"""Rules about the host: does the driver answer, is it loaded, do its halves fit, are all GPUs enumerated."""

from __future__ import annotations

from checks.data.boards import DRIVER_FLOORS
from checks.gpus.adapter import unlisted
from checks.gpus.bus_driver import held_by_others
from checks.gpus.dump import (
    DIED,
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    MISMATCH,
    NO_PERMISSION,
    NOT_READ,
    TIMEOUT,
    UNKNOWN_ERROR,
    Gap,
)
from checks.gpus.parts import CUT
from checks.gpus.rule import Outcome, Scene, failed, passed, skipped, unknown, warned

_NO_LIBRARY = (
    "install the driver's user-space part of the kernel module's version (libnvidia-ml.so.1 is missing)"
)


_SAY = "say --expect N; when GPUs should be here: lspci -d 10de: shows those on the bus, dmesg why the driver left them"


def _empty_bus(scene: Scene) -> str:
    """What to do where the bus was looked at and has no GPU: a driver is no help there."""
    look = "see that the boards are seated and powered, and that firmware and hypervisor pass them on (lspci -d 10de:)"
    return look if scene.expect else f"{look}; for a machine without GPUs say --expect 0"


def responds(scene: Scene) -> Outcome:
    """Did NVML answer in time? A hang is Xid 119, a dead GSP or a GPU in reset; a new try hangs as well."""
    init = scene.dump.init
    cut = [
        (f" at {gpu.subject}, {section}", gap)
        for gpu in scene.dump.gpus
        for section, gap in gpu.cut_off().items()
    ]
    if init is not None:
        cut = [("", init)] if init.code in (TIMEOUT, DIED) else []
    hung = [(where, gap) for where, gap in cut if gap.code == TIMEOUT]
    if hung:
        return unknown(
            f"NVML hung{_places(hung)}: {hung[0][1].text}; the probe was abandoned",
            value=[where.removeprefix(" at ") for where, _ in cut] or None,
            cause="the driver waits for a GPU that does not answer (Xid 119 or 120, a GPU in reset)",
            fix="look for Xid in the kernel log (dmesg | grep -i xid); reset that GPU or reboot the host",
        )
    if cut:
        return unknown(
            f"the NVML probe died{_places(cut)}: {cut[0][1].text}",
            value=[where.removeprefix(" at ") for where, _ in cut],
            cause="the driver's library crashes when asked that: library and module do not fit, or a bug",
            fix="run 'nvidia-smi -q' by hand and read its error; reinstall the driver's user-space part if it dies too",
        )
    if init is None:
        return passed("NVML answered in time")
    if init.code in (LIBRARY_NOT_FOUND, "ImportError", "ForeignBinding"):
        return skipped("there was no library to ask: see driver.library")
    return passed("NVML answered in time, with an error: see driver.library")


def _places(cut: list[tuple[str, Gap]]) -> str:
    more = f" and {len(cut) - 3} more" if len(cut) > 3 else ""
    return ";".join(where for where, _ in cut[:3]) + more


def loaded(scene: Scene) -> Outcome:
    """Is the kernel module loaded?"""
    node, init = scene.node, scene.dump.init
    if init is None and scene.dump.driver == NOT_READ and node.module is None and node.other_drivers:
        return held_by_others(scene)
    if init is None:
        return passed("the kernel module is loaded", value=_text(scene.dump.driver))
    if node.module is not None:
        return passed(f"the kernel module {node.module} is loaded", value=node.module)
    if init.code == MISMATCH:
        return passed("the kernel module is loaded, of another version than the library: see driver.library")
    if init.code != DRIVER_NOT_LOADED and not node.module_absent:
        return unknown(f"NVML could not be started ({init}) and the kernel module was not looked at")
    verdict = failed if scene.gpus_wanted else unknown
    if node.gpus == ():
        return verdict(
            "no NVIDIA GPU is on the PCI bus, and the NVIDIA kernel module is not loaded",
            cause="none is seated and powered, or none was passed to this machine",
            fix=_empty_bus(scene),
        )
    cause = f"GPUs on the bus: {node.held_by()}" if node.gpus else None
    fix = "load it (modprobe nvidia) and read 'dmesg | grep -i nvrm' when that fails"
    if any(gpu.driver == "vfio-pci" for gpu in node.gpus or ()):
        fix = "release the GPUs from vfio-pci, install the driver for this kernel, load it (modprobe nvidia)"
    return verdict("the NVIDIA kernel module is not loaded: no GPU can work here", cause=cause, fix=fix)


def library(scene: Scene) -> Outcome:
    """Do the user-space library and the kernel module belong together?"""
    init, refused = scene.dump.init, scene.node.kernel.refused
    if refused is not None and not scene.node.container and (init is None or init.code == MISMATCH):
        return _refused(scene, *refused)
    if init is None:
        driver, nvml = _text(scene.dump.driver), _text(scene.dump.library)
        if driver is None or nvml is None:
            return unknown(
                f"versions could not be read: driver {scene.dump.driver}, library {scene.dump.library}"
            )
        if nvml == driver or nvml.endswith(f".{driver}"):
            return passed(f"library and kernel module are both {driver}", value=driver)
        return warned(
            f"the kernel module is {driver} and the library {nvml}",
            value=nvml,
            limit=driver,
            cause="packages were upgraded under the loaded module, or a container brings a library of its own",
            fix="reboot or reload the modules, hold the packages; a container needs the version of its host",
        )
    if init.code == MISMATCH:
        return _mismatch(scene)
    cause, fix = _ADVICE.get(init.code, (None, "run 'nvidia-smi' by hand and read its error"))
    if scene.node.gpus == () and init.code in (LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED):
        cause, fix = "no NVIDIA GPU is on the PCI bus, so no driver starts", _empty_bus(scene)
    return unknown(f"NVML could not be started: {init}", cause=cause, fix=fix)


_ADVICE: dict[int | str | None, tuple[str | None, str]] = {
    LIBRARY_NOT_FOUND: ("the driver's user-space part is not installed, or not visible here", _NO_LIBRARY),
    DRIVER_NOT_LOADED: ("the kernel module is not loaded", "load it: modprobe nvidia"),
    FUNCTION_NOT_FOUND: (
        "what is loaded as libnvidia-ml.so.1 lacks the function that starts it: not NVIDIA's, or very old",
        "see which file it is (ldconfig -p | grep nvidia-ml, LD_LIBRARY_PATH) and install that of the driver",
    ),
    NO_PERMISSION: (
        "no access to /dev/nvidia*",
        "run as a user who may open /dev/nvidiactl and /dev/nvidia0",
    ),
    UNKNOWN_ERROR: (
        "in a container: 'systemctl daemon-reload' took /dev/nvidia* from its cgroup; the host is fine",
        "restart the container; on a host, read 'dmesg | grep -i nvrm'",
    ),
    GPU_IS_LOST: (
        "a GPU has fallen off the bus",
        "read 'dmesg | grep -i xid', then reboot the host (cold if need be)",
    ),
    TIMEOUT: ("see driver.responds", "see driver.responds"),
    DIED: ("see driver.responds", "see driver.responds"),
    "ForeignBinding": (
        "an old package named pynvml or nvidia-ml-py3 shadows NVIDIA's",
        "uninstall pynvml and nvidia-ml-py3, or run the single-file provcheck, which brings its own",
    ),
    "ImportError": (
        "the Python binding is missing",
        "install nvidia-ml-py, or run the single-file provcheck",
    ),
}


def _mismatch(scene: Scene) -> Outcome:
    kernel, user = scene.node.module, scene.node.library
    seen = f"kernel module {kernel or 'of unknown version'}, library {user or 'of unknown version'}"
    return failed(
        f"driver and library do not fit: {seen}; no GPU can be used until they do",
        value=user,
        limit=kernel,
        cause="packages were upgraded under the loaded module, or a container brings another version",
        fix="reboot or reload the modules, hold the packages; a container needs the version of its host",
    )


def _refused(scene: Scene, user: str, module: str) -> Outcome:
    """The kernel's own word on it. Where NVML could be started, it was another program's library."""
    works = scene.dump.init is None and not isinstance(scene.dump.library, Gap)
    seen = f"the kernel module is {module}, and it turned away a library of {user} (API mismatch)"
    return (warned if works else failed)(
        seen + (": a program or a container here has another one than nvidia-smi" if works else ""),
        value=user,
        limit=module,
        cause="packages were upgraded under the loaded module, or a container brings another version",
        fix="reboot or reload the modules, hold the packages; a container needs the version of its host",
    )


def floor(scene: Scene) -> Outcome:
    """Is the driver new enough for the generation of every GPU?"""
    driver = _text(scene.dump.driver)
    floors = []
    for gpu in scene.dump.gpus:
        generation = gpu.number("nvmlDeviceGetArchitecture")
        if not isinstance(generation, Gap) and generation in DRIVER_FLOORS:
            floors.append((DRIVER_FLOORS[generation], gpu))
    if not floors:
        return skipped("no minimum driver is on record for the GPUs here")
    if driver is None:
        return unknown(f"the driver version could not be read: {scene.dump.driver}")
    (name, branch, source), gpu = max(floors, key=lambda item: item[0][1])
    limit = ".".join(map(str, branch))
    if _version(driver) >= branch:
        return passed(f"driver {driver} knows {name} ({limit} or later)", value=driver, limit=limit)
    return failed(
        f"driver {driver} is older than {limit}, the first that knows {name} ({gpu.name or gpu.subject})",
        value=driver,
        limit=limit,
        cause=source,
        fix=f"install driver {limit} or later, open kernel module",
    )


def count(scene: Scene) -> Outcome:
    """Are all GPUs enumerated: those the caller expects, and those the nvidia driver holds on the bus?"""
    expect, seen = scene.expect, scene.dump.count
    if scene.dump.init is not None or isinstance(seen, Gap):
        return _count_without_nvml(scene)
    of = "" if expect is None else f" of {expect}"
    missing, _ = unlisted(scene)
    if expect is not None and seen < expect:
        bus = f"on the bus: {scene.node.held_by() or 'none'}" if scene.node.gpus is not None else None
        fix = "see driver.adapter_init, which has the kernel's own word on each that is missing"
        if not missing:
            fix = "look for Xid 79 in the kernel log, reseat or power-cycle; see that no GPU is bound to vfio-pci"
        return failed(f"{seen}{of} GPUs", value=seen, limit=expect, cause=bus, fix=fix)
    if missing:
        return failed(
            f"{seen} GPUs by NVML, and the driver holds more on the bus: {', '.join(str(gpu.bdf) for gpu in missing)}",
            value=seen,
            limit=seen + len(missing),
            cause="the driver could not initialise them",
            fix="see driver.adapter_init, which has the kernel's own word on each",
        )
    if expect is not None and seen > expect:
        return warned(
            f"{seen}{of} GPUs: more than expected", value=seen, limit=expect, fix="correct the inventory"
        )
    if expect is None and seen == 0:
        return unknown("NVML lists no GPU, and nobody said how many there should be", value=0, fix=_SAY)
    lost = [gpu.subject for gpu in scene.dump.gpus if gpu.lost() is not None]
    but = f", and NVML counts {', '.join(lost)} although lost: see gpu.lost" if lost else ""
    return passed(f"{seen}{of} GPUs{but}", value=seen, limit=expect)


def _count_without_nvml(scene: Scene) -> Outcome:
    gpus, expect = scene.node.gpus, scene.expect
    gap = scene.dump.init or scene.dump.count
    if isinstance(gap, Gap) and gap.code == CUT:
        return unknown(
            gap.text,
            limit=expect,
            cause="it was cut, or asked of one GPU alone (nvidia-smi -q -i N): nothing is known of the rest",
            fix="save it again, whole: nvidia-smi -q > FILE",
        )
    ours = len(gpus or ()) - len(scene.node.other_drivers)
    if gap == NOT_READ and gpus and expect and ours < expect <= len(gpus):
        return failed(
            f"{ours} of {expect} GPUs are with the nvidia driver, {len(gpus)} are on the PCI bus",
            value=ours,
            limit=expect,
            cause=f"on the bus: {scene.node.held_by()}",
            fix="see driver.loaded",
        )
    if gap == NOT_READ and gpus and not (expect and len(gpus) < expect):
        of = f" of {expect}" if expect else ""
        switches = f"; {len(scene.node.switches)} NVSwitches are no GPUs" if scene.node.switches else ""
        return passed(f"{len(gpus)}{of} GPUs on the PCI bus{switches}", value=len(gpus), limit=expect)
    if gpus is not None and expect and len(gpus) < expect:
        return failed(
            f"{len(gpus)} of {expect} GPUs on the PCI bus, and NVML gave no count ({gap})",
            value=len(gpus),
            limit=expect,
            cause=f"on the bus: {scene.node.held_by()}" if gpus else "no NVIDIA GPU is on the PCI bus",
            fix="check that the boards are seated and powered, and that firmware and hypervisor show them",
        )
    if gap == NOT_READ and gpus == ():
        return unknown(
            "no NVIDIA GPU is on the PCI bus, and nobody said how many there should be", value=0, fix=_SAY
        )
    if gpus == () and expect is None and gap != NOT_READ:
        return unknown(
            f"no NVIDIA GPU is on the PCI bus, and NVML gave no count ({gap}); nobody said how many there should be",
            value=0,
            fix=_empty_bus(scene),
        )
    cause = f"on the bus: {scene.node.held_by()}" if gpus else None
    return unknown(
        f"NVML gave no count of GPUs: {gap}",
        limit=expect,
        cause=cause,
        fix="mend what driver.loaded, driver.library or driver.responds says"
        + ("; for a machine without GPUs say --expect 0" if expect is None else ""),
    )


def _text(value: str | Gap) -> str | None:
    return None if isinstance(value, Gap) else value


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())
