"""The preflight between two real hosts: all that is wrong at once, and nothing touched on either."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.testhost import demo_files
from tests.migrate.place import Place
from tests.migrate.rig import GUEST, Host, Pair

# By the time of its last change of any kind, every file that no daemon writes by itself.
_FILES = r"""
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path '*/var/log' \
  -o -path '*/var/lib/systemd' -o -path '*/var/tmp' \) -prune -o \( -type f -o -type l -o -type d \) \
  -printf '%p %y %s %m %U:%G %C@ %l\n'
for d in /run/kpro-migrate /run/kpro/lock; do [ ! -e $d ] || ls -R $d; done
"""


def tree(host: Host) -> set[str]:
    """The host with its container, which lies in the same file system."""
    return set(host.sh(_FILES).splitlines())


OWN = re.compile(
    r"(/var/lib|/var/lib/kpro|/var/lib/kpro/journal(/[0-9TZ]+-[0-9a-f]{6}\.jsonl)?|/run/kpro/lock)"
)
"""What a run that is refused leaves: its journal, and the file of its lock."""


def differs(host: Host, before: set[str]) -> set[str]:
    return tree(host) ^ before


def touched(host: Host, before: set[str]) -> set[str]:
    return {path for line in differs(host, before) if not OWN.fullmatch(path := line.split(" ")[0])}


@pytest.fixture(scope="module")
def place(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The service runs on a, and b is bare."""
    made = Place(tmp_path_factory.mktemp("preflight"), pair)
    made.write()
    done = made.apply()
    assert done.returncode == 0, done.stdout + done.stderr
    yield made
    pair.a.sh(
        f"lxc-stop -n {GUEST} -k; lxc-destroy -n {GUEST}; rm -rf /var/lib/kpro /srv/models", check=False
    )
    pair.b.sh("rm -rf /var/lib/kpro /srv/models", check=False)


def test_a_good_pair_is_shown_with_its_plan_and_nothing_is_touched(place: Place, pair: Pair) -> None:
    before = tree(pair.a), tree(pair.b)
    done = place.migrate("--dry-run", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert differs(pair.a, before[0]) == differs(pair.b, before[1]) == set()
    found = json.loads(done.stdout)
    assert found["refusals"] == []
    kinds = {one["kind"]: one for one in found["moves"]}
    assert kinds["model"]["how"] == "copied"
    size = sum(one.stat().st_size for one in demo_files.model_folder(place.files).iterdir())
    assert kinds["model"]["bytes"] > size
    assert found["bytes"] == kinds["model"]["bytes"]
    assert found["looks"]["source"]["guest"]["generates"] is None
    assert found["looks"]["target"]["state"] == "absent"
    assert [row["step"] for row in found["steps"]]
    shown = place.migrate("--dry-run")
    for word in ("what moves", "what does not move", "compile caches", "downtime"):
        assert word in shown.stdout + shown.stderr


def test_a_broken_pair_is_refused_with_everything_at_once_and_nothing_is_touched(
    place: Place, pair: Pair, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("sk-only-there\n")
    key.chmod(0o600)
    place.write(pair.a, migration="Migration(watch_seconds=5)")
    place.write(
        pair.b,
        migration='Migration(watch_seconds=9, extra_paths=[ExtraPath(path="/opt/none", why="x")])',
        api_key_file=str(key),
    )
    model = f"/srv/models/kpro--tiny@{demo_files.DEMO_REVISION}"
    pair.a.inside(
        "mkdir -p /etc/systemd/system/kpro-tiny.service.d && "
        "printf '[Service]\\nNice=1\\n' >/etc/systemd/system/kpro-tiny.service.d/x.conf && systemctl daemon-reload"
    )
    pair.b.sh(
        f"mv /usr/bin/rrsync /usr/bin/rrsync.away; mkdir -p {model} /srv/models/.incoming; "
        f"echo other >{model}/config.json; "
        "mount -t tmpfs none /srv/models/.incoming"
    )
    try:
        before = tree(pair.a), tree(pair.b)
        for asked in ("--dry-run", "--yes"):
            done = place.migrate(asked)
            said = done.stdout + done.stderr
            assert done.returncode == 3, said
            words = (
                "holds another key than the source's",
                "says otherwise in the source's inventory",
                "has no rrsync",
                "is changed by hand: /etc/systemd/system/kpro-tiny.service.d/x.conf",
                "lies on /srv/models/.incoming and /srv/models on",
                f"{model} is there with other files",
                "/opt/none is not in llm of a",
            )
            assert [word for word in words if word not in said] == [], said
            look = differs if asked == "--dry-run" else touched
            assert look(pair.a, before[0]) == look(pair.b, before[1]) == set(), asked
            assert "sk-only-there" not in said
        assert place.answer(pair.a)
        assert not place.answer(pair.b)
    finally:
        pair.b.sh("umount /srv/models/.incoming; rm -rf /srv/models; mv /usr/bin/rrsync.away /usr/bin/rrsync")
        pair.a.inside("rm -r /etc/systemd/system/kpro-tiny.service.d; systemctl daemon-reload")
        place.write()


def test_a_source_that_does_not_generate_is_refused_with_the_way_out(place: Place, pair: Pair) -> None:
    pair.a.inside("systemctl stop kpro-tiny.service")
    try:
        done = place.migrate("--yes")
        assert done.returncode == 3, done.stdout + done.stderr
        assert "kpro-tiny.service is inactive" in done.stdout + done.stderr
        assert "--cold" in done.stdout + done.stderr
    finally:
        pair.a.inside("systemctl start kpro-tiny.service")
    assert place.answer(pair.a) or place.apply().returncode == 0


def test_one_machine_in_two_inventories_is_refused_before_it_locks_itself_out(
    place: Place, pair: Pair
) -> None:
    text = (place.folder / "a.py").read_text()
    (place.folder / "b.py").write_text(text.replace("name='a'", "name='b'"))
    before = tree(pair.a)
    try:
        done = place.migrate("--yes")
        assert done.returncode == 2, done.stdout + done.stderr
        assert "both reached at 10.87.0.2" in done.stdout + done.stderr
        assert differs(pair.a, before) == set()
    finally:
        place.write()
