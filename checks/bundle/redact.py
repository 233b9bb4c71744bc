"""Takes out of text and data what must not leave a machine. Pure, apart from what it has counted.

It errs towards removing: a number that was cut is asked for again, a key that got out is not called back. GPU
UUIDs become numbered ones of the same form, so that a record still tells its GPUs apart.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable
from typing import Any

GONE = "(removed)"
_NAME = (
    r"(?:token(?!s\b|s_|iz|_id)|secret|passw(?:or)?d|passphrase|passwd|api[_-]?key|credential|auth(?!or)"
    r"|private[_-]?key|access[_-]?key|encryption[_-]?key|cookie)"
)
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_VALUE = r"(\[[^\]\n]*\]|\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&}\])]+)"
_KEPT_VARIABLES = re.compile(
    r"(NCCL|CUDA|NVIDIA|OMP|VLLM|SGLANG|TORCH|PYTORCH|GLOO|UCX|KPRO)_\w+|LD_LIBRARY_PATH|LD_PRELOAD|PATH"
)


class _Row:
    """What a pattern finds is replaced; group 1, where there is one, stays."""

    def __init__(self, kind: str, pattern: str, flags: int = re.IGNORECASE) -> None:
        self.kind, self.pattern = kind, re.compile(pattern, flags)


_ROWS = (
    _Row(
        "private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
    ),
    _Row("token", r"\b(?:hf|gh[pousr]|glpat|xox[abprs]|nvapi|github_pat)[_-][A-Za-z0-9_-]{8,}"),
    _Row("token", r"\bsk-[A-Za-z0-9_-]{8,}"),
    _Row("token", r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b", 0),
    _Row("token", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", 0),
    _Row("token", r"((?:bearer|basic)\s+)[A-Za-z0-9+/=_.~-]{6,}"),
    _Row("password in an address", r"(\b[a-z][a-z0-9+.-]{0,40}://)[^\s/@]+@"),
    _Row(
        "secret option",
        rf"(--?(?=\w)[\w-]{{0,128}}{_NAME}[\w-]{{0,128}}[\"']?(?:\s*=\s*|\s*,\s*|\s+)\[?[\"']?)(?!-)[^\s\"',\]]+",
    ),
    _Row("secret value", rf"({_NAME}[\w.-]{{0,256}}[\"']?\s*[=:]\s*){_VALUE}"),
    _Row(
        "serial number",
        r"(\bserial[ _](?:number|no|num)\s+)(?=[\w-]*\d)[0-9a-z][\w-]{5,}",
    ),
    _Row(
        "serial number",
        r"(\bserial(?:[ _]?(?:number|no|num))?[\"']?\s*[:=]\s*[\"']?)(?!removed)[0-9a-z][\w-]*",
    ),
    _Row("serial number", r"(\b(?:GPU PDI|Board ID|Chassis Physical Slot|Module ID)\s*:\s*)0x[0-9a-f]+"),
)
# Every repetition above is bounded or begins at few places: what is redacted may be long, and of one kind of character.
_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_UNIT_LINE = re.compile(
    r"^([ \t]*(?:Environment|SetCredential\w*|LoadCredential\w*)\s*=)((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE
)
_HOME = re.compile(r"(/home/)[^/\s:\"']+")


class Redactor:
    """``names`` are host names to take out; with None, host names and home folders stay."""

    def __init__(self, names: tuple[str, ...] | None = ()) -> None:
        self.removed: Counter[str] = Counter()
        self._uuids: dict[str, str] = {}
        self._homes = names is not None
        # However short: a word too many that is cut is asked for again.
        known = sorted({name for name in names or () if name and name != "localhost"}, key=len)
        words = "|".join(re.escape(name) for name in reversed(known))
        self._hosts = re.compile(rf"(?<![\w.-])(?:{words})(?![\w-])") if words else None

    def text(self, text: str) -> str:
        """The text without secrets, serial numbers and, unless they stay, names."""
        text = _UNIT_LINE.sub(self._unit_line, text)
        for row in _ROWS:
            text = row.pattern.sub(self._cut(row.kind), text)
        text = _UUID.sub(self._numbered, text)
        if self._homes:
            text = _HOME.sub(self._cut("home folder"), text)
        if self._hosts is not None:
            text = self._hosts.sub(self._cut("host name"), text)
        return text

    def data(self, value: Any, key: str = "") -> Any:
        """The same for JSON: by the names of keys, and every text as text."""
        if isinstance(value, dict):
            return {self.text(str(name)): self.data(part, str(name)) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.data(part, key) for part in value]
        if isinstance(value, (str, int)) and not isinstance(value, bool) and self._private(key):
            self.removed["secret value"] += 1
            return GONE
        return self.text(value) if isinstance(value, str) else value

    def _private(self, key: str) -> bool:
        return _SECRET_NAME.search(key) is not None or key.lower().endswith(("serial", "serialnumber"))

    def _cut(self, kind: str) -> Callable[[re.Match[str]], str]:
        def cut(match: re.Match[str]) -> str:
            self.removed[kind] += 1
            kept = match[1] if match.re.groups else ""
            return f"{kept or ''}{GONE}" + ("@" if match[0].endswith("@") else "")

        return cut

    def _unit_line(self, match: re.Match[str]) -> str:
        """Of a unit's environment only what says how GPUs are used keeps its value."""
        if not match[1].strip().startswith("Environment"):
            self.removed["unit credential"] += 1
            return f"{match[1]}{GONE}"
        try:
            words = shlex.split(match[2].replace("\\\n", " "))
        except ValueError:
            words = [match[2]]
        found = []
        for name, _, value in (word.partition("=") for word in words):
            kept = _KEPT_VARIABLES.fullmatch(name) and not _SECRET_NAME.search(name)
            self.removed["environment value"] += 0 if kept else 1
            found.append(f"{name if name.isidentifier() else ''}={value if kept else GONE}")
        return match[1] + " ".join(found)

    def _numbered(self, match: re.Match[str]) -> str:
        self.removed["GPU UUID"] += 1
        number = len(self._uuids) + 1
        return self._uuids.setdefault(match[0].lower(), f"{match[1]}-00000000-0000-0000-0000-{number:012d}")
