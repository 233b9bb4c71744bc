"""A cut-over that loses its power or its controller half-way: the next boot, and the next run, find a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gevent
import pytest

from provision.host.observe import observe
from provision.stack.under_way import read, request
from tests.guest.cutover_rig import FAST, Cut, Ended
from tests.guest.rig import eventually

SLOW_START = ("--tok-s", "430", "--start-seconds", "3")
BUSY = Path("/run/kpro/busy")


@pytest.fixture
def cut(made_cut: Cut) -> Iterator[Cut]:
    yield made_cut
    assert made_cut.answer().strip()
    assert made_cut.left() == []


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
    eventually(lambda: cut.phase() == wanted, f"phase {wanted}, not {cut.phase()!r}", 40)


@pytest.mark.parametrize(
    ("where", "mode", "end"),
    [
        ("trial", "swap", ("kill", "-s", "KILL")),
        ("gate", "beside", ("stop",)),
        ("stop", "swap", ("kill", "-s", "KILL")),
        ("publish", "swap", ("stop",)),
    ],
)
def test_one_that_is_ended_from_outside_ends_with_what_served_before_generating(
    cut: Cut, where: str, mode: str, end: tuple[str, ...]
) -> None:
    good, started = cut.good(), cut.inside("systemctl", "show", "-p", "MainPID", "kpro-tiny.service")
    flags = ("--tok-s", "440", *(("--start-seconds", "2") if where in ("trial", "publish") else ()))
    with (
        cut.request_in_flight(1200 if where == "stop" else 0),
        under_way(cut, mode, *flags, drain_seconds=0) as ended,
    ):
        reached(cut, where)
        seen = read("tiny", observe(cut.host, [request("tiny")]))
        cut.inside("systemctl", *end, "kpro-cutover-tiny.service")
        said = ended()
    assert seen is not None
    assert (seen.at_work, seen.mode, seen.run, seen.phase) == (True, mode, "run-1", where)
    assert seen.since
    assert said.error is not None
    assert f"was ended from outside before it could judge (phase {where}):" in said.error
    assert "the last good profile serves: kpro-tiny.service generates" in said.error
    assert "DOWN" not in said.text
    assert answers(cut)
    assert (cut.good(), cut.phase()) == (good, "")
    if mode == "beside":
        assert cut.inside("systemctl", "show", "-p", "MainPID", "kpro-tiny.service") == started


def test_one_that_nobody_mended_is_mended_by_the_next_and_a_mending_that_fails_is_said_in_capitals(
    cut: Cut,
) -> None:
    """The last good profile does not come up: its way to start is taken away meanwhile."""
    good, drop_in = cut.good(), "/run/systemd/system/kpro-tiny.service.d"
    state = "/var/lib/kpro/cutover/tiny"
    with under_way(cut, "swap", "--tok-s", "441", "--start-seconds", "2", drain_seconds=0) as ended:
        reached(cut, "trial")
        cut.inside(
            "sh", "-c",
            f"mkdir -p {drop_in}; printf '[Service]\nRestart=no\nExecStartPre=/bin/false\n' >{drop_in}/x.conf; "
            "systemctl kill -s KILL kpro-cutover-tiny.service",
        )  # fmt: skip
        said = ended()
    assert said.error is not None
    assert "THE SERVICE IS DOWN: kpro-tiny.service does not generate" in said.error
    assert "next: provision apply" in said.error
    cut.inside(
        "sh", "-c",
        f"rm -r {drop_in}; systemctl daemon-reload; mkdir -p {state}; echo publish x >{state}/phase",
    )  # fmt: skip
    again = cut.over("swap", "--tok-s", "441")
    assert again.error is None, again.text
    assert "an earlier cut-over was cut off (publish): the last good profile is put back first" in again.text
    assert cut.good() not in ("", good)


@pytest.mark.parametrize(
    ("where", "mode", "flags"),
    [
        ("trial", "beside", SLOW_START),
        ("stop", "swap", ("--tok-s", "405")),
        ("publish", "swap", SLOW_START),
        ("back", "swap", ("--fault", "garbage")),
    ],
)
def test_after_a_power_cut_the_next_boot_runs_the_last_good_one_and_the_next_run_goes_on(
    cut: Cut, where: str, mode: str, flags: tuple[str, ...]
) -> None:
    # What comes back has to be slow enough to be cut off at that, and what is tried has to be another one.
    serves = SLOW_START if where == "back" else FAST
    if cut.desired(cut.service(*serves)).digest != cut.good():
        assert cut.over("beside", *serves).error is None
    answer, good = cut.answer(16), cut.good()
    before = cut.inside("sha256sum", "/etc/systemd/system/kpro-tiny.service", "/etc/kpro/tiny.env")
    with (
        cut.request_in_flight(1200 if where == "stop" else 0),
        under_way(cut, mode, *flags, drain_seconds=0) as ended,
    ):
        reached(cut, where)
        cut.place.container.stop()
        assert ended().error is not None
    assert cut.phase() == where
    cut.place.container.start()
    eventually(lambda: answers(cut), "the service answers after the boot", 30)
    assert (cut.answer(16), cut.good()) == (answer, good)
    assert cut.inside("sha256sum", "/etc/systemd/system/kpro-tiny.service", "/etc/kpro/tiny.env") == before
    assert cut.left() == []
    if where == "publish":
        assert cut.over("beside", *flags).error is None
        assert cut.good() != good


def holders(cut: Cut) -> list[str]:
    """The processes of this machine that keep it busy on behalf of this container."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            opened = [str(link.readlink()) for link in (folder / "fd").iterdir()]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(BUSY) in opened and cut.place.container.name in words:
            found.append(words)
    return found


@pytest.mark.parametrize(("where", "flags"), [("stop", ("--tok-s", "406")), ("publish", SLOW_START)])
def test_interrupted_the_cut_over_goes_on_to_its_end_and_the_machine_is_busy_until_then(
    cut: Cut, where: str, flags: tuple[str, ...]
) -> None:
    """Ctrl-C raises KeyboardInterrupt in the greenlet that carries the act out, and lets go of its command."""
    before = cut.good()
    with cut.request_in_flight(800 if where == "stop" else 0):
        running = gevent.spawn(cut.over, "swap", *flags, drain_seconds=0)
        reached(cut, where)
        gevent.kill(running, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            running.get(timeout=20)
        # What a new run waits for before it looks.
        assert holders(cut)
        eventually(lambda: not holders(cut), "the machine is free again", 60)
    assert cut.phase() == ""
    assert cut.good() not in ("", before)
    assert cut.answer().strip()
