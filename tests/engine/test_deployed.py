"""The real vLLM in a Debian 12 container that kpro deploys: plain, a good drafter, a bad one, n-gram, in this order.

One container for all of it: each test starts from what the one before it left in service.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.engine.conftest import CACHE, say
from tests.engine.deployed import KEY, Deployed, Run, candidate, places_with, profile
from tests.engine.rig import K
from tests.guest.rig import LXC, Container

PLAIN = profile("plain")
GOOD = candidate("draft-model", "good")
BAD = candidate("draft-model", "bad", mode="swap")
NEAR_S = 20.0
"""Seconds that two measures of one downtime may differ by: asked every half second, on busy cores."""
Told = Callable[[str, Run], Run]


@dataclass(frozen=True)
class Change:
    """A cut-over: the run, what the guest remembers of it, the longest time without an answer as a user saw it."""

    run: Run
    outcome: dict[str, Any]
    gap: float


@pytest.fixture(scope="module")
def deployed(engine_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """Nothing yet: the first run makes the container. The machine has one lock for all changing runs."""
    able = subprocess.run(
        [ROOT / "scripts/guest-tier"], capture_output=True, text=True, timeout=60, check=False
    )
    if able.returncode != 0:
        why = able.stdout.strip()
        if os.environ.get("CI") == "true":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    roots = CACHE.parent / "roots"
    roots.mkdir(parents=True, exist_ok=True)
    with (roots / ".chain").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        name = f"kprotest-{os.getpid()}-deployed"
        found = Deployed(tmp_path_factory.mktemp("deployed"), engine_folder, Container(name))
        yield found
        found.remove()


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest) -> Told:
    """Prints what a run took."""

    def tell(what: str, run: Run) -> Run:
        parts = [f"{what}: {run.seconds:.0f} s, exit {run.done.returncode}"]
        acts = {"environment": ("stack.engine",), "cut-over": ("service.cutover", "service.candidate")}
        for words, kinds in acts.items():
            if (seconds := run.took(*kinds)) is not None:
                parts.append(f"{words} {seconds:.0f} s")
        say(request.config, ", ".join(parts))
        return run

    return tell


@pytest.fixture(scope="module")
def plain(deployed: Deployed, told: Told) -> Run:
    return told("plain, from nothing", deployed.apply_with(PLAIN))


def test_plain_from_nothing_serves_real_words_and_keeps_its_baseline(deployed: Deployed, plain: Run) -> None:
    assert plain.done.returncode == 0, plain.text[-4000:]
    assert len(set(deployed.answer().split())) == 8
    kept = deployed.baselines()
    assert {(one["schema"], one["method"]) for one in kept} == {("provcheck-baseline/1", None)}
    assert all(one["tok_s"] > 0 for one in kept)


def test_it_listens_on_the_loopback_that_the_inventory_names_and_runs_as_its_own_user(
    deployed: Deployed, plain: Run
) -> None:
    assert deployed.listeners() == {"127.0.0.1"}
    assert "--speculative-config" not in deployed.command()


def test_a_second_run_changes_nothing(deployed: Deployed, plain: Run) -> None:
    before = deployed.command(), deployed.container.attach("pgrep", "-u", "kpro")
    again = deployed.kpro("apply", "--yes")
    assert again.done.returncode == 0, again.text[-3000:]
    assert not [event for event in again.events if event["event"] == "begin"]
    assert (deployed.command(), deployed.container.attach("pgrep", "-u", "kpro")) == before


def test_a_guest_that_lost_a_library_which_the_engine_links_is_refused_with_the_package_to_install(
    deployed: Deployed, plain: Run
) -> None:
    (library,) = deployed.inside.glob("usr/lib/x86_64-linux-gnu/libnuma.so.1")
    away = library.with_name("libnuma.away")
    library.rename(away)
    try:
        refused = deployed.kpro("plan")
    finally:
        away.rename(library)
    assert refused.done.returncode == 3, refused.text[-3000:]
    assert "the guest has no libnuma.so.1" in refused.text
    assert "apt-get install libnuma1" in refused.text


@pytest.fixture(scope="module")
def change(
    request: pytest.FixtureRequest, deployed: Deployed, told: Told
) -> Callable[[str, str, str], Change]:
    """Applies another inventory while somebody asks for words all the time."""

    def make(what: str, words: str, of: str) -> Change:
        with deployed.watched() as gap:
            run = told(what, deployed.apply_with(words))
        try:
            outcome = deployed.outcome(of)
        except FileNotFoundError:
            pytest.fail(f"{what}: nothing was remembered of it\n{run.text[-4000:]}", pytrace=False)
        say(
            request.config,
            f"{what}: {outcome['mode']}, a start {outcome['start_s']} s, measured in {outcome['measured_s']} s, "
            f"down for {outcome['downtime_s']} s, from outside {gap[0]:.0f} s; forecast: {outcome['forecast']}",
        )
        return Change(run, outcome, gap[0])

    return make


@pytest.fixture(scope="module")
def good(plain: Run, change: Callable[[str, str, str], Change]) -> Change:
    return change("good drafter", PLAIN + GOOD, "candidate")


def test_a_good_drafter_is_accepted_and_is_the_service_from_then_on(deployed: Deployed, good: Change) -> None:
    assert good.run.done.returncode == 0, good.run.text[-4000:]
    assert "kpro--good@" in deployed.command()
    assert len(set(deployed.answer().split())) == 8
    assert (good.outcome["verdict"], good.outcome["mode"]) == ("accepted", "beside")
    assert K + 0.8 < good.outcome["acceptance"] <= K + 1
    again = deployed.kpro("plan")
    assert again.done.returncode == 0, again.text[-3000:]


def test_the_downtime_is_forecast_before_and_measured_as_it_is_seen_from_outside(good: Change) -> None:
    """Tried beside what serves, it costs one start."""
    assert "keeps serving while it is tried" in good.outcome["forecast"]
    assert good.outcome["forecast"] in good.run.text
    assert abs(good.outcome["downtime_s"] - good.gap) < NEAR_S
    assert good.gap < good.run.seconds - good.outcome["start_s"]


@pytest.fixture(scope="module")
def bad(good: Change, change: Callable[[str, str, str], Change]) -> Change:
    return change("bad drafter", PLAIN + BAD, "candidate")


def test_a_bad_drafter_is_red_and_named_and_what_served_before_serves_again(
    deployed: Deployed, bad: Change
) -> None:
    assert bad.run.done.returncode == 1, bad.run.text[-4000:]
    assert "drafter weights" in bad.run.text
    assert (bad.outcome["verdict"], bad.outcome["mode"]) == ("refused", "swap")
    # Before the command ended: the very next question is answered.
    assert len(set(deployed.answer().split())) == 8
    assert "kpro--good@" in deployed.command()
    assert not (deployed.inside / "etc/systemd/system/kpro-chat-candidate.service").exists()


def test_a_refusal_is_remembered_and_the_next_run_tries_nothing(deployed: Deployed, bad: Change) -> None:
    again = deployed.kpro("plan")
    assert again.done.returncode == 0, again.text[-3000:]
    assert "drafter weights" in again.text
    shown = deployed.kpro("status")
    assert "last candidate: refused, swap" in shown.text, shown.text
    # Of plain and of the good drafter, not of the bad one.
    assert {reading["method"] for reading in deployed.baselines()} == {None, "draft_model"}
    assert all(f"{reading['tok_s']:.1f} tok/s" in shown.text for reading in deployed.baselines())


@pytest.fixture(scope="module")
def ngram(bad: Change, change: Callable[[str, str, str], Change]) -> Change:
    return change("ngram", profile("ngram"), "service")


def test_a_changed_profile_of_the_service_itself_goes_the_same_way(deployed: Deployed, ngram: Change) -> None:
    assert ngram.run.done.returncode == 0, ngram.run.text[-4000:]
    assert ngram.outcome["verdict"] == "accepted"
    assert '"method": "ngram"' in deployed.command()
    assert len(set(deployed.answer().split())) == 8


def test_the_key_is_in_no_log_no_journal_and_no_command_line(deployed: Deployed, ngram: Change) -> None:
    assert KEY not in deployed.container.attach("sh", "-c", "cat /proc/[0-9]*/cmdline")
    assert KEY not in deployed.container.attach("journalctl", "--no-pager", "-q")
    holding = places_with(KEY, deployed.inside, deployed.folder, Path("/var/lib/kpro"))
    private = [Path(path) for path in holding if path != str(deployed.folder / "key")]
    assert private, "its environment file must hold it"
    # Readable by root alone, or by the service's own user.
    assert not [path for path in private if path.stat().st_mode & 0o077]
    assert not [path for path in private if "etc/kpro" not in str(path) and "var/lib/kpro" not in str(path)]


def test_removed_nothing_of_it_is_left_on_the_machine(deployed: Deployed, ngram: Change) -> None:
    name = deployed.container.name
    deployed.remove()
    assert not [path for path in LXC.iterdir() if name in path.name]
    assert name not in Path("/proc/self/mountinfo").read_text()
    assert not [path for path in Path("/sys/fs/cgroup").rglob("*") if name in path.name]
    assert not deployed.models.exists()
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.exists()]
    ours = (name.encode(), str(deployed.folder).encode())
    assert not [command for command in commands if any(word in command for word in ours)]
