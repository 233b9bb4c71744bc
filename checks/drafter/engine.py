"""Which engine, which version, which runner: and what the data rows say that it does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from checks.data.id_conventions import ABILITIES, DEFAULT_RUNNER_V2_SINCE, READINGS, Ability, Reading

KNOWN = ("vllm", "sglang", "dflash", "llama.cpp")
_SPEC = re.compile(r"(?P<name>[A-Za-z][A-Za-z.]*)(?:==(?P<version>[0-9][0-9A-Za-z.+-]*))?")
_PART = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Engine:
    """An engine at a version.

    ``runner`` is vLLM's ``v1`` or ``v2``; ``runner_given`` is false where it was assumed.
    """

    name: str
    version: str
    runner: str | None = None
    runner_given: bool = False

    @classmethod
    def parse(cls, text: str, runner: str | None = None) -> Engine:
        """Reads ``vllm==0.20.1``. Raises ValueError with what was expected."""
        match = _SPEC.fullmatch(text.strip())
        if match is None or match["name"].lower() not in KNOWN:
            raise ValueError(f"{text!r} is no engine like vllm==0.20.1; known are {', '.join(KNOWN)}")
        name, version = match["name"].lower(), match["version"]
        if version is None:
            if name != "llama.cpp":
                raise ValueError(
                    f"{text!r} lacks the version (for example {name}==0.20.1): the answer depends on it"
                )
            version = "0"
        if name != "vllm":
            if runner is not None:
                raise ValueError(f"--runner belongs to vllm, not to {name}")
            return cls(name, version)
        assumed = "v2" if release(version) >= release(DEFAULT_RUNNER_V2_SINCE) else "v1"
        return cls(name, version, runner or assumed, runner is not None)

    def __str__(self) -> str:
        label = self.name if self.version == "0" else f"{self.name} {self.version}"
        if self.runner is None or not (self.runner_given or self.runner_matters):
            return label
        return f"{label} ({self.runner} runner{'' if self.runner_given else ', assumed'})"

    @property
    def runner_matters(self) -> bool:
        """From 0.22 on vLLM's two runners differ in what they do with drafters."""
        return self.name == "vllm" and release(self.version) >= release("0.22")

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """The places where this engine looks for layer ids, in its order."""
        return tuple(row for row in READINGS if self._covers(row))

    def ability(self, topic: str) -> Ability | None:
        """The row on ``topic`` for this version, or None where nothing is known."""
        return next((row for row in ABILITIES if row.topic == topic and self._covers(row)), None)

    def does(self, topic: str, value: str) -> bool:
        row = self.ability(topic)
        return row is not None and row.value == value

    def _covers(self, row: Reading | Ability) -> bool:
        if row.engine != self.name or (row.runner is not None and row.runner != self.runner):
            return False
        mine = release(self.version)
        if row.since is not None and mine < release(row.since):
            return False
        return row.before is None or mine < release(row.before)


def release(version: str) -> tuple[int, ...]:
    """The release numbers of a version, for comparison: ``0.5.10.post1`` and ``0.5.10`` compare as 0.5.10.

    Half-open ranges on releases need no more: no row begins or ends at a post, dev or rc version.
    """
    numbers: list[int] = []
    for part in version.split("+")[0].split("."):
        match = _PART.match(part)
        if match is None:
            break
        numbers.append(int(match[0]))
        if match.end() != len(part):
            break
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
