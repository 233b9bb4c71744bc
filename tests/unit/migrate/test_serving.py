"""Start, stop, drain and watch of a service: what is asked in its guest, and that nothing unseen is ever well."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from provision.host.transport import CommandTimeout, Completed, TransportError
from provision.migrate import drain, probe, serving, watch
from provision.migrate.traffic.port import Seen
from provision.run.errors import ActFailed
from provision.spec import Engine, Found, Model, Service, Silence

RUN = "20261130T120000Z-a1b2c3"
UP = "ActiveState=active SubState=running Result=success ExecMainStatus=0 "
REPORT = {"schema": "provcheck/1", "verdict": "pass", "findings": []}


def service(**more: object) -> Service:
    values: dict[str, object] = {
        "name": "chat",
        "engine": Engine(kind="standin", version="1.0.0"),
        "model": Model(repo="kpro/tiny", revision="1" * 40),
    }
    return Service(**{**values, **more})  # type: ignore[arg-type]


def said(ok: bool, why: str = "generated", unit: str = UP) -> Completed:
    line = json.dumps({"ok": ok, "why": why})
    return Completed(0 if ok else 1, f"{unit}\n{line}\n".encode(), b"")


@dataclass
class Side:
    """A guest whose answers are given: by a word that its script holds. ``time`` goes on with each question."""

    answers: dict[str, Callable[[], Completed]] = field(default_factory=dict)
    service: Service = field(default_factory=service)
    name: str = "kpro5"
    scripts: list[str] = field(default_factory=list)
    time: float = 0.0

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        self.scripts.append(script)
        self.time += 1
        for word, answer in self.answers.items():
            if word in script:
                return answer()
        return Completed(0, b"", b"")

    def clock(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def side(**answers: Callable[[], Completed] | Completed) -> Side:
    words = {"generate": "_generate", "passive": "--passive", "drain": "_drain", "look": "systemctl cat"}
    return Side(
        {
            words.get(name, name): answer if callable(answer) else (lambda answer=answer: answer)  # type: ignore[misc]
            for name, answer in answers.items()
        }
    )


def lost() -> Completed:
    raise TransportError("the connection broke")


def test_a_service_that_generates_is_up_and_the_seconds_are_told() -> None:
    answers = iter([said(False, "nothing listens"), said(False, "loading"), said(True)])
    guest = side(generate=lambda: next(answers))
    heard: list[str] = []
    took = serving.start(guest, RUN, 60, heard.append, guest.clock, guest.sleep)
    assert took > 0
    assert ["nothing listens" in line for line in heard] == [True, False]


@pytest.mark.parametrize(
    "unit",
    [
        "ActiveState=failed Result=oom-kill ",
        "ActiveState=inactive ",
        "ActiveState=activating SubState=auto-restart ",
    ],
)
def test_a_service_that_does_not_stay_up_is_not_waited_for(unit: str) -> None:
    guest = side(generate=said(False, "nothing listens", unit))
    with pytest.raises(ActFailed, match="does not generate after"):
        serving.start(guest, RUN, 900, lambda line: None, guest.clock, guest.sleep)
    assert guest.time < 30


def test_a_service_that_never_generates_is_given_up_in_its_time_with_what_its_log_says() -> None:
    guest = side(generate=said(False, "503"), _lasterror=Completed(0, b"CUDA out of memory\n", b""))
    with pytest.raises(ActFailed, match="503; its log says: CUDA out of memory") as error:
        serving.start(guest, RUN, 50, lambda line: None, guest.clock, guest.sleep)
    assert "journalctl -u kpro-chat.service" in str(error.value)
    assert 50 <= guest.time < 120


@pytest.mark.parametrize("answer", [lost, lambda: Completed(127, b"", b"python3: not found")])
def test_what_cannot_be_asked_does_not_generate(answer: Callable[[], Completed]) -> None:
    life = serving.generates(side(generate=answer), RUN)
    assert not life.generates
    assert life.why


def _down(extra: str = "", state: str = "inactive") -> Completed:
    return Completed(0, f"{extra}ActiveState={state}\n".encode(), b"")


def test_a_service_of_which_nothing_is_left_is_stopped() -> None:
    serving.stop(side(**{"systemctl stop": _down()}))
    serving.stop(side(**{"systemctl stop": _down(state="failed")}))


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (_down(state="deactivating"), "is not down"),
        (_down("left=41\n"), "processes 41"),
        (_down("listens=yes\n"), "something else listens on its port 8000"),
        (Completed(0, b"", b""), "is not down"),
        (Completed(1, b"", b"access denied"), "ended with 1: access denied"),
    ],
)
def test_a_stop_that_is_not_seen_is_none(answer: Completed, seen: str) -> None:
    with pytest.raises(ActFailed, match=seen):
        serving.stop(side(**{"systemctl stop": answer}))


def test_a_stop_that_takes_too_long_is_told_with_the_next_step() -> None:
    def hangs() -> Completed:
        raise CommandTimeout("too long")

    with pytest.raises(ActFailed, match="systemctl kill"):
        serving.stop(side(**{"systemctl stop": hangs}))


@pytest.mark.parametrize(
    ("answer", "idle", "words"),
    [
        (Completed(0, b"no request runs or waits after 0.5 s\n", b""), True, "no request"),
        (Completed(1, b"2 request(s) still run\n", b""), False, "2 request"),
        (Completed(0, b"", b""), False, "could not be counted"),
        (Completed(3, b"", b"Traceback"), False, "could not be counted: Traceback"),
        (lost, False, "the connection broke"),
    ],
)
def test_requests_that_could_not_be_counted_are_never_taken_for_none(
    answer: Completed | Callable[[], Completed], idle: bool, words: str
) -> None:
    found = drain.wait(side(drain=answer), RUN, 5)
    assert found.idle is idle
    assert words in found.said


@dataclass
class Led:
    """Traffic that goes to ``who``, until ``after`` looks."""

    after: int = 1000
    looks: int = 0

    def state(self) -> Seen:
        self.looks += 1
        return Seen("target" if self.looks <= self.after else "source", "kpro6 is up")


def watched(guest: Side, traffic: Led | None = None, seconds: float = 30) -> watch.Watched:
    return watch.watch(guest, RUN, seconds, traffic, lambda line: None, guest.clock, guest.sleep)  # type: ignore[arg-type]


def report(**more: object) -> Completed:
    found = {**REPORT, **more}
    return Completed(0 if found["verdict"] == "pass" else 1, json.dumps(found).encode(), b"")


def test_a_target_that_generates_all_the_time_and_whose_counters_are_well_is_well() -> None:
    seen = watched(side(generate=said(True), passive=report()), Led())
    assert seen.well, seen.why
    assert seen.tries >= 4


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (said(False, "503", "ActiveState=failed "), "did not generate any more"),
        (lost, "the connection broke"),
    ],
)
def test_one_token_that_does_not_come_ends_the_watch(
    answer: Completed | Callable[[], Completed], words: str
) -> None:
    seen = watched(side(generate=answer, passive=report()))
    assert not seen.well
    assert words in seen.why
    assert (seen.tries, seen.report) == (1, None)


def test_requests_that_come_to_another_process_end_the_watch() -> None:
    looks = iter([None, None])

    def proven() -> None:
        if next(looks, "over") == "over":
            raise ActFailed("server two is not chat on kpro5")

    guest = side(generate=said(True), passive=report())
    found = watch.watch(guest, RUN, 30, Led(), print, guest.clock, guest.sleep, proven)  # type: ignore[arg-type]
    assert "server two is not chat on kpro5" in found.why
    assert (found.tries, found.report) == (3, None)


def test_requests_that_go_elsewhere_end_the_watch() -> None:
    seen = watched(side(generate=said(True), passive=report()), Led(after=2))
    assert "do not go to the target any more: kpro6 is up" in seen.why
    assert seen.tries == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            report(
                verdict="fail",
                findings=[
                    {"id": "serve.speed", "status": "fail", "subject": "engine", "message": "20 tok/s"}
                ],
            ),
            "serve.speed engine: 20 tok/s",
        ),
        (report(verdict="unknown"), "unknown"),
        (Completed(3, b"", b"cannot reach it"), "cannot reach it"),
        (lost, "the connection broke"),
    ],
)
def test_counters_that_are_not_seen_well_at_the_end_are_red_with_their_cause(
    answer: Completed | Callable[[], Completed], words: str
) -> None:
    seen = watched(side(generate=said(True), passive=answer), seconds=3)
    assert not seen.well
    assert words in seen.why
    assert seen.report is not None


def test_the_passive_gate_takes_the_service_s_own_limits_and_silences() -> None:
    silence = Silence(id="gpu.power_limit", owner="ops", reason="rack", until="2027-01-31")
    words = watch.words(service(thresholds={"speed_fail": 0.7}, silences=(silence,)))
    assert words[-4:] == ["--limit", "speed_fail=0.7", "--silences", "/etc/kpro/chat.silences.json"]
    assert "--passive" in words


def by_hand(**more: object) -> Service:
    words = ("vllm", "serve", "/m", "--port", "8001", "--served-model-name", "their-model")
    return service(found=Found(unit="their-llm.service", command=words), **more)


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("192.0.2.5", "http://192.0.2.5:8000"),
        ("2001:db8::5", "http://[2001:db8::5]:8000"),
    ],
)
def test_a_service_is_asked_where_it_listens_in_its_own_guest(listen: str, url: str) -> None:
    assert probe.address(by_hand(listen=listen)) == url


def test_a_service_that_kpro_did_not_set_up_is_asked_by_the_name_that_it_serves() -> None:
    assert probe.served(by_hand()) == "their-model"
    assert probe.served(service()) == "chat"


def test_provcheck_is_brought_once_and_is_the_controller_s_own(tmp_path: Path) -> None:
    class Guest(Side):
        def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
            words = script.replace("/run/kpro-migrate", f"{tmp_path}/run/kpro-migrate")
            done = subprocess.run(["/bin/sh", "-c", words], input=stdin, capture_output=True, check=False)
            self.scripts.append(script)
            return Completed(done.returncode, done.stdout, done.stderr)

    (tmp_path / "run/kpro-migrate").mkdir(parents=True)
    guest = Guest()
    probe.bring(guest, RUN)
    put = tmp_path / probe.path(RUN).lstrip("/")
    assert put.stat().st_mode & 0o777 == 0o600
    assert put.parent.stat().st_mode & 0o777 == 0o700
    before = len(guest.scripts)
    probe.bring(guest, RUN)
    assert len(guest.scripts) == before + 1, "it is there and is only looked at"
    put.write_bytes(b"torn")
    probe.bring(guest, RUN)
    assert put.stat().st_size > 100_000


def test_a_provcheck_that_does_not_arrive_is_told() -> None:
    guest = side(sha256sum=Completed(1, b"", b"No space left on device"))
    with pytest.raises(ActFailed, match="No space left on device"):
        probe.bring(guest, RUN)


def test_words_with_blanks_reach_provcheck_as_they_are() -> None:
    script = probe.asked(service(name="chat"), RUN, "_generate", ["--model", "a model; $(x)"])
    assert shlex.quote("a model; $(x)") in script
