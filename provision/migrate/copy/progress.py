"""How far the unit is: read from its own files, so that any controller at any time sees the same."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from provision.migrate.copy.key import folder, mark
from provision.migrate.copy.model import Progress

WINDOW = 20.0
"""Seconds that the rate is taken over."""


def look(run: str) -> str:
    """For the source: state, whether the unit is there, the machine's clock, and for each of rsync's outputs the bytes
    of the files that were there already and of those it sent."""
    return f"""cd {folder(run)} 2>/dev/null || {{ echo phase=none; exit 0; }}
# In this order: a unit that ends in between has said so before.
echo "active=$(systemctl is-active {mark(run)}.service)"
cat state 2>/dev/null || echo phase=none
echo "now=$(date +%s)"
echo "total=$(cat total 2>/dev/null)"
read -r up _ < /proc/uptime; echo "up=$up"
for o in *.out; do
  [ -e "$o" ] || continue
  tr '\\r' '\\n' < "$o" | awk -v o="${{o%.out}}" '
    $1 == "kpro" && substr($2, 1, 2) == ".f" {{ there += $NF }}
    $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+%$/ {{ sent = $1 }}
    END {{ printf "out=%s %.0f %.0f\\n", o, there, sent }}'
done
"""


@dataclass(frozen=True)
class Seen:
    """``done``, ``sent`` and ``total``: bytes; ``up``: the machine's own clock in seconds, which nobody sets."""

    phase: str
    active: bool
    attempt: int
    why: str
    done: int
    sent: int
    began: int
    now: int
    up: float
    total: int


def seen(text: str) -> Seen:
    """From the output of ``look``."""
    facts: dict[str, str] = {}
    lists: dict[str, int] = {}
    rests: dict[str, int] = {}
    sent = 0
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name != "out":
            facts[name] = value
            continue
        words = value.split()
        if len(words) != 3:
            continue
        number, _, kind = words[0].partition(".")
        sent += int(words[2])
        if kind == "rest":
            rests[number] = int(words[1]) + int(words[2])
        elif kind != "again":
            lists[number] = lists.get(number, 0) + int(words[1]) + int(words[2])
    # The last pass goes over everything once more, what the streams sent included.
    done = sum(max(lists.get(n, 0), rests.get(n, 0)) for n in lists.keys() | rests.keys())
    return Seen(
        phase=facts.get("phase", "none"),
        active=facts.get("active") in ("active", "activating", "deactivating", "reloading"),
        attempt=_number(facts.get("attempt")),
        why=facts.get("why", "").strip(),
        done=done,
        sent=sent,
        began=_number(facts.get("began")),
        now=_number(facts.get("now")),
        up=float(facts.get("up") or 0),
        total=_number(facts.get("total")),
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


class Meter:
    """Rate and time left, from looks at different times."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def progress(self, look: Seen) -> Progress:
        state, total = look.phase, look.total
        if state in ("copying", "waiting", "checking") and not look.active:
            # It was ended from outside, or the machine was restarted in between.
            state = "none"
        if state == "done" and look.active:
            # Whoever starts it again would find it running, and wait for nothing.
            state = "checking"
        if state == "none":
            return Progress(min(look.done, total), total, None, None, state, look.attempt, look.why)
        done = total if state in ("checking", "done") else min(look.done, total)
        if self._looks and (look.up < self._looks[-1][0] or look.sent < self._looks[-1][1]):
            self._looks.clear()
        self._looks.append((look.up, look.sent))
        while len(self._looks) > 2 and look.up - self._looks[0][0] > WINDOW:
            self._looks.popleft()
        rate = self._rate(look)
        eta = (total - done) / rate if rate and state == "copying" else None
        return Progress(done, total, rate, eta, state, look.attempt, look.why)

    def _rate(self, look: Seen) -> float | None:
        first, last = self._looks[0], self._looks[-1]
        if last[0] - first[0] >= 1:
            return (last[1] - first[1]) / (last[0] - first[0])
        elapsed = look.now - look.began
        return look.sent / elapsed if look.began and elapsed > 0 else None
