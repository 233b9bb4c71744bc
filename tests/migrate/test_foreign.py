"""HAProxy's server of the target leads to another program: no client is ever led there, and the source serves on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.migrate.front import Front, client, front
from tests.migrate.place import KEY, PORT, Place
from tests.migrate.rig import Pair

OWN = 8001
"""The port of the target's service; HAProxy's server leads to another one."""

FOREIGN = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Foreign(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404); self.end_headers()
    def do_POST(self):
        self.send_response(501); self.end_headers()
ThreadingHTTPServer(("0.0.0.0", %d), Foreign).serve_forever()
"""


@pytest.fixture(scope="module")
def proxy(pair: Pair) -> Iterator[Front]:
    with front(pair, PORT) as found:
        yield found


@pytest.fixture
def place(pair: Pair, proxy: Front, tmp_path: Path) -> Iterator[Place]:
    """The service serves on a; the target's inventory says another port than HAProxy's server has."""
    found = Place(tmp_path, pair)
    migration = f"Migration(watch_seconds=5, traffic={proxy.spec})"
    found.write(migration=migration)
    found.write(pair.b, migration=migration, port=OWN)
    proxy.reset()
    found.serve_on_a()
    yield found
    pair.b.sh("systemctl stop foreign", check=False)
    found.start_over()


def foreign(pair: Pair) -> None:
    pair.b.sh(
        "cat >/srv/foreign.py; systemd-run --quiet --collect --unit=foreign python3 /srv/foreign.py; "
        f"for n in $(seq 50); do curl -sf http://127.0.0.1:{PORT}/health && break; sleep 0.1; done",
        stdin=(FOREIGN % PORT).encode(),
    )


def test_a_foreign_server_at_the_target_s_address_gets_no_client(
    place: Place, proxy: Front, pair: Pair, tmp_path: Path
) -> None:
    told = place.migrate("--dry-run")
    said = told.stdout + told.stderr
    assert told.returncode == 0, said
    assert (
        f"server two ({pair.b.address}:{PORT}) of backend llm: the service's own port on b is {OWN}" in said
    )
    with client(pair, tmp_path, KEY) as asking:
        asking.wait_for_answers(10)
        running = place.start_migrate("--yes")
        place.wait_for(lambda e: (e.get("step"), e.get("state")) == ("copy", "done"), running, 1)
        foreign(pair)
        assert running.wait(300) == 1
        log = (place.folder / "migrate.log").read_text()
        assert "FAILED at warm; a serves as before" in log, log[-3000:]
        assert "is not tiny on b: it answers 501" in log, log[-3000:]
        assert not [e for e in place.events() if e.get("step") in ("drain", "switch")]
        assert place.migrate("--rollback", "--yes").returncode == 0
        refused = place.migrate("--dry-run")
        asking.wait_for_answers(len(asking.answers()) + 10)
        answers = asking.stop()
    assert {(one["status"], one["served"]) for one in answers} == {(200, "one")}
    said = refused.stdout + refused.stderr
    assert refused.returncode == 3, said
    assert "it answers 404, and tiny does not run there yet" in said
    assert KEY not in log + said
    assert place.answer(pair.a)
    assert place.left_behind() == []
