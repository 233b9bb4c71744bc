"""The archives that a driver comes from, with the real names, versions and relations of their packages, and nothing in
them. Debian's and Ubuntu's as of 2026-11-29; of NVIDIA's the names that its guide gives."""

from __future__ import annotations

from tests.doubles.apt.archive import Deb
from tests.doubles.apt.dkms import DKMS, KMOD, dkms_package, module
from tests.doubles.library import library

VERSION, NEWER = "580.159.04", "580.178.04"
OLD, NEW = "535.261.03-1", "535.309.01-1"
KERNEL, NEXT = "6.1.0-50-amd64", "6.1.0-53-amd64"
PVE = "6.17.4-2-pve"
BROKEN = "6.99.0-broken"
"""A kernel that NVIDIA's drivers of this catalogue do not compile on, where a test says so."""


def headers(kernel: str, version: str = "6.1.176-1") -> Deb:
    """Headers put the folder there that DKMS compiles against."""
    name = "proxmox-headers" if kernel.endswith("-pve") else "linux-headers"
    fields = {"Provides": f"pve-headers-{kernel}"} if kernel.endswith("-pve") else {}
    return Deb(
        f"{name}-{kernel}",
        version,
        fields=fields,
        files={f"/lib/modules/{kernel}/build/Makefile": "# here\n"},
    )


def kernel(release: str, version: str = "6.1.176-1") -> Deb:
    """An image in /boot and a folder of modules."""
    name = f"proxmox-kernel-{release}-signed" if release.endswith("-pve") else f"linux-image-{release}"
    return Deb(
        name,
        version,
        files={
            f"/boot/vmlinuz-{release}": "kernel\n",
            f"/lib/modules/{release}/kernel/loop.ko": module("1", kernel=release),
            f"/lib/modules/{release}/modules.dep": "kernel/loop.ko:\n",
        },
    )


def _library(name: str, version: str) -> dict[str, str]:
    return {f"/usr/lib/x86_64-linux-gnu/{name}.so.{version}": library(f"{name}.so.1").decode("latin-1")}


def _user_space(version: str) -> list[Deb]:
    """Debian's: each library needs the alternative of its own version."""
    names = ("libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1", "libnvidia-cfg1")
    return [Deb(name, version, f"nvidia-alternative (= {version})") for name in names]


def debian(version: str, *, security: str | None = None) -> list[Deb]:
    """The driver of a suite; ``security``: the archive has user space of that version, and no kernel package."""
    main = [
        *_user_space(version),
        Deb("nvidia-alternative", version),
        Deb("nvidia-smi", version, f"nvidia-alternative (= {version}), libnvidia-ml1 (= {version})"),
        Deb("firmware-nvidia-gsp", version),
        Deb("nvidia-kernel-support", version, f"nvidia-alternative (= {version})"),
        Deb("nvidia-open-kernel-support", version, f"nvidia-alternative (= {version})"),
        Deb("nvidia-modprobe", "570.133.07-1" if version.startswith("550") else "535.161.07-1"),
        dkms_package(
            "nvidia-open-kernel-dkms",
            version,
            "nvidia-current-open",
            "Dual MIT/GPL",
            f"dkms, nvidia-alternative (= {version}), firmware-nvidia-gsp (= {version}), "
            f"nvidia-open-kernel-support (= {version})",
        ),
        dkms_package(
            "nvidia-kernel-dkms",
            version,
            "nvidia-current",
            "NVIDIA",
            f"dkms, nvidia-kernel-support (= {version})",
        ),
    ]
    if security is None:
        return main
    return [
        *_user_space(security),
        Deb("nvidia-alternative", security),
        Deb("nvidia-smi", security, f"nvidia-alternative (= {security}), libnvidia-ml1 (= {security})"),
    ]


BASE = (
    DKMS,
    KMOD,
    kernel(KERNEL),
    kernel(NEXT),
    headers(KERNEL),
    headers(NEXT),
    Deb("linux-image-amd64", "6.1.176-1", f"linux-image-{NEXT}"),
    Deb("linux-headers-amd64", "6.1.176-1", f"linux-headers-{NEXT}"),
    Deb("make", "4.3-4.1", files={"/usr/bin/make": "#!/bin/sh\nexit 99\n"}),
    Deb(
        "gcc",
        "12.2.0-3",
        files=dict.fromkeys(
            ("/usr/bin/gcc", "/usr/bin/cc"), '#!/bin/sh\n[ "$1" = -dumpversion ] || exit 99\necho 12\n'
        ),
    ),
)
PROXMOX = (
    kernel(PVE, "6.17.4-2"),
    headers(PVE, "6.17.4-2"),
    Deb("proxmox-kernel-6.17", "6.17.4-2", f"proxmox-kernel-{PVE}-signed"),
    Deb("proxmox-headers-6.17", "6.17.4-2", f"proxmox-headers-{PVE}"),
    Deb("proxmox-default-kernel", "2.0.1", "proxmox-kernel-6.17"),
    Deb("proxmox-default-headers", "2.0.1", "proxmox-headers-6.17"),
)


def nvidia(*versions: str, fails_on: str = "") -> list[Deb]:
    """NVIDIA's repository: several versions beside each other, pinned by a package for each and one for the branch."""
    found: list[Deb] = []
    for version in versions:
        package = f"{version}-1"
        exact = f"(= {package})"
        found += [
            _pinning(f"nvidia-driver-pinning-{version}", package, version),
            Deb("libcuda1", package, f"libnvidia-cfg1 {exact}", files=_library("libcuda", version)),
            Deb("libnvidia-cfg1", package),
            Deb("libnvidia-ml1", package, files=_library("libnvidia-ml", version)),
            Deb("nvidia-modprobe", package),
            Deb("nvidia-persistenced", package, f"libnvidia-cfg1 {exact}"),
            Deb("nvidia-kernel-support", package),
            Deb(
                "nvidia-driver-cuda",
                package,
                f"libcuda1 {exact}, libnvidia-ml1 {exact}, nvidia-modprobe {exact}, nvidia-persistenced {exact}",
                {"Conflicts": "nvidia-smi, nvidia-alternative", "Replaces": "nvidia-smi"},
                {"/usr/bin/nvidia-smi": f"#!/bin/sh\necho {version}\n"},
            ),
            dkms_package(
                "nvidia-kernel-open-dkms",
                package,
                "nvidia",
                "Dual MIT/GPL",
                f"dkms, nvidia-kernel-support {exact}",
                {"Conflicts": "nvidia-kernel-dkms"},
                fails_on,
            ),
            dkms_package(
                "nvidia-kernel-dkms",
                package,
                "nvidia",
                "NVIDIA",
                f"dkms, nvidia-kernel-support {exact}",
                {"Conflicts": "nvidia-kernel-open-dkms"},
                fails_on,
            ),
        ]
    for branch in sorted({version.split(".")[0] for version in versions}):
        newest = max(version for version in versions if version.startswith(branch))
        found.append(_pinning(f"nvidia-driver-pinning-{branch}", f"{newest}-1", f"{branch}."))
    return found


def _pinning(name: str, package: str, version: str) -> Deb:
    text = f"Package: *nvidia* libcuda1 cuda-drivers*\nPin: version {version}*\nPin-Priority: 1000\n"
    return Deb(name, package, files={f"/etc/apt/preferences.d/{name}": text})


def keyring(address: str, key: bytes, *, package: str = "cuda-keyring") -> Deb:
    """As NVIDIA's: key, source and a pin of its whole archive at 600."""
    return Deb(
        package,
        "1.1-1",
        files={
            "/usr/share/keyrings/cuda-archive-keyring.gpg": key.decode("latin-1"),
            "/etc/apt/sources.list.d/cuda-debian12-x86_64.list": (
                f"deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] {address}/ /\n"
            ),
            "/etc/apt/preferences.d/cuda-repository-pin-600": (
                "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
            ),
        },
    )


def ubuntu(version: str, *kernels: str, signed: bool = True) -> list[Deb]:
    """The headless server set; ``signed`` False: nobody built modules for these kernels."""
    branch = version.split(".")[0]
    package = f"{version}-0ubuntu0.24.04.1"
    exact = f"(= {package})"
    found = [
        Deb(f"nvidia-kernel-common-{branch}-server", package),
        Deb(f"libnvidia-compute-{branch}-server", package),
        Deb(f"nvidia-utils-{branch}-server", package, f"libnvidia-compute-{branch}-server {exact}"),
        dkms_package(
            f"nvidia-dkms-{branch}-server-open",
            package,
            "nvidia",
            "Dual MIT/GPL",
            "dkms",
            {"Provides": "nvidia-kernel"},
        ),
        Deb(
            f"nvidia-headless-{branch}-server-open",
            package,
            f"nvidia-prebuilt-kernel | nvidia-dkms-{branch}-server-open, nvidia-kernel-common-{branch}-server {exact}, "
            f"libnvidia-compute-{branch}-server {exact}",
        ),
    ]
    begin = f"linux-modules-nvidia-{branch}-server-open"
    if signed:
        for release in kernels:
            found.append(
                Deb(
                    f"{begin}-{release}",
                    "6.8.0-51.52+1",
                    depends="kmod",
                    fields={"Provides": "nvidia-prebuilt-kernel"},
                    files={
                        f"/lib/modules/{release}/kernel/nvidia-{branch}srv-open/nvidia.ko": module(
                            version, kernel=release
                        )
                    },
                    scripts=dict.fromkeys(
                        ("postinst", "postrm"),
                        f"#!/bin/sh\n! command -v depmod >/dev/null || depmod {release}\n",
                    ),
                )
            )
        for flavour in ("generic", "amd64"):
            found.append(Deb(f"{begin}-{flavour}", "6.8.0-51.52+1", f"{begin}-{kernels[-1]}"))
    return found
