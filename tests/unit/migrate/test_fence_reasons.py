"""What of a unit stands against fencing it: each reason, all at once, none where it is well."""

from __future__ import annotations

import base64

import pytest

from provision.migrate import fence
from provision.migrate.fence import Standing
from provision.spec import Engine, Model, Service

SERVICE = Service(
    name="chat",
    engine=Engine(kind="standin", version="1.0.0"),
    model=Model(repo="kpro/tiny", revision="1" * 40),
)
WELL = {
    "LoadState": "loaded",
    "FragmentPath": "/etc/systemd/system/kpro-chat.service",
    "Transient": "no",
    "CanStart": "yes",
    "CanStop": "yes",
    "NeedDaemonReload": "no",
}


def seen(**unit: str) -> list[str]:
    standing = Standing("", False, False, WELL | unit)
    return [one.seen for one in fence.reasons(SERVICE, standing, "run", "kpro6")]


def test_a_unit_that_can_be_stopped_and_started_again_is_not_refused() -> None:
    assert seen() == []


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ({"LoadState": "not-found"}, "no such unit (not-found)"),
        ({"LoadState": ""}, "nothing was said"),
        ({"Transient": "yes"}, "is gone once it stops"),
        ({"FragmentPath": "/run/systemd/transient/x.service"}, "is gone once it stops"),
        ({"NeedDaemonReload": "yes"}, "changed since systemd read it"),
        ({"CanStart": "no"}, "may not be started by hand"),
        ({"CanStop": "no"}, "may not be stopped by hand"),
    ],
)
def test_a_unit_that_there_is_no_way_back_for_is_refused(unit: dict[str, str], said: str) -> None:
    (found,) = seen(**unit)
    assert said in found


def test_all_reasons_are_told_at_once() -> None:
    assert len(seen(Transient="yes", NeedDaemonReload="yes", CanStart="no", CanStop="no")) == 4


@pytest.mark.parametrize(
    ("marker", "run"),
    [
        (None, ""),
        ('{"schema": "kpro-fence/1", "run": "r1"}', "r1"),
        ("", None),
        ("{}", None),
        ("[1]", None),
        ('{"run": 3}', None),
    ],
)
def test_a_marker_that_cannot_be_read_is_never_taken_for_none(marker: str | None, run: str | None) -> None:
    encoded = None if marker is None else base64.b64encode(marker.encode()).decode()
    assert fence._run_of(encoded) == run


@pytest.mark.parametrize(
    ("run", "holds", "drop_in", "up", "away"),
    [
        ("", False, False, False, True),
        ("r", True, True, True, False),
        ("r", False, True, False, False),
        ("", True, True, False, False),
        ("", False, True, False, False),
        (None, True, True, True, False),
    ],
)
def test_a_fence_is_up_only_with_a_marker_that_systemd_asks_for(
    run: str | None, holds: bool, drop_in: bool, up: bool, away: bool
) -> None:
    standing = Standing(run, drop_in, holds, {})
    assert (standing.up, standing.away) == (up, away)


def test_the_fence_of_another_run_is_refused_and_the_own_is_not() -> None:
    for run, count in (("run", 0), ("other", 1), (None, 1)):
        assert len(fence.reasons(SERVICE, Standing(run, True, True, WELL), "run", "kpro6")) == count


def test_the_drop_in_says_why_and_what_the_way_back_is() -> None:
    text = fence.text(SERVICE, "run-7", "kpro5")
    assert "moved to kpro5 (migration run-7)" in text
    assert "--rollback" in text
    assert "ConditionPathExists=!/var/lib/kpro/migrated/chat" in text.splitlines()
