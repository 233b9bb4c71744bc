"""Another API key for a service that runs, on a real container: from then on the new one works, the old one is refused,
and neither is seen anywhere; with and without a candidate that serves."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guest.rig import Container
from tests.guest.test_candidate import Tried

pytestmark = pytest.mark.usefixtures("one_operator")
SECRET = "must-not-be-seen"


class Keyed(Tried):
    """Its service has a key in a file of the controller."""

    key = ""

    def write(self, **more: Any) -> None:
        super().write(api_key_file=str(self.folder / "key"), **more)

    def rotate(self, number: int) -> str:
        """Another key is in the file; the one that was there until now."""
        before, self.key = self.key, f"{SECRET}-{number}"
        path = self.folder / "key"
        path.write_text(self.key + "\n")
        path.chmod(0o600)
        return before

    def says(self, key: str) -> int:
        """The status of a request with this key, asked without any code of the product."""
        body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 4, "ignore_eos": True}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions",
            body,
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                assert json.load(reply)["choices"][0]["text"].strip()
                return int(reply.status)
        except urllib.error.HTTPError as error:
            return error.code

    def seen(self, *said: str) -> str:
        """Wherever a key could be seen that is not one of the files that are to hold it."""
        script = (
            "cat /proc/[0-9]*/cmdline; journalctl --no-pager -q; "
            "grep -rsI '' /run /tmp /var/lib/kpro /var/log /opt/kpro/bin --exclude-dir=last-good "
            "--exclude-dir=before; true"
        )
        files = [
            *Path(os.environ["XDG_STATE_HOME"]).rglob("*"),
            *Path("/var/lib/kpro/journal").glob("*.jsonl"),
        ]
        texts = [path.read_text(errors="replace") for path in files if path.is_file()]
        return "".join([*said, self.container.attach("sh", "-c", script), *texts])


@pytest.fixture(scope="module")
def place(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    made = Keyed(tmp_path_factory.mktemp("place"), Container(f"kprotest-{os.getpid()}-key"))
    made.rotate(0)
    try:
        yield made
    finally:
        made.remove()


def rotated(place: Keyed, number: int) -> None:
    old = place.rotate(number)
    done = place.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert (place.says(place.key), place.says(old)) == (200, 401)
    assert SECRET not in place.seen(done.stdout, done.stderr)
    assert place.plan()["exit"] == 0


def test_another_key_of_the_service_s_own_profile(place: Keyed) -> None:
    place.put()
    assert place.apply().returncode == 0
    assert place.says(place.key) == 200
    rotated(place, 1)


def test_what_runs_is_measured_with_the_key_that_it_has(place: Keyed) -> None:
    """Nothing is known of what runs, and the file of the controller holds the next key already."""
    place.container.attach("sh", "-c", "rm /var/lib/kpro/baselines/tiny/*.json")
    old = place.rotate(2)
    place.put("--tok-s", "400")
    done = place.apply()
    assert done.returncode == 0, done.stderr[-5000:]
    assert "401" not in done.stderr
    assert place.status()["runs"] == "candidate"
    assert (place.says(place.key), place.says(old)) == (200, 401)
    assert SECRET not in place.seen(done.stdout, done.stderr)


def test_another_key_while_an_accepted_candidate_serves(place: Keyed) -> None:
    rotated(place, 3)
    assert place.status()["runs"] == "candidate"
    # Also when nothing is known of it.
    place.container.attach("sh", "-c", "rm /var/lib/kpro/baselines/tiny/*.json")
    rotated(place, 4)
    assert place.status()["runs"] == "candidate"
