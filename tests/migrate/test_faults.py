"""One fault of each kind, on the real hosts: after ``--resume`` or a way back one host answers, and nothing is left.

All cells against the model: tests/unit/migrate. Here each kind once, at a phase where it hurts.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.migrate.copies import flip
from tests.migrate.front import Front, front
from tests.migrate.place import PORT, Place
from tests.migrate.rig import Host, Pair

MOVED, BACK = "moved", "back"


@pytest.fixture(scope="module")
def proxy(pair: Pair) -> Iterator[Front]:
    with front(pair, PORT) as found:
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operator")


@pytest.fixture
def place(
    pair: Pair, proxy: Front, home: Path, own_home: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """The service serves on a, behind the proxy; b has nothing of it but its container, from the second test on."""
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    found = Place(home, pair)
    usual(found, proxy)
    proxy.reset()
    if not found.answer(pair.a):
        found.serve_on_a()
    yield found
    proxy.reset()


def usual(place: Place, proxy: Front) -> None:
    place.write(migration=f"Migration(watch_seconds=5, traffic={proxy.spec})")


def cut_at(place: Place, step: str, state: str, *words: str) -> subprocess.Popen[str]:
    """A migration in the background that has come to this event."""
    seen = sum(1 for event in place.events() if _is(event, step, state))
    running = place.start_migrate("--yes", *words)
    log = place.folder / "migrate.log"
    until = time.monotonic() + 240
    while sum(1 for event in place.events() if _is(event, step, state)) <= seen:
        assert running.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < until, log.read_text()[-3000:]
        time.sleep(0.02)
    return running


def _is(event: dict[str, object], step: str, state: str) -> bool:
    return (event.get("event"), event.get("step"), event.get("state")) == ("step", step, state)


def ended(place: Place, running: subprocess.Popen[str]) -> tuple[int, str]:
    return running.wait(400), (place.folder / "migrate.log").read_text()


def the_service_is_where_it_was(place: Place) -> None:
    """Exactly a answers, and nothing of a migration is left on either host."""
    assert place.answer(place.pair.a)
    assert not place.answer(place.pair.b)
    assert place.left_behind() == []


def back(place: Place, *words: str) -> None:
    done = place.migrate("--rollback", "--yes", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    the_service_is_where_it_was(place)


def test_a_killed_controller_is_followed_by_another_that_goes_on(place: Place, pair: Pair) -> None:
    running = cut_at(place, "copy", "begin")
    place.kill(running)
    assert place.answer(pair.a)
    other = place.migrate("--yes")
    assert other.returncode == 4, other.stderr
    done = place.migrate("--resume", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert place.answer(pair.b)
    assert not place.answer(pair.a)
    back(place)


@contextmanager
def another_controller(place: Place) -> Iterator[None]:
    """It has both inventories and the keys to the hosts; of wheels, model and API key it has nothing."""
    away = {path: path.with_name(f"{path.name}.away") for path in (place.files, place.key)}
    for path, there in away.items():
        path.rename(there)
    try:
        yield
    finally:
        for path, there in away.items():
            there.rename(path)


def test_ctrl_c_in_the_cut_over_brings_the_source_back_and_a_kill_leaves_a_way_back_to_another_controller(
    place: Place, pair: Pair
) -> None:
    running = cut_at(place, "drain", "done")
    running.send_signal(signal.SIGINT)
    code, said = ended(place, running)
    assert code == 130, said
    assert "--resume" in said
    assert place.answer(pair.a)
    again = cut_at(place, "drain", "done", "--resume")
    place.kill(again)
    with another_controller(place):
        refused = place.migrate("--resume", "--yes")
        assert refused.returncode == 2, refused.stderr
        for field in ("engine.wheelhouse", "model.folder", "api_key_file"):
            assert sum(f".{field}: " in line for line in refused.stderr.splitlines()) == 1, refused.stderr
        assert "the step configure needs it" in refused.stderr
        back(place)
    rolled = [event for event in place.events() if event.get("step") == "lock"]
    assert rolled[-1]["state"] == "undone"


def test_sigterm_in_the_cut_over_brings_the_source_back_and_ctrl_c_on_top_of_it_waits_for_that(
    place: Place, pair: Pair
) -> None:
    running = cut_at(place, "drain", "done")
    running.send_signal(signal.SIGTERM)
    time.sleep(0.4)
    if running.poll() is None:
        running.send_signal(signal.SIGINT)
    code, said = ended(place, running)
    assert code == 143, said
    assert place.answer(pair.a), said
    assert "NOBODY ANSWERS" not in said
    assert "--resume, or --rollback" in said
    assert "run again" not in said
    back(place)


def test_a_cable_that_is_pulled_before_the_drain_leaves_the_source_serving(place: Place, pair: Pair) -> None:
    running = cut_at(place, "warm", "begin")
    pair.b.cut()
    try:
        code, said = ended(place, running)
        assert code == 1, said
        assert place.answer(pair.a)
    finally:
        pair.b.mend()
    back(place)


def test_a_source_that_dies_comes_back_serving_and_the_target_is_cleaned(place: Place, pair: Pair) -> None:
    running = cut_at(place, "warm", "begin")
    pair.a.kill()
    code, said = ended(place, running)
    assert code == 1, said
    pair.a.start()
    _until_it_answers(place, pair.a)
    back(place)


def test_a_target_that_dies_in_the_cut_over_gives_the_requests_back_at_once(place: Place, pair: Pair) -> None:
    running = cut_at(place, "verify", "begin")
    pair.b.kill()
    code, said = ended(place, running)
    assert code == 1, said
    assert place.answer(pair.a), said
    pair.b.start()
    _until_it_runs(pair.b)
    back(place)


def test_a_full_disk_of_the_target_costs_nothing_but_the_try(place: Place, pair: Pair) -> None:
    running = cut_at(place, "copy", "begin")
    pair.b.fill_disk()
    code, said = ended(place, running)
    pair.b.free_disk()
    assert code == 1, said
    assert place.answer(pair.a)
    back(place)


def test_a_shard_that_rots_after_the_copy_is_never_served(place: Place, pair: Pair) -> None:
    running = cut_at(place, "speed", "begin")
    pair.b.sh(f"f=$(ls /srv/models/*@*/*.safetensors | head -n 1); {flip('$f', 9)}")
    code, said = ended(place, running)
    assert code == 1, said
    assert ".safetensors" in said
    the_service_is_where_it_was(place)


def test_a_red_gate_of_the_target_ends_before_the_drain(place: Place, pair: Pair, proxy: Front) -> None:
    place.write(
        pair.b,
        migration=f"Migration(watch_seconds=5, traffic={proxy.spec})",
        thresholds={"speed_fail": 90.0, "speed_warn": 91.0},
    )
    done = place.migrate("--yes")
    assert done.returncode in (1, 3), done.stdout + done.stderr
    assert place.answer(pair.a)
    if done.returncode == 1:
        assert "FAILED at speed" in done.stderr or "FAILED at warm" in done.stderr
        back(place)


_HOOK = """\
import socket, sys
def say(text):
    s = socket.socket(socket.AF_UNIX); s.connect({socket!r}); s.sendall(text.encode() + b"\\n")
    found = b""
    while data := s.recv(65536): found += data
    return found.decode()
verb = sys.argv[1]
if verb == "switch": sys.exit("the balancer does not answer")
if verb == "drain": say("set server llm/one state drain"); say("set server llm/two state maint")
if verb == "back": say("set server llm/one state ready"); say("set server llm/two state maint")
rows = [row.split(",") for row in say("show stat").splitlines() if row.startswith("llm,one,")]
print("source" if rows[0][17].startswith("UP") else "nobody")
"""


def test_a_switch_hook_that_fails_is_taken_back_by_itself(place: Place, pair: Pair, proxy: Front) -> None:
    hook = place.folder / "hook.py"
    hook.write_text(_HOOK.format(socket=str(proxy.socket)))
    words = ", ".join(
        f"{verb}=({sys.executable!r}, {str(hook)!r}, {verb!r})"
        for verb in ("drain", "switch", "back", "check")
    )
    place.write(migration=f"Migration(watch_seconds=5, traffic=Hooks({words}))")
    done = place.migrate("--yes")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED at switch" in done.stderr
    assert "the balancer does not answer" in done.stderr
    the_service_is_where_it_was(place)


def test_a_dead_source_is_replaced_from_a_backup_of_its_models(
    place: Place, pair: Pair, proxy: Front
) -> None:
    refused = place.migrate("--cold", "--yes")
    assert refused.returncode == 3, refused.stderr
    # Without its sshd it serves on: also the operator's word does not make that a dead one.
    pair.a.sh("systemctl stop ssh.socket ssh.service 2>/dev/null; :")
    refused = place.migrate("--cold", "--source-is-off", "--yes")
    said = refused.stdout + refused.stderr
    assert refused.returncode == 3, said
    for what in ("SSH at", "answers this controller", "answers b", "HAProxy does not see it dead"):
        assert what in said
    assert place.answer(pair.a)
    assert place.left_behind() == []
    models = pair.a.sh("cd /srv/models && tar -cf - *@* | base64 -w0", timeout=60)
    pair.b.sh("mkdir -p /mnt/backup && base64 -d | tar -xf - -C /mnt/backup", stdin=models.encode())
    pair.a.kill()
    _until_down(proxy, "one")
    done = place.migrate("--cold", "--models-from", "/mnt/backup", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert place.answer(pair.b)
    assert "asked, and nothing answered" in done.stderr
    done = place.migrate("--finalize", "--cold", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    pair.a.start()
    place.start_over()


def _until_it_answers(place: Place, host: Host, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not place.answer(host):
        assert time.monotonic() < until, f"{host.name} does not answer"
        time.sleep(0.5)


def _until_down(proxy: Front, server: str, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not any(
        row.startswith(f"llm,{server},") and ",DOWN," in row for row in proxy.ask("show stat").splitlines()
    ):
        assert time.monotonic() < until, f"HAProxy does not see {server} down"
        time.sleep(0.2)


def _until_it_runs(host: Host, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while host.inside("systemctl is-system-running", check=False).strip() not in ("running", "degraded"):
        assert time.monotonic() < until, f"the guest of {host.name} does not run"
        time.sleep(0.5)
