"""What the outputs of DKMS, apt and make say did not compile, and what that left behind. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.host import dkms
from provision.inspect.report import Finding
from provision.inspect.texts import Texts

_UNCONFIGURED = r"^dpkg: error processing package (\S+) \(--configure\)"


def findings(texts: Texts) -> Iterator[Finding]:
    """What the outputs of dkms, apt and make say did not compile, and what that left behind."""
    for output in texts.of("build"):
        culprit = dkms.postinst_culprit(output.text)
        failures = culprit.failures if culprit else dkms.build_failures(output.text)
        for failure in failures:
            yield from _failure(failure)
        if culprit and not failures:
            yield _half(culprit, "a DKMS module")
        elif culprit and _left_behind(culprit, output.text):
            yield _half(culprit, ", ".join(map(str, culprit.foreign or failures)))
        elif culprit is None and (packages := re.findall(_UNCONFIGURED, output.text, re.MULTILINE)):
            yield _half(dkms.Culprit((), None, tuple(dict.fromkeys(packages))), "its script")
        if not failures:
            log = dkms.makelog_verdict(output.text)
            if log.name or log.line:
                name = f"{log.name or 'a module'}/{log.version or '?'}" + (
                    f" for {log.kernel}" if log.kernel else ""
                )
                meaning = f"it does not compile ({log.cause})"
                if log.known is not None and log.known.answer == "fails":
                    meaning += f": {log.known.why}"
                if (log.name or "").startswith("nvidia-current"):
                    meaning += "; it is the driver of Debian's own packages: refuse those on this kernel"
                yield Finding(
                    "dkms.make-log",
                    "problem",
                    name,
                    log.line[:300],
                    meaning,
                    log.next_step,
                    log.known.source if log.known else "dkms make.log",
                )


def _left_behind(culprit: dkms.Culprit, text: str) -> bool:
    """Did a package's own script fail with it?"""
    return (
        bool(culprit.packages)
        or re.search(r"^run-parts: |autoinstall (?:for|on) ", text, re.I | re.M) is not None
    )


def _failure(failure: dkms.BuildFailure) -> Iterator[Finding]:
    code = f", dkms exit code {failure.code}" if failure.code is not None else ""
    if failure.is_nvidia:
        known = failure.known
        meaning = known.why if known else "why, its make.log says"
        if known and known.answer == "fails":
            meaning = f"this driver is below the floor of that kernel: {meaning}"
        next_step = f"use {known.instead}" if known and known.instead else f"read {_log(failure)}"
        yield Finding(
            "dkms.nvidia-failed",
            "problem",
            str(failure),
            f"NVIDIA's module did not compile{code}",
            meaning,
            next_step,
            known.source if known else "dkms",
        )
    else:
        yield Finding(
            "dkms.foreign-failed",
            "problem",
            str(failure),
            f"the module {failure.name or '?'} did not compile{code}",
            "it is no module of NVIDIA's driver, which is not to blame",
            f"read {_log(failure)}; mend or remove it: dkms remove {failure.name}/{failure.version or 'VERSION'} --all",
            "moetayuko/intel-gpu-i915-backports#27, LINBIT/linstor-server#405",
        )


def _log(failure: dkms.BuildFailure) -> str:
    return failure.log or f"/var/lib/dkms/{failure.name or '*'}/*/build/make.log"


def _half(culprit: dkms.Culprit, whose: str) -> Finding:
    packages = ", ".join(culprit.packages) or f"the package of kernel {culprit.kernel}"
    kernels = culprit.kernel or re.search(r"(?:kernel|image|headers)-\d", packages)
    reboot = ", and a reboot would go into a kernel without all of its modules" if kernels else ""
    return Finding(
        "dpkg.half-configured",
        "problem",
        packages,
        f"half-configured because {whose} failed",
        f"every later apt call fails{reboot}",
        "mend what failed, then: dpkg --configure -a; do not reboot before; the old kernel is kept with: "
        "proxmox-boot-tool kernel pin <the running one>",
        "moetayuko/intel-gpu-i915-backports#27, strongtz/i915-sriov-dkms#196",
    )
