"""What a machine says of a migration names the inventories, not the machines: it can be typed as it stands there."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest

from provision.migrate import again, beginning, record, standing
from provision.migrate.asked import Asked, typed
from provision.migrate.standing import Record
from provision.run.errors import Locked

OLD = Record("20261130T120000Z-a1b2c3", "chat", "source", "kpro5", "me@here", "drain", "open", "then")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("kpro6", "kpro5", None), ("kpro6", "kpro5")),
        (("a.py", "../b.py", None), ("/home/me/a.py", "/home/me/../b.py")),
        (("/etc/a.py", "kpro5", "chat"), ("/etc/a.py", "kpro5", "--service", "chat")),
        (("my a.py", "$b.py", None), ("'/home/me/my a.py'", "'/home/me/$b.py'")),
    ],
)
def test_the_words_mean_the_same_from_any_folder(
    given: tuple[str, str, str | None], words: tuple[str, ...]
) -> None:
    source, target, service = given
    ask = Asked(source, target, service, "begin", False, "", True, False, False)
    assert typed(ask, "/home/me") == words


def test_a_command_can_be_typed_as_it_is_printed_from_a_record_and_from_what_status_makes_of_it() -> None:
    named = ("/srv/my inventories/a.py", "kpro5", "--service", "chat")
    words = tuple(map(shlex.quote, named))
    read = standing.parse(replace(OLD, words=words).dump().decode())
    assert read.words == words
    for one in (read, asdict(read), json.loads(read.dump())):
        typed = shlex.split(again.command(one, "--resume"))
        assert typed == ["provision", "migrate", *named, "--resume"]
    cold = again.command(replace(read, cold=True), "--rollback")
    assert shlex.split(cold)[-2:] == ["--cold", "--rollback"]


@pytest.mark.parametrize("field", ["words", "back"])
@pytest.mark.parametrize("value", [None, 7, "b", {"b": 1}, [1]])
def test_a_record_of_another_version_is_read_and_names_the_inventories_in_words(
    field: str, value: object
) -> None:
    data = json.loads(OLD.dump())
    del data[field]
    data |= {} if value is None else {field: value}
    read = standing.parse(json.dumps(data))
    assert read == OLD or field == "words"
    if value != [1]:
        said = again.command(read, "--rollback")
        assert said == "provision migrate SOURCE-INVENTORY TARGET-INVENTORY --rollback"
        assert "kpro5" not in said
    assert again.command(read).startswith("provision migrate SOURCE-INVENTORY")


SOURCE = replace(OLD, words=("/srv/a.py", "/srv/b.py"))
TARGET = replace(SOURCE, role="target", peer="kpro6")
NAMED = "provision migrate /srv/a.py /srv/b.py"


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            replace(SOURCE, step="warm"),
            f"chat is being moved to kpro5, at warm: {NAMED} --resume, or --rollback",
        ),
        (
            replace(TARGET, step="warm"),
            f"chat is being moved from kpro6, at warm: {NAMED} --resume, or --rollback",
        ),
        (
            replace(SOURCE, state="moved"),
            f"chat was moved to kpro5 and can still go back: {NAMED} --rollback, or --finalize",
        ),
        (replace(SOURCE, state="finalized"), "chat was moved to kpro5 for good"),
        # What is past, is past: a way back that was begun says nothing of one that is closed.
        (replace(SOURCE, state="finalized", back="serves"), "chat was moved to kpro5 for good"),
        (
            replace(SOURCE, back="serves"),
            f"chat was taken back, and this machine serves; kpro5 is still to be cleaned: {NAMED} --rollback",
        ),
        (
            replace(TARGET, back="serves"),
            f"chat was taken back, and kpro6 serves; this machine is still to be cleaned: {NAMED} --rollback",
        ),
        (
            replace(SOURCE, step="watch", back="begun"),
            f"chat is being taken back, and this machine does not serve its clients yet: {NAMED} --rollback",
        ),
        (
            replace(TARGET, back="begun", cold=True),
            f"chat is being given up on this machine: {NAMED} --cold --rollback",
        ),
        (
            replace(OLD, back="serves"),
            "chat was taken back, and this machine serves; kpro5 is still to be cleaned: provision migrate "
            "SOURCE-INVENTORY TARGET-INVENTORY --rollback",
        ),
    ],
)
def test_where_a_migration_stands_is_said_with_the_command_that_goes_on(one: Record, said: str) -> None:
    assert standing.told(asdict(one)) == f"migration {one.run}: {said}"
    assert standing.told(json.loads(one.dump())) == f"migration {one.run}: {said}"


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (SOURCE, f"Next: {NAMED} --resume, or --rollback"),
        (replace(SOURCE, step="gate"), f"NOBODY ANSWERS for chat now: migration {SOURCE.run}"),
        (replace(SOURCE, back="begun"), f"Next: {NAMED} --rollback"),
        (replace(SOURCE, state="moved"), f"Next: {NAMED} --rollback, or --finalize"),
        (replace(TARGET, state="moved"), f"Next: {NAMED} --finalize, or --rollback brings"),
        (replace(OLD, state="moved"), "Next: provision migrate SOURCE-INVENTORY TARGET-INVENTORY --rollback"),
    ],
)
def test_a_second_migration_is_led_to_the_first_one_by_its_inventories(
    one: Record, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "read", lambda side: one)
    side: Any = SimpleNamespace(name="kpro6")
    with pytest.raises(Locked) as locked:
        beginning.may_begin(side, "another")
    assert said in str(locked.value)
    beginning.may_begin(side, one.run)
