"""What a machine says of a migration names the inventories, not the machines: it can be typed as it stands there."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, replace

import pytest

from provision.migrate import again, standing
from provision.migrate.standing import Record

OLD = Record("20261130T120000Z-a1b2c3", "chat", "source", "kpro5", "me@here", "drain", "open", "then")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("kpro6", "kpro5", None), ("kpro6", "kpro5")),
        (("a.py", "../b.py", None), ("/home/me/a.py", "/home/me/../b.py")),
        (("/etc/a.py", "kpro5", "chat"), ("/etc/a.py", "kpro5", "--service", "chat")),
    ],
)
def test_the_words_mean_the_same_from_any_folder(
    given: tuple[str, str, str | None], words: tuple[str, ...]
) -> None:
    assert again.kept(*given, "/home/me") == words


def test_a_command_can_be_typed_as_it_is_printed_from_a_record_and_from_what_status_makes_of_it() -> None:
    words = ("/srv/my inventories/a.py", "kpro5", "--service", "chat")
    read = standing.parse(replace(OLD, words=words).dump().decode())
    assert read.words == words
    for one in (read, asdict(read), json.loads(read.dump())):
        typed = shlex.split(again.command(one, "--resume"))
        assert typed == ["provision", "migrate", *words, "--resume"]
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
