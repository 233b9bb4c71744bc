"""Programs of the operator that lead a migration. No shell reads them, and what they print is shown without secrets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, get_args

from provision.host.transport import Completed, TransportError
from provision.migrate.ends import Role
from provision.migrate.traffic import program
from provision.migrate.traffic.door import Entrance, of_url
from provision.migrate.traffic.port import Door, Known, Seen, TrafficError, Who
from provision.migrate.traffic.told import last_lines, secrets, shown
from provision.migrate.traffic.ways import here
from provision.plan import Refusal
from provision.spec_migration import Hooks

_PAUSE_S = 1.0
_KNOWN = tuple(who for who in get_args(Who) if who != "unknown")


@dataclass(frozen=True)
class Programs:
    """A ``Traffic``. ``variables``: what each is told. ``hidden``: secrets beside those of the environment."""

    spec: Hooks
    variables: Mapping[str, str]
    hidden: tuple[str, ...] = field(default=(), repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    @property
    def name(self) -> str:
        return "hooks on this controller"

    def check(self, *, begun: bool = False, cold: bool = False, known: Known | None = None) -> list[Refusal]:
        seen = self.state()
        if seen.who == "unknown":
            return [
                Refusal(
                    "migration.traffic.check",
                    seen.said,
                    "whether requests were led cannot be proven without it",
                    f"let it end with 0 and print one of {', '.join(_KNOWN)} as its last line",
                )
            ]
        if cold:
            return self._led_to_source(seen)
        if seen.who != "source" and not begun and not cold:
            return [
                Refusal(
                    "migration.traffic.check",
                    f"it says that {seen.who} gets the requests",
                    "they must go to the source before a move begins",
                    f"lead them there first: {self._words('back')}",
                )
            ]
        return []

    def notes(self, known: Known) -> list[str]:
        if self.spec.probe is not None:
            return []
        return [
            "where the hooks lead is their 'check' to say: without probe='http://…', an address that clients ask, it "
            "is not proven that the very service answers there"
        ]

    def door(self, who: Role, *, led: bool) -> Door | None:
        """Only the one who gets the requests answers at the address of all."""
        if self.spec.probe is None or not led:
            return None
        return Entrance(
            here,
            of_url(self.spec.probe),
            "this controller",
            f"{self.spec.probe} (probe)",
            mend=f"lead requests to the {who}'s service ({self._words('back' if who == 'source' else 'switch')})",
        )

    def lives(self) -> list[Refusal]:
        return self.check(begun=True, cold=True)

    def _led_to_source(self, seen: Seen) -> list[Refusal]:
        if seen.who != "source":
            return []
        return [
            Refusal(
                "migration.traffic.check",
                "it says that the source gets the requests",
                "a source that gets requests may answer them, and would go on to do so beside the target",
                f"if it is off, lead them away from it, then run again: {self._words('drain')}",
            )
        ]

    def hold(self) -> Seen:
        return self._held()

    def drain(self) -> Seen:
        return self._lead("drain", "nobody")

    def switch(self) -> Seen:
        return self._lead("switch", "target")

    def back(self) -> Seen:
        return self._lead("back", "source")

    def release(self) -> Seen:
        return self._held()

    def state(self) -> Seen:
        try:
            done = self._run("check")
        except TransportError as error:
            return Seen("unknown", f"check ({self._words('check')}): {self._why(error)}")
        lines = [line.strip() for line in done.text.splitlines() if line.strip()]
        if not done.ok:
            said = last_lines(self._text(done.text + "\n" + done.error_text))
            return Seen(
                "unknown",
                f"check ({self._words('check')}) ended with {done.rc}{': it said' + said if said else ''}",
            )
        for who in _KNOWN:
            if lines and lines[-1] == who:
                return Seen(who, f"check says: {who}")
        last = repr(self._text(lines[-1])[:120]) if lines else "nothing"
        return Seen(
            "unknown", f"check ({self._words('check')}) says {last}, and not one of {', '.join(_KNOWN)}"
        )

    def settled(self, who: Who, seconds: float) -> Seen:
        until = self.clock() + seconds
        while True:
            seen = self.state()
            if seen.who == who:
                return seen
            if self.clock() >= until:
                self._stop(
                    f"after {seconds:g} s {who} does not get the requests: {seen.said}",
                    f"see what leads them{self._or_by_hand('back') if who == 'source' else ''}",
                )
            self.sleep(_PAUSE_S)

    def afterwards(self) -> tuple[str, ...]:
        return ("take the source out of what your hooks lead: it is not there any more",)

    def _held(self) -> Seen:
        """Hooks send nothing to the target before they are told to."""
        seen = self.state()
        if seen.who not in ("source", "nobody"):
            self._stop(f"requests are to stay away from the target, and {seen.said}", self._words("back"))
        return seen

    def _lead(self, verb: str, who: Who) -> Seen:
        if (seen := self.state()).who == who:
            return seen
        try:
            done = self._run(verb)
        except TransportError as error:
            hung = isinstance(error, program.Hung)
            self._stop(
                f"{verb} ({self._words(verb)}): {self._why(error)}",
                f"see what it waits for, by hand{self._or_by_hand(verb)}"
                if hung
                else f"bring it here{self._or_by_hand(verb)}",
            )
        if not done.ok:
            said = last_lines(self._text(done.text + "\n" + done.error_text))
            words = f": it said{said}\n   " if said else ", without a word"
            self._stop(
                f"{verb} ({self._words(verb)}) ended with {done.rc}{words}",
                f"mend it, and run it by hand until it ends with 0{self._or_by_hand(verb)}",
            )
        return self.settled(who, self.spec.deadline_seconds)

    def _or_by_hand(self, verb: str) -> str:
        """For the way back, which must not wait for a program."""
        url = self.variables.get("KPRO_SOURCE_URL", "")
        return f"; meanwhile lead requests to {url} by hand" if verb == "back" and url else ""

    def _run(self, verb: str) -> Completed:
        first, *rest = getattr(self.spec, verb)
        return program.run(
            [str(Path(first).expanduser()), *rest],
            timeout=self.spec.deadline_seconds,
            variables=self.variables,
        )

    def _why(self, error: TransportError) -> str:
        said = last_lines(self._text(error.said)) if isinstance(error, program.Hung) else ""
        return f"{error}{'; it had said' + said if said else ''}"

    def _text(self, text: str) -> str:
        return shown(text, secrets(os.environ, self.hidden))

    def _words(self, verb: str) -> str:
        return self._text(" ".join(getattr(self.spec, verb)))

    def _stop(self, seen: str, next_step: str) -> NoReturn:
        raise TrafficError(f"{self.name}: {seen}. Next: {next_step}")
