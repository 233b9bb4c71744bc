"""A cut-over in a real container: what serves is not worsened, and is back and generating when a refusal ends."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from provision.acts.baseline import measure
from provision.acts.service import prove
from provision.acts.stack import stage
from provision.acts.voice import Voice
from provision.run.errors import ActFailed
from provision.stack.baselines import fresh
from provision.stack.cutover import Measure
from tests.guest.cutover_rig import FAST, GATE, Caller, Cut
from tests.guest.rig import sh


@pytest.fixture
def cut(made_cut: Cut) -> Iterator[Cut]:
    """Something good serves; whatever a test does, that or another good one serves afterwards, and nothing is left."""
    assert made_cut.answer().strip()
    yield made_cut
    assert made_cut.answer().strip()
    assert made_cut.left() == []


def test_beside_the_old_one_serves_until_the_new_one_is_proven(cut: Cut) -> None:
    before = cut.good()
    with Caller(cut) as caller:
        ended = cut.over("beside", "--tok-s", "410", drain_seconds=1)
        answered = cut.answer()
    assert ended.error is None, ended.text
    assert answered.strip()
    assert cut.good() not in ("", before)
    told = cut.outcome()
    assert (told["verdict"], told["mode"], told["digest"]) == ("accepted", "beside", cut.good())
    assert 350 < told["tok_s"] < 450
    # Who was turned away was so while the unit was exchanged: what the guest measured is what a client saw.
    assert caller.longest_gap == pytest.approx(told["downtime_s"], abs=1.5)
    first, last = caller.failed[0][0], caller.failed[-1][0]
    assert last - first <= told["downtime_s"] + 0.5
    assert f"nobody served for {told['downtime_s']} s" in ended.text
    order = [line.split("] ")[1].split(":")[0] for line in ended.said if "] " in line]
    assert [word for word in dict.fromkeys(order) if " " not in word] == [
        "open", "trial", "gate", "drain", "stop", "publish",
    ]  # fmt: skip


def test_swapped_the_baseline_is_kept_only_of_what_was_accepted(cut: Cut) -> None:
    path = "/var/lib/kpro/baselines/tiny/new.json"
    refused = cut.over("swap", "--fault", "garbage", keep_baseline=path)
    assert refused.error is not None
    assert cut.inside("ls", "/var/lib/kpro/baselines", check=False) == ""
    ended = cut.over("swap", *FAST, keep_baseline=path)
    assert ended.error is None, ended.text
    kept = json.loads(cut.inside("cat", path))
    assert kept["schema"] == "provcheck-baseline/1"
    # What was slower than this is not put into service, by the figure, and what serves was not even restarted.
    pid = cut.place.main_pid()
    judged = ("--seconds", "1", "--baseline", path)
    slow = cut.over("beside", "--tok-s", "404", gate=judged, beats=1.2, candidate=True, asked="beats=1.2")
    assert slow.error is not None
    assert "not better than what serves" in slow.error
    assert "1.20x is asked for" in slow.error
    assert cut.place.main_pid() == pid
    told = cut.outcome("tiny.json")
    assert (told["verdict"], told["asked"], told["downtime_s"]) == ("refused", "beats=1.2", None)
    assert told["tok_s"] > 350
    # One that is faster by as much is accepted, and the verdict on the one before it does not stand in for its own.
    fast = cut.over("beside", "--tok-s", "600", gate=judged, beats=1.2, candidate=True)
    assert fast.error is None, fast.text
    assert cut.outcome("tiny.json")["verdict"] == "accepted"


@pytest.mark.parametrize(
    ("fault", "mode", "ready", "said"),
    [
        ("crash", "swap", 30, "does not stay up"),
        ("never-ready", "swap", 4, "still starting"),
        ("hang", "beside", 4, "did not come to generate"),
        ("memory", "beside", 30, "killed from outside, as the kernel does for memory (it may hold"),
    ],
)
def test_an_engine_that_fails_is_given_up_in_its_time_and_the_old_one_answers_as_before(
    cut: Cut, fault: str, mode: str, ready: int, said: str
) -> None:
    answer, good = cut.answer(16), cut.good()
    inside = cut.inside("cat", "/etc/systemd/system/kpro-tiny.service", "/etc/kpro/tiny.env")
    pid = cut.place.main_pid()
    cut.ready = ready
    try:
        asked = cut.asked(mode, "--fault", fault)  # type: ignore[arg-type]
    finally:
        cut.ready = 30
    started = time.monotonic()
    with _memory_limit(cut, 500 if fault == "memory" else None):
        ended = cut.carry_out(asked)
    assert ended.error is not None
    assert said in ended.error, ended.text
    trial = asked.trial.service.unit if asked.trial else ""
    assert f"its log is in the guest: journalctl -b -u {trial}" in cut.outcome()["why"]
    if fault == "crash":
        assert "; it said: " in cut.outcome()["why"].splitlines()[0]
    assert time.monotonic() - started < ready + 20
    assert (cut.answer(16), cut.good()) == (answer, good)
    assert cut.inside("cat", "/etc/systemd/system/kpro-tiny.service", "/etc/kpro/tiny.env") == inside
    if mode == "beside":
        assert cut.place.main_pid() == pid
        assert "kpro-tiny.service was not touched and generates" in ended.error
        assert "the profile that was tried for tiny was refused:" in ended.error
    else:
        assert "the last good profile is back and generates" in ended.error


@contextmanager
def _memory_limit(cut: Cut, mib: int | None) -> Iterator[None]:
    """The container may hold so many MiB, as ``lxc.cgroup2.memory.max`` of its configuration has it."""
    for key in ("memory.max", "memory.limit_in_bytes"):
        words = ("lxc-cgroup", "-n", cut.place.container.name, key)
        if mib is None or sh(*words, f"{mib}M", check=False).returncode == 0:
            yield
            if mib is not None:
                sh(*words, "1T")
            return
    raise AssertionError("the container has no control group of memory")


def test_proven_on_loopback_and_failing_at_the_address_it_goes_back(cut: Cut, tmp_path: Path) -> None:
    """The new one has a key, with which it is tried; the old one has none."""
    answer, good = cut.answer(16), cut.good()
    key = tmp_path / "key"
    key.write_text("must-not-be-seen\n")
    cut.settings = {"api_key_file": str(key)}
    try:
        proven = cut.asked("beside", "--tok-s", "420")
        broken = cut.asked("beside", "--tok-s", "420", "--fault", "crash")
    finally:
        cut.settings = {}
    ended = cut.carry_out(replace(broken, trial=proven.trial))
    assert ended.error is not None
    assert "gate: green" in ended.text
    assert "kpro-tiny.service did not come to generate" in ended.error
    assert "the last good profile is back and generates" in ended.error
    assert (cut.answer(16), cut.good()) == (answer, good)
    assert cut.outcome()["downtime_s"] > 0
    said = cut.inside(
        "sh",
        "-c",
        "journalctl --no-pager -q; cat /proc/[0-9]*/cmdline; cat /run/kpro-cutover/tiny/* 2>/dev/null; true",
    )
    assert "must-not-be-seen" not in said + ended.text


def test_another_key_is_put_into_service_and_until_then_what_runs_is_asked_with_its_own(
    cut: Cut, tmp_path: Path
) -> None:
    key, path = tmp_path / "key", "/var/lib/kpro/baselines/tiny/keyed.json"
    cut.settings = {"api_key_file": str(key)}
    told: list[str] = []
    try:
        key.write_text("first-must-not-be-seen\n")
        ended = cut.over("swap", *FAST)
        assert ended.error is None, ended.text
        key.write_text("second-must-not-be-seen\n")
        asked = cut.asked("swap", *FAST)
        stage(cut.host, asked.desired, Voice("run-1", told.append))
        # Its file has the next key already; what runs has the first.
        for _ in range(2):
            measure(cut.host, Measure(asked.desired, GATE, path, cut.good()), Voice("run-1", told.append))
            done = prove(cut.host, asked.desired)
            assert done.ok, done.stdout
            assert (_says(cut, "first-must-not-be-seen"), _says(cut, "second-must-not-be-seen")) == (200, 401)
        assert json.loads(cut.inside("cat", fresh(path)))["tok_s"] > 300
        words = (*GATE, "--baseline", fresh(path), "--limit", "speed_warn=9", "--limit", "speed_fail=8")
        strict = Measure(asked.desired, words, path, cut.good())
        with pytest.raises(ActFailed, match=r"is not well as it runs \(serve\.\w+ fail") as raised:
            measure(cut.host, strict, Voice("run-1", told.append))
        told.append(str(raised.value))
        assert "the key that it runs with is in /etc/kpro/tiny.env" in told[-1]
        ended = cut.carry_out(asked)
        assert ended.error is None, ended.text
        assert (_says(cut, "first-must-not-be-seen"), _says(cut, "second-must-not-be-seen")) == (401, 200)
        assert prove(cut.host, asked.desired).ok
        # Left by nobody who was killed in between.
        assert cut.inside("sh", "-c", "ls /var/lib/kpro/baselines/tiny/*.fresh", check=False) == ""
    finally:
        cut.settings = {}
        back = cut.over("swap", *FAST)
    assert back.error is None, back.text
    said = cut.inside(
        "sh",
        "-c",
        "journalctl --no-pager -q; cat /proc/[0-9]*/cmdline; cat /var/lib/kpro/baselines/tiny/* 2>/dev/null; "
        "grep -rshI '' /run/kpro* /tmp; true",
    )
    assert "must-not-be-seen" not in "\n".join([said, ended.text, back.text, *told])


def _says(cut: Cut, key: str) -> int:
    """The status of a request with this key."""
    body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 4}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    address = f"http://127.0.0.1:{cut.place.port}/v1/completions"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_request_in_flight_ends_before_what_serves_is_stopped(cut: Cut) -> None:
    with cut.request_in_flight(800) as answers:
        ended = cut.over("swap", "--tok-s", "450", drain_seconds=20)
    assert ended.error is None, ended.text
    assert len(answers[0].split()) == 800
    drained = next(line for line in ended.said if "] drain: no request runs or waits after" in line)
    assert float(drained.rpartition("after ")[2].split()[0]) > 1
