"""A candidate on a real container, by the whole chain: accepted it is the service and stays, slower it is refused and
remembered, changed it is tried again; what serves is never worsened."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.guest.place import Place
from tests.guest.rig import Container, eventually

pytestmark = pytest.mark.usefixtures("one_operator")
OWN = ("--tok-s", "150")


class Tried(Place):
    """A place whose service has a candidate: the same engine at another pace."""

    def put(
        self, *flags: str, own: tuple[str, ...] = OWN, service: dict[str, Any] | None = None, **more: Any
    ) -> None:
        self.write(flags=own, **(service or {}))
        if not flags:
            return
        text = self.inventory.read_text()
        engine = text.split("engine=Engine(", 1)[1].split("),\n", 1)[0]
        rest = "".join(f", {name}={value!r}" for name, value in more.items())
        asked = f"candidate=Candidate(engine=Engine({engine}), profile='plain', flags={list(flags)!r}{rest}),"
        text = text.replace("import Engine", "import Candidate, Engine").replace(
            "ready_seconds", f"{asked} ready_seconds"
        )
        self.inventory.write_text(text)

    def provision(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Another run on this machine (exit 4) is waited for: what is told apart here is 0 and 1."""
        until = time.monotonic() + 180
        while (
            done := super().provision(*words, timeout=timeout)
        ).returncode == 4 and time.monotonic() < until:
            time.sleep(3)
        return done

    def status(self) -> dict[str, Any]:
        done = self.provision("status", str(self.inventory), "--json")
        assert done.returncode == 0, done.stderr
        service: dict[str, Any] = json.loads(done.stdout)["machines"][0]["guests"][0]["services"][0]
        return service

    def trials(self) -> list[dict[str, Any]]:
        return [event for event in self.events() if event["event"] == "trial"]


@pytest.fixture(scope="module")
def place(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    """Nothing is there yet."""
    made = Tried(tmp_path_factory.mktemp("place"), Container(f"kprotest-{os.getpid()}-cand"))
    made.put("--tok-s", "400")
    try:
        yield made
    finally:
        made.remove()


def test_an_accepted_candidate_is_the_service_and_a_second_run_does_nothing(place: Tried) -> None:
    """From nothing, in one run."""
    kinds = [item["kind"] for item in place.plan()["machines"][0]["items"]]
    assert kinds[-1] == "service.candidate"
    assert "service.cutover" in kinds
    done = place.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    own, candidate = place.trials()[-2:]
    assert (own["candidate"], candidate["candidate"]) == (False, True)
    assert candidate["verdict"] == "accepted"
    assert candidate["mode"] == "beside"
    assert candidate["downtime_s"] < 30
    assert place.answer().strip()
    status = place.status()
    assert status["runs"] == "candidate"
    assert status["verdict"]["verdict"] == "accepted"
    assert len(status["baselines"]) >= 3
    pid = place.main_pid()
    assert place.plan()["exit"] == 0
    assert place.apply().returncode == 0
    assert place.main_pid() == pid


def test_a_slower_candidate_is_refused_remembered_and_not_tried_again(place: Tried) -> None:
    pid = place.main_pid()
    # Not slow, and not better by more than readings differ.
    place.put("--tok-s", "380")
    shown = place.plan()
    (item,) = [item for item in shown["machines"][0]["items"] if item["kind"] == "service.candidate"]
    assert "keeps serving while it is tried" in item["text"]
    assert item["details"]["held_to"]["beats"] == 1.1
    done = place.apply()
    assert done.returncode == 1, done.stderr[-5000:]
    assert "was refused, and tiny goes on without it" in done.stderr
    assert "not better than what serves" in done.stderr
    assert "1 candidate(s) refused, the reasons are above" in done.stderr
    assert "executed 0 commands" not in done.stderr
    assert "FAILED" not in done.stderr, done.stderr[-3000:]
    assert "tiny answered at" in done.stderr
    assert place.main_pid() == pid
    again = place.plan()
    assert again["exit"] == 0
    assert any("rm /var/lib/kpro/trials/tiny.json" in note for note in again["machines"][0]["notes"])
    assert place.apply().returncode == 0
    assert place.main_pid() == pid
    status = place.status()
    assert (status["runs"], status["verdict"]["verdict"]) == ("earlier candidate", "refused")
    table = place.provision("status", str(place.inventory)).stdout
    assert "last candidate: refused" in table
    assert "baseline " in table
    shown_run = place.provision("runs", place.trials()[-1]["run"]).stdout
    assert "forecast" in shown_run
    assert "measured" in shown_run


def test_a_candidate_that_changed_is_tried_again(place: Tried) -> None:
    place.put("--tok-s", "900")
    done = place.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert place.trials()[-1]["verdict"] == "accepted"
    assert place.status()["runs"] == "candidate"


def test_an_accepted_candidate_that_was_stopped_is_started_again_and_the_next_held_against_it(
    place: Tried,
) -> None:
    """Also when nobody can read any more what was seen well last."""
    place.container.attach("sh", "-c", "systemctl stop kpro-tiny && echo cut >/var/lib/kpro/good/tiny")
    place.put("--tok-s", "300")
    done = place.apply()
    assert done.returncode == 1, done.stderr[-5000:]
    assert "was refused, and tiny goes on without it" in done.stderr
    assert place.answer().strip()
    status = place.status()
    assert (status["runs"], status["seen_well"]) == ("earlier candidate", True)


def test_a_change_of_the_service_reaches_its_accepted_candidate(place: Tried) -> None:
    place.put("--tok-s", "900", service={"environment": {"KPRO_TEST": "new"}})
    done = place.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert not place.trials()[-1]["candidate"]
    assert "KPRO_TEST" in place.container.attach("cat", "/etc/kpro/tiny.env")
    assert place.status()["runs"] == "candidate"
    assert place.plan()["exit"] == 0


def test_without_a_candidate_the_own_profile_is_back_held_against_itself(place: Tried) -> None:
    place.put()
    done = place.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert place.status()["runs"] == "own profile"
    assert place.answer().strip()
    assert place.plan()["exit"] == 0


def test_a_candidate_that_was_accepted_is_taken_back_and_not_put_into_service_again(place: Tried) -> None:
    place.put("--tok-s", "700")
    assert place.apply().returncode == 0
    assert place.status()["runs"] == "candidate"
    back = place.provision("rollback", str(place.inventory), "--service", "tiny", "--yes")
    assert back.returncode == 0, back.stderr[-5000:]
    assert place.answer().strip()
    assert place.status()["runs"] == "own profile"
    again = place.plan()
    assert again["exit"] == 0
    assert any("taken back by hand" in note for note in again["machines"][0]["notes"])
    twice = place.provision("rollback", str(place.inventory), "--service", "tiny", "--yes")
    assert twice.returncode == 0, twice.stderr[-3000:]


def test_after_a_refused_trial_the_way_back_is_still_there_and_what_is_taken_back_stays_out(
    place: Tried,
) -> None:
    """A changed profile of the service itself is accepted, then a candidate is refused, then somebody goes back."""
    changed = {"environment": {"KPRO_TEST": "changed"}}
    place.put(service=changed)
    done = place.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    place.put("--tok-s", "100", service=changed)
    assert place.apply().returncode == 1
    assert place.status()["runs"] == "own profile"
    back = place.provision("rollback", str(place.inventory), "--service", "tiny", "--yes")
    assert back.returncode == 0, back.stderr[-5000:]
    assert "No run puts what was taken back into service again" in back.stderr
    assert place.answer().strip()
    assert "KPRO_TEST" not in place.container.attach("cat", "/etc/kpro/tiny.env")
    assert place.status()["runs"] == "another profile"
    pid = place.main_pid()
    # What the inventory says was refused, so it is not in force: that is no "in sync".
    shown = place.plan()
    assert shown["exit"] == 3
    assert any("taken back by hand" in note for note in shown["machines"][0]["notes"])
    assert place.apply().returncode == 3
    assert place.main_pid() == pid
    twice = place.provision("rollback", str(place.inventory), "--service", "tiny", "--yes")
    assert twice.returncode == 0
    assert "nothing to put back" in twice.stderr
    assert place.main_pid() == pid
    # Without the change in the inventory it is the service, as it stands; what is staged is that again.
    place.put()
    done = place.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert place.main_pid() == pid
    assert place.status()["runs"] == "own profile"
    assert place.plan()["exit"] == 0


def test_a_candidate_that_was_accepted_while_nobody_looked_is_told_and_its_reading_kept(place: Tried) -> None:
    """The controller is killed as soon as the guest is at it; the next run begins when all is over."""
    place.put("--tok-s", "1400")
    begun = sum(map(_is_trial, place.events()))
    process = place.start_apply()
    assert place.wait_for(_is_trial, process, begun + 1)
    run = [event for event in place.events() if _is_trial(event)][-1]["run"]
    phase = place.container.rootfs / "var/lib/kpro/cutover/tiny/phase"
    eventually(phase.exists, "the guest is at it", 60)
    place.kill(process)
    eventually(lambda: (place.status()["verdict"] or {}).get("run") == run, "a verdict of that run", 120)
    eventually(lambda: place.status()["cut_over"] is None, "no cut-over is at work", 60)
    held = len(place.status()["baselines"])
    done = place.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert f"that run {run} began has ended: the candidate was accepted (beside" in done.stderr
    assert "baseline of tiny kept in " in done.stderr
    status = place.status()
    assert status["runs"] == "candidate"
    assert len(status["baselines"]) > held
    assert any((one["run"], one["profile"]) == (run, status["digest"]) for one in status["baselines"])
    again = place.apply()
    assert again.returncode == 0
    assert "has ended" not in again.stderr


def _is_trial(event: dict[str, Any]) -> bool:
    return (event["event"], event.get("kind")) == ("begin", "service.candidate")
