"""What is read of which GPU, what was cut off, and the NVML dump made of it. Pure: no clock and no child."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checks.gpus.getters import (
    HANDLE,
    LINK_MORE,
    LINK_SPEED,
    LINK_STATE,
    LINKS,
    NVLINK,
    NVLINK_MORE,
    P2P,
    PAIR,
    SECTIONS,
    keys,
)
from checks.gpus.parts import DIED, NOT_ASKED, TIMEOUT

MAX_GPUS = 1024
_ALL = (HANDLE, *SECTIONS, P2P)
_GAP_WORDS = (TIMEOUT, DIED)


def why(word: str, text: str) -> dict[str, Any]:
    """An error object of the collector's own: TIMEOUT, DIED or NOT_ASKED."""
    return {"err": word, "cls": word, "msg": text}


class Work:
    """Per GPU: the sections still to be read, what was read, and what was cut off with the reason."""

    def __init__(self) -> None:
        self.count = 0
        self.left: dict[int, list[str]] = {}
        self.data: dict[int, dict[str, Any]] = {}
        self.rows: dict[tuple[int, int], dict[str, Any]] = {}
        self.gaps: dict[tuple[int, str], dict[str, Any]] = {}

    def enumerate(self, count: Any) -> None:
        self.count = count if isinstance(count, int) and 0 <= count <= MAX_GPUS else 0
        self.left = {gpu: list(_ALL) for gpu in range(self.count)}
        self.data = {gpu: {} for gpu in range(self.count)}

    def done(self, gpu: int, section: str, data: dict[str, Any]) -> None:
        """A section was read; with the handle's error nothing else of the GPU is to be read."""
        self.left[gpu] = [] if HANDLE in data else [name for name in self.left[gpu] if name != section]
        if section == P2P:
            self.rows.update({(row["a"], row["b"]): row for row in data.get(P2P, ())})
            return
        links = data.pop(NVLINK, None)
        self.data[gpu].update(data)
        for number, link in (links or {}).items():
            self.data[gpu].setdefault(NVLINK, {}).setdefault(number, {}).update(link)

    def cut(self, at: tuple[int, str], reason: dict[str, Any]) -> None:
        """A section that was being read when its child was lost."""
        gpu, section = at
        said = {**reason, "msg": f"{reason['msg']} (section {section})"}
        self.gaps[at] = said
        self.left[gpu] = [] if section == HANDLE else [name for name in self.left[gpu] if name != section]

    def give_up(self, most: int) -> None:
        """No more of a GPU that was cut off ``most`` times."""
        for gpu in range(self.count):
            cut = [name for (number, name) in self.gaps if number == gpu and self._hung(number, name)]
            if len(cut) >= most:
                for name in self.left[gpu]:
                    self.gaps[gpu, name] = why(
                        NOT_ASKED, f"not asked: the GPU gave no answer to {' and '.join(cut)}"
                    )
                self.left[gpu] = []

    def plan(self, alone: Sequence[tuple[int, str]]) -> dict[str, Any] | None:
        """What another child is to read, ``alone`` first and one by one; None when nothing is left."""
        gpus = {str(gpu): names for gpu, names in self.left.items() if names}
        without = [gpu for (gpu, name) in self.gaps if name == HANDLE]
        still = [[gpu, name] for gpu, name in alone if name in self.left[gpu]]
        plan = {"count": self.count, "gpus": gpus, "alone": still, "without": without}
        return plan if gpus else None

    def _hung(self, gpu: int, name: str) -> bool:
        return self.gaps[gpu, name]["err"] in _GAP_WORDS


def dump(head: dict[str, Any], work: Work, reason: dict[str, Any]) -> dict[str, Any]:
    """The whole in the layout of a plain NVML dump. ``reason`` is why the last child ended, for what is left."""
    if head.get("nvmlInit") is not None:
        return head
    left = why(NOT_ASKED, f"not asked: {reason['msg']}") if work.gaps else reason
    gaps = {(gpu, name): left for gpu, names in work.left.items() for name in names} | work.gaps
    devices = [
        _device(work.data[gpu], {n: g for (at, n), g in gaps.items() if at == gpu}) for gpu in work.data
    ]
    whole = {**head, "devices": devices}
    if work.count:
        whole[P2P] = sorted(
            [*work.rows.values(), *_missing_pairs(work, gaps)], key=lambda row: (row["a"], row["b"])
        )
    return whole


def _device(data: dict[str, Any], gaps: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if HANDLE in gaps:
        return {HANDLE: gaps[HANDLE]}
    device = dict(data)
    for section, gap in gaps.items():
        if section in (NVLINK, NVLINK_MORE):
            lacking = (
                [g.key for g in LINK_STATE]
                if section == NVLINK
                else [*(g.key for g in LINK_MORE), LINK_SPEED]
            )
            for number in range(LINKS):
                device.setdefault(NVLINK, {}).setdefault(str(number), {}).update(dict.fromkeys(lacking, gap))
        elif section != P2P:
            device.update(dict.fromkeys(keys(section), gap))
    return device


def _missing_pairs(work: Work, gaps: dict[tuple[int, str], dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for a in range(work.count):
        for b in range(work.count):
            if a == b or (a, b) in work.rows:
                continue
            found = (gaps.get((a, HANDLE)), gaps.get((b, HANDLE)), gaps.get((a, P2P)))
            handles = (work.data[a].get(HANDLE), work.data[b].get(HANDLE))
            gap = next((one for one in (*found, *handles) if one), None)
            if gap is not None:
                rows.append({"a": a, "b": b, **dict.fromkeys((getter.key for getter in PAIR), gap)})
    return rows
