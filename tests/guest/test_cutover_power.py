"""A cut-over that loses its power or its controller half-way: the next boot, and the next run, find a service."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gevent
import pytest

from tests.guest.cutover_place import made_cut
from tests.guest.cutover_rig import FAST, Cut, Ended
from tests.guest.rig import eventually

__all__ = ["made_cut"]

pytestmark = pytest.mark.usefixtures("alone", "one_operator")

SLOW_START = ("--tok-s", "430", "--start-seconds", "3")
BUSY = Path("/run/kpro/busy")


@pytest.fixture
def cut(made_cut: Cut) -> Iterator[Cut]:
    yield made_cut
    assert made_cut.answer().strip()
    assert made_cut.left() == []


def phase(cut: Cut) -> str:
    """Where the cut-over is, read from outside."""
    path = cut.place.container.rootfs / "var/lib/kpro/cutover/tiny/phase"
    try:
        return path.read_text().split()[0]
    except (OSError, IndexError):
        return ""


def answers(cut: Cut) -> bool:
    try:
        return bool(cut.answer(4).strip())
    except OSError:
        return False


@contextmanager
def under_way(cut: Cut, mode: str, *flags: str, **more: object) -> Iterator[Callable[[], Ended]]:
    """A cut-over in a greenlet of its own; what it ended with is asked for last."""
    running = gevent.spawn(cut.over, mode, *flags, **more)
    try:
        yield lambda: running.get(timeout=120)
    finally:
        running.kill()


def reached(cut: Cut, wanted: str) -> None:
    eventually(lambda: phase(cut) == wanted, f"phase {wanted}, not {phase(cut)!r}", 40)


@contextmanager
def one_long_request(cut: Cut, seconds: float) -> Iterator[None]:
    """Somebody has a request in flight, which keeps what serves from stopping at once."""
    asking = threading.Thread(target=lambda: answers_long(cut, int(400 * seconds)), daemon=True)
    asking.start()
    gevent.sleep(0.3)
    yield
    asking.join(30)


def answers_long(cut: Cut, tokens: int) -> None:
    try:
        cut.answer(tokens)
    except OSError:
        # Its server lost the power.
        return


@pytest.mark.parametrize(
    ("where", "mode", "flags"),
    [
        ("trial", "beside", SLOW_START),
        ("stop", "swap", FAST),
        ("trial", "swap", SLOW_START),
        ("publish", "swap", SLOW_START),
        ("back", "swap", ("--fault", "garbage")),
    ],
)
def test_after_a_power_cut_the_next_boot_runs_the_last_good_one_and_the_next_run_goes_on(
    cut: Cut, where: str, mode: str, flags: tuple[str, ...]
) -> None:
    if cut.inside("cat", "/etc/systemd/system/kpro-tiny.service").count("430"):
        assert cut.over("beside", *FAST).error is None
    answer, good = cut.answer(16), cut.good()
    before = cut.inside("sha256sum", "/etc/systemd/system/kpro-tiny.service", "/etc/kpro/tiny.env")
    with one_long_request(cut, 3 if where == "stop" else 0), under_way(cut, mode, *flags, drain_seconds=0) as ended:
        reached(cut, where)
        cut.place.container.stop()
        assert ended().error is not None
    assert phase(cut) == where
    cut.place.container.start()
    eventually(lambda: answers(cut), "the service answers after the boot", 30)
    assert (cut.answer(16), cut.good()) == (answer, good)
    assert cut.inside("sha256sum", "/etc/systemd/system/kpro-tiny.service", "/etc/kpro/tiny.env") == before
    assert cut.left() == []
    if where in ("stop", "publish"):
        assert cut.over("beside", *flags).error is None
        assert cut.good() != good


@pytest.mark.parametrize(("where", "flags"), [("stop", FAST), ("publish", SLOW_START)])
def test_interrupted_the_cut_over_goes_on_to_its_end_and_the_machine_is_busy_until_then(
    cut: Cut, where: str, flags: tuple[str, ...]
) -> None:
    """Ctrl-C raises KeyboardInterrupt in the greenlet that carries the act out, and lets go of its command."""
    before = cut.good()
    with one_long_request(cut, 2 if where == "stop" else 0):
        running = gevent.spawn(cut.over, "swap", *flags, drain_seconds=0)
        reached(cut, where)
        gevent.kill(running, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            running.get(timeout=20)
        # What a new run waits for before it looks.
        assert not free(0)
        assert phase(cut) != ""
        assert free(60)
    assert phase(cut) == ""
    assert cut.good() not in ("", before)
    assert cut.answer().strip()


def free(seconds: float) -> bool:
    """Can the machine be had alone, within so many seconds?"""
    until = time.monotonic() + seconds
    with BUSY.open("a") as busy:
        while True:
            try:
                fcntl.flock(busy, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    return False
                gevent.sleep(0.1)
            else:
                return True


def test_one_that_is_ended_by_hand_is_mended_by_the_next(cut: Cut) -> None:
    good = cut.good()
    with under_way(cut, "swap", "--tok-s", "440", "--start-seconds", "3", drain_seconds=0) as ended:
        reached(cut, "publish")
        cut.inside("systemctl", "stop", "kpro-cutover-tiny.service")
        said = ended()
    assert said.error is not None
    assert "ended from outside before it could judge" in said.error
    assert phase(cut) == "publish"
    again = cut.over("swap", "--tok-s", "441")
    assert again.error is None, again.text
    assert "an earlier cut-over was cut off (publish): the last good profile is put back first" in again.text
    assert cut.good() not in ("", good)
