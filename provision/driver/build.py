"""``provision build-driver``: compiles NVIDIA's kernel module once, in a root of the suite, and packs it with its
firmware and user space.

Nothing of the machine is changed: the root lies in a work folder that goes away whatever happens, and every mount is
made in a mount namespace of its own, so that it ends with the program that needed it.
"""

from __future__ import annotations

import fcntl
import lzma
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from provision.data.driver_packages import Flavour, parts, upstream
from provision.data.kernels import known_failure
from provision.driver import pack
from provision.driver.apt import Apt
from provision.driver.archive import Manifest, Prebuilt, is_signed, modinfo
from provision.driver.makelog import first_error
from provision.driver.process import Commands, Failed

TOOLS = ("apt-get", "apt-cache", "dpkg-deb", "mmdebstrap", "unshare", "chroot", "zstd")
_PACKAGE_OF = {"mmdebstrap": "mmdebstrap", "zstd": "zstd", "unshare": "util-linux"}


@dataclass(frozen=True)
class Signing:
    """Key and certificate (PEM or DER) for the modules; the key's passphrase is taken from KBUILD_SIGN_PIN."""

    key: Path
    certificate: Path


@dataclass(frozen=True)
class Request:
    """What is to be built, and the file it becomes."""

    prebuilt: Prebuilt
    flavour: Flavour
    suite: str
    output: Path
    signing: Signing | None = None


def build(request: Request, say: Callable[[str], None]) -> Path:
    """The archive's path. Raises Failed; then, and after an interrupt, nothing was written."""
    target = request.output
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.parent, say), _work_folder(target.parent) as work:
        if target.exists():
            held = pack.manifest_of(target)
            if held.prebuilt == request.prebuilt and _signed_as_asked(request, held):
                say(f"already built: {target}")
                return target
            say("the archive that is there is another one, or not signed with that key: it is built anew")
        _ready()
        started = time.monotonic()

        def tell(text: str) -> None:
            say(f"{time.monotonic() - started:5.0f} s  {text}")

        run = Commands(work / "log", tell)
        manifest, stage = _make(request, work, run, tell)
        tell("packing")
        pack.write(stage, manifest, target)
        tell(f"written: {target} ({target.stat().st_size >> 20} MiB)")
    return target


def _signed_as_asked(request: Request, held: Manifest) -> bool:
    """A signed archive serves where no signature is asked for, not the other way round."""
    return request.signing is None or held.signed == pack.certificate_id(
        request.signing.certificate.read_bytes()
    )


def _ready() -> None:
    if os.geteuid() != 0:
        raise Failed(
            "it compiles in a root of the suite, which only root can enter. Next: run it as root, on any machine"
        )
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        packages = sorted({_PACKAGE_OF.get(tool, "apt") for tool in missing})
        raise Failed(f"missing programs: {', '.join(missing)}. Next: apt-get install {' '.join(packages)}")


@contextmanager
def _alone(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """One build at a time: it takes all cores, and the second of the same finds the first one's archive."""
    with (folder / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another driver is being built: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _work_folder(beside: Path) -> Iterator[Path]:
    """Gone at the end, on Ctrl-C, SIGTERM and SIGHUP too; what a power cut left is removed by the next build. Whoever
    hears these signals already, or ignores them, is left to it."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for left in beside.glob(".build-*"):
        shutil.rmtree(left, ignore_errors=True)
    ours = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    work = Path(tempfile.mkdtemp(prefix=".build-", dir=beside))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _make(request: Request, work: Path, run: Commands, say: Callable[[str], None]) -> tuple[Manifest, Path]:
    kernel = request.prebuilt.kernel
    apt = Apt(work / "apt", run)
    apt.folder.mkdir()
    say(f"reading the package lists of {request.suite}")
    apt.prepare(request.suite)
    packages = _packages(request, apt)
    headers = f"linux-headers-{kernel}"
    root, unpacked = work / "root", work / "unpacked"
    say(f"fetching {len(packages)} packages of the driver")
    apt.fetch(packages, unpacked)
    say(f"making a root of {request.suite} with {headers} and a compiler")
    include = f"{headers},dkms,gcc,make,patch,kmod"
    # The root is thrown away: nothing in it has to survive a power cut, and fsync is most of the time on a busy disk.
    options = ["--mode=root", "--variant=minbase", "--dpkgopt=force-unsafe-io", f"--include={include}"]
    bootstrap = ["unshare", "--mount", "mmdebstrap", *options]
    run([*bootstrap, request.suite, str(root), str(apt.sources)], f"making a root of {request.suite}")
    modules = _compile(request, root, unpacked, run, say)
    stage = work / "stage"
    pack.collect(unpacked, modules, request.prebuilt.version, stage)
    if request.signing:
        say("signing the modules")
        _sign(request.signing, root, stage / "modules", run)
    manifest = _manifest(request, stage, {**packages, headers: apt.versions(headers)[0]})
    return manifest, stage


def _packages(request: Request, apt: Apt) -> dict[str, str]:
    """The packages with their exact versions. Raises Failed with everything that is missing, and what there is."""
    version, kernel = request.prebuilt.version, request.prebuilt.kernel
    found: dict[str, str] = {}
    wrong: list[str] = []
    if not apt.versions(f"linux-headers-{kernel}"):
        names = [name.removeprefix("linux-headers-") for name in apt.names("linux-headers-")]
        there = [name for name in names if _kind(name) == _kind(kernel)] or names
        wrong.append(
            f"{request.suite} has no linux-headers-{kernel}, without which nothing compiles for it; "
            f"there are: {', '.join(there) or 'none'}"
        )
    for part in parts(request.flavour):
        if part.what == "support":
            continue
        versions = apt.versions(part.package)
        fitting = [text for text in versions if not part.exact or upstream(text) == version]
        if fitting:
            found[part.package] = fitting[0]
        elif part.needed:
            there = sorted({upstream(text) for text in versions})
            wrong.append(
                f"{request.suite} has no {part.package} {version}; there is: {', '.join(there) or 'none'}"
            )
    if wrong:
        raise Failed("cannot be built:\n" + "\n".join(f"  - {line}" for line in wrong), 3)
    return found


def _kind(release: str) -> str:
    """``-amd64`` or ``-rt-amd64``: what is left of a release without its numbers."""
    return re.sub(r"^[0-9.]*[0-9]|-[0-9]+(?=-)", "", release)


def _compile(
    request: Request, root: Path, unpacked: Path, run: Commands, say: Callable[[str], None]
) -> dict[str, bytes]:
    """The modules by NVIDIA's own names."""
    sources = next((unpacked / "usr/src").glob("nvidia*"))
    shutil.copytree(sources, root / "usr/src" / sources.name, symlinks=True)
    name, version = sources.name.rsplit("-", 1)
    kernel = request.prebuilt.kernel
    say(f"compiling {name} {version} for {kernel} (two minutes on two cores)")
    inside = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        f"--mount-proc={root}/proc",
        "chroot",
        str(root),
    ]
    try:
        run([*inside, "dkms", "add", "-m", name, "-v", version], "registering the sources")
        run([*inside, "dkms", "build", "-m", name, "-v", version, "-k", kernel], "compiling")
    except Failed as error:
        raise Failed(_why(root, request.prebuilt) or str(error)) from error
    found = {}
    for path in sorted((root / "var/lib/dkms" / name / version / kernel).glob("*/module/*.ko*")):
        data = path.read_bytes()
        if path.suffix == ".xz":
            data = lzma.decompress(data)
        found[path.name.split(".ko")[0].replace(name, "nvidia", 1) + ".ko"] = data
    if "nvidia.ko" not in found:
        raise Failed(f"the build ended well and left no nvidia.ko, only: {', '.join(found) or 'nothing'}")
    return found


def _why(root: Path, prebuilt: Prebuilt) -> str | None:
    """The compiler's first error line, with the known cause where there is one."""
    logs = sorted((root / "var/lib/dkms").glob("*/*/build/make.log"))
    if not logs:
        return None
    line = first_error(logs[0].read_text(errors="replace"))
    row = known_failure(prebuilt.version, prebuilt.kernel)
    cause = f"\n  known: {row.why} ({row.source}). Next: {row.instead}" if row else ""
    return f"driver {prebuilt.version} does not compile on {prebuilt.kernel}: {line}{cause}"


def _sign(signing: Signing, root: Path, modules: Path, run: Commands) -> None:
    """Signs with the kernel's own sign-file. The key is shown inside by a bind mount and copied nowhere."""
    tool = next(root.glob("usr/lib/linux-kbuild-*/scripts/sign-file"), None)
    if tool is None:
        raise Failed("the kernel's headers brought no sign-file")
    inside = root / "run/kpro"
    for name in ("modules", "key", "certificate"):
        (inside / name).mkdir(parents=True) if name == "modules" else (inside / name).touch()
    script = (
        'mount --bind "$1" "$4/key" && mount --bind "$2" "$4/certificate" && mount --bind "$3" "$4/modules" || exit 1\n'
        'cd "$4/modules" && for m in *.ko; do\n'
        '  chroot "$5" "$6" sha256 /run/kpro/key /run/kpro/certificate "/run/kpro/modules/$m" || exit 1\ndone'
    )
    paths = [signing.key, signing.certificate, modules, inside, root, Path("/") / tool.relative_to(root)]
    run(["unshare", "--mount", "sh", "-c", script, "sign", *map(str, paths)], "signing")


def _manifest(request: Request, stage: Path, packages: dict[str, str]) -> Manifest:
    """Says what was made. Raises Failed when a module is not what was asked for."""
    prebuilt = request.prebuilt
    main = (stage / "modules/nvidia.ko").read_bytes()
    vermagic, version = modinfo(main, "vermagic"), modinfo(main, "version")
    if version != prebuilt.version or vermagic is None or vermagic.split()[0] != prebuilt.kernel:
        raise Failed(
            f"the module says version {version} and vermagic {vermagic!r}, wanted was {prebuilt.name}"
        )
    unsigned = [path.name for path in (stage / "modules").iterdir() if not is_signed(path.read_bytes())]
    if request.signing and unsigned:
        raise Failed(f"without a signature after signing: {', '.join(sorted(unsigned))}")
    signed = pack.certificate_id(request.signing.certificate.read_bytes()) if request.signing else None
    files, links = pack.listed(stage)
    return Manifest(
        prebuilt.version, prebuilt.flavour, prebuilt.kernel, vermagic, signed, packages, files, links
    )
