"""Programs of the controller: real ones, which fail, hang with their children, and print what nobody is to read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.host.transport import TransportError
from provision.migrate.traffic import program
from provision.migrate.traffic.hooks import Programs
from provision.migrate.traffic.port import TrafficError
from provision.spec import Hooks

SECRET = "s3cret-of-the-cloud"
TOLD = {
    "KPRO_RUN": "20261130T120000Z-a1b2c3",
    "KPRO_SERVICE": "chat",
    "KPRO_SOURCE_URL": "http://a:1",
    "KPRO_TARGET_URL": "http://b:1",
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    def make(name: str, body: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def hooks(write: Callable[[str, str], str], tmp_path: Path) -> Callable[..., Programs]:
    """Hooks that keep in a file who gets the requests; ``bodies`` are others."""
    state = tmp_path / "state"
    state.write_text("source\n")

    def make(deadline: int = 10, **bodies: str) -> Programs:
        usual = {
            "drain": f"echo nobody >{state}; echo drain >>{tmp_path}/calls",
            "switch": f"echo target >{state}; echo switch >>{tmp_path}/calls",
            "back": f"echo source >{state}; echo back >>{tmp_path}/calls",
            "check": f"cat {state}",
        }
        commands = {name: (write(name, bodies.get(name, body)), "a word") for name, body in usual.items()}
        return Programs(Hooks(**commands, deadline_seconds=deadline), TOLD, ("the-api-key-1",))  # type: ignore[arg-type]

    return make


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_hooks_lead_over_and_back_and_each_is_called_once(
    hooks: Callable[..., Programs], tmp_path: Path
) -> None:
    led = hooks()
    assert led.check() == []
    assert [led.hold().who, led.drain().who, led.drain().who] == ["source", "nobody", "nobody"]
    assert [led.switch().who, led.switch().who, led.back().who, led.release().who] == [
        "target",
        "target",
        "source",
        "source",
    ]
    assert (tmp_path / "calls").read_text().split() == ["drain", "switch", "back"]


def test_a_hook_gets_its_words_as_they_are_and_is_told_of_the_run(
    hooks: Callable[..., Programs], tmp_path: Path
) -> None:
    led = hooks(
        drain=f'echo "$KPRO_RUN $KPRO_SERVICE $KPRO_SOURCE_URL $KPRO_TARGET_URL $# $1" >{tmp_path}/told; '
        f"echo nobody >{tmp_path}/state"
    )
    led.drain()
    assert (tmp_path / "told").read_text() == " ".join(TOLD.values()) + " 1 a word\n"


def test_no_shell_reads_the_words(tmp_path: Path) -> None:
    done = program.run(["/bin/echo", f"$(touch {tmp_path}/x); `id` > y"], timeout=10)
    assert done.text == f"$(touch {tmp_path}/x); `id` > y\n"
    assert not (tmp_path / "x").exists()


def test_a_hook_that_fails_is_told_with_its_code_and_last_lines(hooks: Callable[..., Programs]) -> None:
    led = hooks(switch="echo one; echo 'the balancer said no' >&2; exit 7")
    with pytest.raises(TrafficError) as error:
        led.switch()
    assert "ended with 7" in str(error.value)
    assert "the balancer said no" in str(error.value)
    assert led.state().who == "source"


def test_a_hook_that_ends_well_and_leads_nobody_is_not_believed(hooks: Callable[..., Programs]) -> None:
    with pytest.raises(TrafficError, match="after 1 s target does not get the requests: check says: source"):
        hooks(deadline=1, switch="exit 0").switch()


def test_a_hook_that_hangs_is_ended_with_its_children(hooks: Callable[..., Programs], tmp_path: Path) -> None:
    led = hooks(
        deadline=1,
        drain=f"sleep 300 & echo $! >{tmp_path}/pids; setsid sleep 300 & echo $! >>{tmp_path}/pids; "
        f"(trap '' TERM; sleep 300) & echo $! >>{tmp_path}/pids; echo 'waiting for the balancer'; wait",
    )
    began = time.monotonic()
    with pytest.raises(TrafficError) as error:
        led.drain()
    assert time.monotonic() - began < 20
    assert "did not end within 1 s and was ended with all that it had started" in str(error.value)
    assert "waiting for the balancer" in str(error.value)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 3
    # A process that was killed has let go of all it had a moment before it is counted as ended.
    until = time.monotonic() + 2
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    assert [pid for pid in pids if alive(pid)] == []


def test_an_interrupt_ends_the_hook_too(tmp_path: Path) -> None:
    code = (
        "import sys; from provision.migrate.traffic import program; "
        f"program.run(['/bin/sh', '-c', 'echo $$ >{tmp_path}/pid; sleep 300'], timeout=300)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as child:
        until = time.monotonic() + 30
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < until
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        child.wait(20)
    assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    "body",
    [
        f"echo 'token is {SECRET}' >&2; exit 1",
        "echo 'key the-api-key-1'; exit 1",
        "curl -H 'Authorization: Bearer abcdef123456' http://u:pass-word@x; echo 'Authorization: Bearer abcdef123456' "
        "http://u:pass-word@x; exit 1",
        f"echo {SECRET}; sleep 60",
    ],
)
def test_a_secret_that_a_hook_prints_is_not_shown(
    body: str, hooks: Callable[..., Programs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUD_TOKEN", SECRET)
    with pytest.raises(TrafficError) as error:
        hooks(deadline=2, switch=body).switch()
    for word in (SECRET, "the-api-key-1", "abcdef123456", "pass-word"):
        assert word not in str(error.value)
    assert "***" in str(error.value)


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("exit 3", "ended with 3"),
        ("echo somebody", "says 'somebody'"),
        (":", "says nothing"),
        ("echo 'source or target'", "says 'source or target'"),
        ("sleep 60", "did not end within 1 s"),
    ],
)
def test_a_check_that_proves_nothing_is_refused_before_anything_begins(
    body: str, seen: str, hooks: Callable[..., Programs]
) -> None:
    led = hooks(deadline=1, check=body)
    (found,) = led.check()
    assert seen in found.seen
    assert led.state().who == "unknown"
    with pytest.raises(TrafficError):
        led.hold()


def test_requests_that_do_not_go_to_the_source_are_refused_before_anything_begins(
    hooks: Callable[..., Programs],
) -> None:
    (found,) = hooks(check="echo target").check()
    assert "target gets the requests" in found.seen
    assert hooks(check="echo target").check(begun=True) == []
    assert hooks(check="echo nobody").check(cold=True) == []
    with pytest.raises(TrafficError, match="stay away from the target"):
        hooks(check="echo target").hold()


def test_requests_that_go_to_a_source_keep_it_from_being_taken_for_dead(
    hooks: Callable[..., Programs],
) -> None:
    for found in (hooks(check="echo source").check(cold=True), hooks(check="echo source").lives()):
        assert [one.seen for one in found] == ["it says that the source gets the requests"]
        assert "drain" in found[0].next_step
    assert hooks(check="echo nobody").lives() == []
    assert hooks(check="echo target").lives() == [], "a move that is through"
    (found_one,) = hooks(check="exit 3").lives()
    assert "ended with 3" in found_one.seen


def test_a_program_that_is_not_there_is_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="cannot be started: No such file"):
        program.run([str(tmp_path / "gone")], timeout=5)


def test_much_output_is_kept_at_its_end_only() -> None:
    done = program.run([sys.executable, "-c", "print('x' * (3 << 20)); print('end')"], timeout=60)
    assert len(done.stdout) == program.MOST
    assert done.text.endswith("end\n")


def test_standard_input_arrives() -> None:
    assert program.run(["/bin/cat"], stdin=b"hello", timeout=10).stdout == b"hello"


def test_a_program_ended_by_a_signal_has_a_shell_s_code() -> None:
    assert program.run(["/bin/sh", "-c", "kill -9 $$"], timeout=10).rc == 137
    assert os.environ.get("KPRO_PROGRAM") is None
