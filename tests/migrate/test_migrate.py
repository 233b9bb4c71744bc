"""A service moves from host to host while clients ask, and back: real hosts, the real programs, Debian's HAProxy."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.migrate.front import Client, Front, Window, client, failed_outside, front, wrong
from tests.migrate.place import KEY, PORT, Place
from tests.migrate.rig import Pair


@pytest.fixture(scope="module")
def proxy(pair: Pair) -> Iterator[Front]:
    with front(pair, PORT) as found:
        yield found


@pytest.fixture
def place(pair: Pair, proxy: Front, tmp_path: Path) -> Place:
    """The service serves on a, behind the proxy; b knows nothing of it."""
    found = Place(tmp_path, pair)
    found.write(migration=f"Migration(watch_seconds=5, traffic={proxy.spec})")
    proxy.reset()
    found.serve_on_a()
    return found


def right_answers(asking: Client) -> dict[str, str]:
    """What each question is answered before anything moves."""
    asking.wait_for_answers(30)
    return {one["prompt"]: one["text"] for one in asking.answers() if one["status"] == 200}


def window(place: Place, answers: list[dict[str, object]], *, to: str) -> Window:
    """From the journal's start of the drain to the first answer of the server that requests go to afterwards."""
    drained = [e for e in place.events() if e.get("step") == "drain" and e["state"] == "begin"]
    opened = datetime.fromisoformat(drained[-1]["at"]).timestamp()
    after = [one["ended"] for one in answers if one["status"] == 200 and one["served"] == to]
    return Window(opened, min(after))


def test_a_service_moves_and_no_request_fails_outside_the_cut_over(
    place: Place, pair: Pair, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with client(pair, tmp_path, KEY) as asking:
        right = right_answers(asking)
        done = place.migrate("--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        asking.wait_for_answers(len(asking.answers()) + 30)
        answers = asking.stop()
    found = window(place, answers, to="two")
    record_property("downtime_s", round(found.seconds, 2))
    sys.stdout.write(f"\ndowntime {found.seconds:.2f} s, {len(answers)} requests\n")
    assert failed_outside(answers, found) == []
    assert wrong(answers, right) == []
    assert place.answer(pair.b)
    assert not place.answer(pair.a)
    _the_source_never_starts_again(place, pair)
    _nothing_secret_was_told(place, done)
    _and_back(place, pair, tmp_path, right)


def _the_source_never_starts_again(place: Place, pair: Pair) -> None:
    run = next(e["run"] for e in place.events() if e.get("step") == "stop")
    refused = place.apply(host="a")
    assert refused.returncode == 3
    assert run in refused.stderr
    second = place.migrate("--yes")
    assert second.returncode == 4
    assert run in second.stderr
    pair.a.inside("systemctl start kpro-tiny.service", check=False)
    assert not place.answer(pair.a)
    assert "in sync" in place.provision("plan", str(place.folder / "b.py")).stderr


def _nothing_secret_was_told(place: Place, done: object) -> None:
    assert KEY not in f"{done.stdout}{done.stderr}"  # type: ignore[attr-defined]
    for path in place.runs().rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def _and_back(place: Place, pair: Pair, tmp_path: Path, right: dict[str, str]) -> None:
    with client(pair, tmp_path, KEY) as asking:
        asking.wait_for_answers(10)
        done = place.migrate("--rollback", "--yes", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["state"] == "rolled_back"
        asking.wait_for_answers(len(asking.answers()) + 10)
        answers = asking.stop()
    assert wrong(answers, right) == []
    assert place.answer(pair.a)
    assert not place.answer(pair.b)
    assert place.left_behind() == []


def test_what_the_source_writes_until_it_stops_arrives_and_the_source_is_given_up(
    pair: Pair, tmp_path: Path
) -> None:
    place = Place(tmp_path, pair)
    place.start_over()
    for host in (pair.a, pair.b):
        host.sh("mkdir -p /srv/data")
    pair.a.sh("mkdir -p /srv/data/adapters; echo before >/srv/data/adapters/list")
    extra = "ExtraPath(path='/srv/data/adapters', why='uploads')"
    place.write(migration=f"Migration(watch_seconds=5, extra_paths=({extra},))", mounts=("/srv/data",))
    place.serve_on_a()
    running = place.start_migrate("--yes")
    log = place.folder / "migrate.log"
    place.wait_for(lambda e: (e.get("step"), e.get("state")) == ("warm", "done"), running, 1)
    pair.a.inside("echo after >/srv/data/adapters/list")
    assert running.wait(300) == 0, log.read_text()[-3000:]
    assert pair.b.inside("cat /srv/data/adapters/list").strip() == "after"
    assert place.answer(pair.b)
    assert not place.answer(pair.a)
    done = place.migrate("--finalize", "--remove-models", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert pair.a.inside("ls /etc/systemd/system/kpro-tiny.service* /etc/kpro/tiny.* 2>/dev/null; :") == ""
    assert pair.a.sh("ls -d /srv/models/*@* 2>/dev/null; :") == ""
    assert place.answer(pair.b)
    refused = place.apply(host="a")
    assert (refused.returncode, "for good" in refused.stderr) == (3, True)
    _one_reason_each_way(place)
    _and_it_moves_back_like_any_other(place, pair)
    place.start_over()


def _reasons(place: Place, *words: str) -> list[dict[str, str]]:
    done = place.provision("migrate", *words, "--dry-run", "--json")
    found: list[dict[str, str]] = json.loads(done.stdout)["refusals"]
    assert done.returncode == (3 if found else 0), done.stderr
    return found


def _one_reason_each_way(place: Place) -> None:
    a, b = str(place.folder / "a.py"), str(place.folder / "b.py")
    (gone,) = _reasons(place, a, b)
    assert "tiny was moved to b for good (run " in gone["seen"]
    assert f"to move it back, provision migrate {b} {a}" in gone["next"]
    began = place.migrate("--yes", "--json")
    assert (began.returncode, json.loads(began.stdout)["refusals"][0]["seen"]) == (3, gone["seen"])
    assert "for good" in place.apply(host="a").stderr, "the state file is there again"
    assert _reasons(place, b, a) == []


def _and_it_moves_back_like_any_other(place: Place, pair: Pair) -> None:
    a, b = str(place.folder / "a.py"), str(place.folder / "b.py")
    pair.b.sh("echo on b >/srv/data/adapters/list")
    ends = place.provision("rollback", b, "--json").stdout
    assert "tiny serves in container kpro-llm, and ends with it: it was moved here from a for good" in ends
    done = place.provision("migrate", b, a, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert place.answer(pair.a)
    assert not place.answer(pair.b)
    assert pair.a.inside("cat /srv/data/adapters/list").strip() == "on b"
    (swapped,) = _reasons(place, a, b)
    assert f"provision migrate {b} {a} --rollback brings it back to b" in swapped["next"]
    (same,) = _reasons(place, b, a)
    assert f"provision migrate {b} {a} --finalize, or --rollback" in same["next"]
    done = place.provision("migrate", b, a, "--finalize", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert place.answer(pair.a)
    assert place.apply(host="b").returncode == 3
    assert "in sync" in place.provision("plan", a).stderr
