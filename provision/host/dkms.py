"""What DKMS says: its status, why a module did not compile, which module left a kernel half-configured. Pure.

The forms are those of dkms 2.8 to 3.2 (``do_status``, ``module_status_built_extra``, ``do_status_weak``, ``die`` in its
script) and of dpkg's messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from checks.snapshot import CouldNotLook
from provision.data.kernels import Verdict, verdict

State = Literal["added", "built", "installed", "installed-weak", "broken"]

_LINE = re.compile(
    r"(?P<name>[^\s,/:]+)(?:/|, )(?P<version>[^\s,/]+)"
    r"(?:, (?P<kernel>[^\s,/]+)(?:, (?P<arch>[^\s,/:]+))?)?"
    r": (?P<state>installed-weak|installed|built|added|broken)(?P<rest>.*)"
)
_NOISE = re.compile(
    r"Deprecated feature: |Error! |Manual intervention is required|File: |Sign command: |Signing key: |"
    r"Public certificate|Warning: |dkms\.conf: |.*does not exist\.$|(modinfo|grep|find|diff|ls|cat|sed|awk): "
    r"|/usr/sbin/dkms: line \d+: "
)
_NVIDIA = re.compile(
    r"nvidia(-current|-srv|-tesla(-\d+)?|-legacy(-[\dx]+)?|-\d+)?(-server)?(-open)?(-kernel)?(-srv)?"
)


@dataclass(frozen=True)
class DkmsModule:
    """One line of ``dkms status``. ``kernel`` and ``arch`` are None where the line names none (``added``, ``broken``).
    ``remarks`` are what stands in parentheses behind the state; ``of``: the kernel that a weak one was built for."""

    name: str
    version: str
    kernel: str | None
    arch: str | None
    state: State
    remarks: tuple[str, ...] = ()
    of: str | None = None

    @property
    def is_nvidia(self) -> bool:
        """NVIDIA's driver, under any of the names that packages and the installer give it; not nvidia-fs or gdrdrv."""
        return _NVIDIA.fullmatch(self.name) is not None

    @property
    def installed(self) -> bool:
        return self.state in ("installed", "installed-weak")

    @property
    def differs(self) -> bool:
        """What lies in the kernel's folder is not what DKMS built, or a part of it is missing."""
        return any(re.search(r"Diff|[Mm]issing (?!source)", remark) for remark in self.remarks)

    @property
    def sourceless(self) -> bool:
        """Its source in /usr/src is gone: no kernel that comes gets it."""
        return self.state == "broken" or any("Missing source" in remark for remark in self.remarks)

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"


def dkms_status(text: str) -> tuple[DkmsModule, ...]:
    """The lines of ``dkms status``. What DKMS says beside them is passed over; raises CouldNotLook for a line that is
    neither, since a module may be hidden in it."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        match = _LINE.fullmatch(line)
        if match is None:
            if not _NOISE.match(line):
                raise CouldNotLook(f"dkms status says {line[:120]!r}, which no known DKMS does")
            continue
        rest = match["rest"].partition("Deprecated feature:")[0]
        weak = re.match(r" from (\S+)", rest)
        found.append(
            DkmsModule(
                match["name"],
                match["version"],
                match["kernel"],
                match["arch"],
                _state(match["state"]),
                tuple(re.findall(r"\(([^()]+)\)", rest)),
                weak[1] if weak else None,
            )
        )
    return tuple(found)


def _state(word: str) -> State:
    states: tuple[State, ...] = ("added", "built", "installed", "installed-weak", "broken")
    return next(state for state in states if state == word)


@dataclass(frozen=True)
class BuildFailure:
    """A module that DKMS could not build: which, for which kernel, where its log lies (each None where not said), and
    ``code``, the exit status of dkms where it is told (10: it did not compile; 11: of ``autoinstall``)."""

    name: str | None
    version: str | None
    kernel: str | None
    log: str | None
    code: int | None = None

    @property
    def is_nvidia(self) -> bool:
        return self.name is not None and _NVIDIA.fullmatch(self.name) is not None

    @property
    def known(self) -> Verdict | None:
        """What the rows say of NVIDIA's driver on that kernel; None for another module."""
        if not self.is_nvidia or self.version is None or self.kernel is None:
            return None
        return verdict(self.version, self.kernel) if re.fullmatch(r"[\d.]+", self.version) else None

    def __str__(self) -> str:
        what = f"{self.name}/{self.version}" if self.name and self.version else self.name or "a module"
        return f"{what} for kernel {self.kernel}" if self.kernel else what


_BAD = re.compile(r"Bad return status for module build on kernel: (\S+)")
_LOG = re.compile(r"(/var/lib/dkms/([^/\s]+)/([^/\s]+)/(?:build|\S+/log)/make\.log)")
_EXIT = re.compile(
    r"(?:exited with return code|exited|exit code|\(exit status)\s+(\d+)|exited (\d+)$", re.MULTILINE
)


def build_failures(text: str) -> tuple[BuildFailure, ...]:
    """The modules that the output of dkms, of apt or of a kernel's postinst says did not build, each once."""
    code = next((int(one or other) for one, other in _EXIT.findall(text)), None)
    found: list[BuildFailure] = []
    kernel: str | None = None
    for line in text.splitlines():
        bad, log = _BAD.search(line), _LOG.search(line)
        if bad is not None:
            kernel = bad[1]
        if log is not None and ("Consult" in line or bad is not None):
            found.append(BuildFailure(log[2], log[3], kernel, log[1], code))
            kernel = None
        elif bad is not None and "Consult" not in text:
            found.append(BuildFailure(None, None, kernel, None, code))
        named = re.search(r"Autoinstall on (\S+) failed for module\(s\) (.+?)\.?$", line)
        for name, _ in re.findall(r"([\w.+-]+)\((\d+)\)", named[2]) if named else ():
            if not any(failure.name == name for failure in found):
                found.append(BuildFailure(name, None, named[1] if named else None, None, code))
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Culprit:
    """Why a package's postinst failed: ``failures`` name the modules, ``kernel`` the kernel that was installed,
    ``packages`` what dpkg left unconfigured."""

    failures: tuple[BuildFailure, ...]
    kernel: str | None
    packages: tuple[str, ...]

    @property
    def foreign(self) -> tuple[BuildFailure, ...]:
        """The failed modules that are not NVIDIA's driver."""
        return tuple(failure for failure in self.failures if not failure.is_nvidia)


def postinst_culprit(text: str) -> Culprit | None:
    """Which DKMS module left packages half-configured; None where the text tells of no such failure."""
    failures = build_failures(text)
    kernel = re.search(r"(?:autoinstall for kernel:?|Autoinstall on) (\S+?)[ :]*(?:was )?failed", text)
    packages = re.findall(r"^dpkg: error processing package (\S+)", text, re.MULTILINE)
    packages += re.findall(
        r"^dpkg: dependency problems prevent configuration of (\S+?):?$", text, re.MULTILINE
    )
    if not failures and kernel is None and not re.search(r"postinst\.d/dkms exited", text):
        return None
    which = kernel[1] if kernel else next((failure.kernel for failure in failures if failure.kernel), None)
    return Culprit(failures, which, tuple(dict.fromkeys(packages)))


Cause = Literal["hardware", "space", "headers", "compiler", "memory", "interfaces", "unknown"]


@dataclass(frozen=True)
class MakeLog:
    """What a make.log says: the module, its version and the kernel as far as its paths tell, the ``cause``, the line
    that shows it, and what to do. ``known`` is what the rows say of this driver on this kernel."""

    name: str | None
    version: str | None
    kernel: str | None
    cause: Cause
    line: str
    next_step: str
    known: Verdict | None = None


_CAUSES: tuple[tuple[Cause, str, str], ...] = (
    (
        "hardware",
        r"[Ss]egmentation fault|internal compiler error|signal (11|7|4)\b|[Bb]us error|[Ii]llegal instruction",
        "a compiler that crashes points at memory or processor: run memtest, look at dmesg and the BMC's log; do not "
        "simply build again",
    ),
    (
        "space",
        r"No space left on device|[Dd]isk quota exceeded",
        "make room in /var/lib/dkms, /tmp and /lib/modules",
    ),
    (
        "memory",
        r"Killed signal|signal 9\b|Cannot allocate memory|virtual memory exhausted",
        "the build ran out of memory: stop something, or compile elsewhere (provision build-driver)",
    ),
    (
        "headers",
        r"kernel headers for kernel \S+ cannot be found|Unable to find the kernel (source|headers)"
        r"|/lib/modules/\S+/build: No such file|Kernel configuration is invalid|generated/autoconf\.h",
        "install the headers of that kernel, then: dkms autoinstall",
    ),
    (
        "compiler",
        r"(gcc|cc|clang)\S*: (not found|command not found|No such file)|unrecognized command.line option"
        r"|Compiler version check failed|differs from the (one|compiler) used to build",
        "install the compiler that built the kernel (its name is in /proc/version), then: dkms autoinstall",
    ),
    (
        "interfaces",
        r"\berror: |implicit declaration|undefined!|\*\*\* .*Error \d",
        "the driver's source does not fit this kernel: use a newer driver, or boot an older kernel",
    ),
)


def makelog_verdict(text: str) -> MakeLog:
    """Why a module did not compile, from its make.log."""
    place = re.search(r"/var/lib/dkms/([^/\s']+)/([^/\s']+)/build", text)
    header = re.search(r"DKMS (?:\([^)\n]*\) )?make\.log for ([^\s/]+?)[-/](\d\S*) for kernel (\S+)", text)
    kernel = re.search(r"/(?:usr/src/(?:linux-headers-|kernels/)|lib/modules/)([0-9][^/\s':]*)", text)
    name, version = (place[1], place[2]) if place else (header[1], header[2]) if header else (None, None)
    on = header[3] if header else kernel[1] if kernel else None
    known = BuildFailure(name, version, on, None).known
    for cause, pattern, next_step in _CAUSES:
        line = next((line.strip() for line in text.splitlines() if re.search(pattern, line)), None)
        if line is not None:
            step = f"use {known.instead}" if cause == "interfaces" and known and known.instead else next_step
            return MakeLog(name, version, on, cause, line, step, known)
    step = (
        "read the log from its first error on" if text.strip() else "make.log is empty: build again by hand"
    )
    return MakeLog(name, version, on, "unknown", "", step, known)
