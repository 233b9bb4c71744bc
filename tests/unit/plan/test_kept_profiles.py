"""What a cut-over keeps of the profiles that served, run by a real shell in a folder of its own; and which verdicts
outlive a refusal."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from provision.acts.cutover import script
from provision.stack import trials
from provision.stack.cutover import Cutover, TakenBack
from provision.stack.desired import DesiredService
from provision.stack.forecast import figures
from provision.stack.held import Held
from provision.stack.standing import standing
from provision.stack.trials import Trial

OLD, SERVES, TRIED = "a" * 64, "b" * 64, "c" * 64


class Guest:
    """Its folders; the functions of a cut-over are called in it one by one."""

    def __init__(self, root: Path, desired: DesiredService) -> None:
        self.root = root
        for folder in ("etc/systemd/system", "etc/kpro", "var/lib/kpro/good", "run/kpro-cutover/tiny"):
            (root / folder).mkdir(parents=True)
        text = script(Cutover(replace(desired, digest=TRIED), None, "swap"))
        for folder in ("/var/lib/kpro", "/etc/systemd", "/etc/kpro", "/run/kpro-cutover"):
            text = text.replace(folder, f"{root}{folder}")
        assert text.endswith("\nmain\n")
        self.functions = text.removesuffix("main\n")

    def serves(self, digest: str) -> None:
        self.write("etc/systemd/system/kpro-tiny.service", unit(digest))
        self.write("etc/kpro/tiny.env", f'KEY="{digest}"\n')
        self.write("var/lib/kpro/good/tiny", f"{digest}\n")
        self.write("var/lib/kpro/good/tiny.url", f"http://{digest}\n")

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)

    def call(self, words: str) -> int:
        done = subprocess.run(["sh", "-c", f"{self.functions}\n{words}"], check=False, capture_output=True)
        return done.returncode

    def kept(self, folder: str) -> tuple[str, ...]:
        """Whose unit, environment file and address it is; nothing where there is no unit."""
        where = self.root / "var/lib/kpro" / folder / "tiny"
        if not (where / "unit").exists():
            return ()
        texts = [(where / part).read_text() for part in ("unit", "env", "url")]
        return tuple(next(one for one in (OLD, SERVES, TRIED) if one in text) for text in texts)


def unit(digest: str, program: str = "/opt/kpro/envs/x-1/bin/x") -> str:
    return f"[Service]\nEnvironment=KPRO_DIGEST={digest}\nExecStart={program} --port 1\n"


@pytest.fixture
def guest(tmp_path: Path, desired: DesiredService) -> Guest:
    """A service that another profile gave way to, by the last cut-over."""
    made = Guest(tmp_path, desired)
    made.serves(OLD)
    assert made.call(f"was={OLD}; keep_what_serves") == 0
    made.serves(SERVES)
    return made


def test_what_served_before_is_still_kept_after_a_trial_that_was_refused(guest: Guest) -> None:
    for _ in range(2):
        assert guest.call(f"was={SERVES}; keep_what_serves") == 0
        assert (guest.kept("last-good"), guest.kept("before")) == ((SERVES,) * 3, (OLD,) * 3)
    assert {path.stat().st_mode & 0o777 for path in guest.root.rglob("before/tiny/env")} == {0o600}


def test_once_another_profile_serves_what_served_before_that_is_not_kept_any_longer(guest: Guest) -> None:
    assert guest.call(f"was={SERVES}; keep_what_serves") == 0
    accepted = "remember() { :; }; close() { :; }; finish() { :; }; accepted"
    # The very same profile was started again: nothing has changed.
    assert guest.call(f"digest={SERVES}; {accepted}") == 0
    assert guest.kept("before") == (OLD,) * 3
    assert guest.call(accepted) == 0
    assert (guest.kept("last-good"), guest.kept("before")) == ((SERVES,) * 3, ())


@pytest.mark.parametrize("at", range(1, 7))
def test_cut_off_at_any_file_nothing_that_is_kept_is_mixed(guest: Guest, at: int) -> None:
    """The power fails at the n-th file: the next one does it again, and what has a unit is whole at any time."""
    cut = f'n=0; mv() {{ n=$((n + 1)); [ $n != {at} ] || exit 9; command mv "$@"; }}'
    assert guest.call(f"{cut}; was={SERVES}; keep_what_serves") == 9
    for folder in ("last-good", "before"):
        assert len(set(guest.kept(folder))) <= 1
    assert OLD in {*guest.kept("last-good"), *guest.kept("before")}
    assert guest.call(f"was={SERVES}; keep_what_serves") == 0
    assert (guest.kept("last-good"), guest.kept("before")) == ((SERVES,) * 3, (OLD,) * 3)


def test_the_advice_names_the_environment_of_the_profile_that_is_started(
    guest: Guest, desired: DesiredService
) -> None:
    for program in ("/opt/kpro/envs/vllm-1-abc/bin/vllm", '"/opt/kpro/envs/vllm-1-abc/bin/a b"'):
        guest.write("unit", unit(OLD, program))
        asked = f'[ "$(environment_of {guest.root}/unit)" = /opt/kpro/envs/vllm-1-abc ]'
        assert guest.call(asked) == 0
    own, other = (script(Cutover(one, None, "again")) for one in (desired, standing(desired, SERVES)))
    assert "in the guest and run again" in own
    assert "the inventory does not have this" not in own
    assert "the inventory does not have this" in other
    assert desired.engine.path not in own + other


def test_an_accepted_verdict_outlives_the_refusal_after_it_and_so_does_the_forecast(
    desired: DesiredService,
) -> None:
    asked = Cutover(desired, desired.trial, "swap")
    own, keep = trials.service_path("tiny"), trials.service_accepted_path("tiny")
    assert f"{own} --keep {keep} --told" in script(asked)
    refused = Trial(TRIED, "refused", start_s=9.0)
    accepted = Trial(SERVES, "accepted", start_s=31.0, measured_s=60.0)
    held = Held(good=SERVES, last=refused, before=accepted)
    found = figures("d" * 64, held)
    assert (found.start, found.measured) == (31.0, 60.0)
    assert figures("d" * 64, replace(held, before=None, back=accepted)).start == 31.0
    assert figures("d" * 64, replace(held, before=None)).start is None


def test_the_guest_itself_remembers_what_was_taken_back_and_its_own_verdict_overwrites_none(
    desired: DesiredService,
) -> None:
    was = TakenBack(Trial(SERVES, "refused", why="by hand"), "/t/tiny.json", "/t/tiny.accepted.json")
    text = script(Cutover(desired, None, "swap", back=True, taken_back=was))
    (line,) = [line for line in text.splitlines() if "taken-back.json" in line]
    assert "_outcome /t/tiny.json --keep /t/tiny.accepted.json" in line
    assert "--verdict refused" in line
    assert trials.back_path("tiny") in text
    assert trials.service_path("tiny") not in text
    assert "taken-back" not in script(Cutover(desired, None, "swap"))
