"""A target that answers otherwise than the source gets no request: red by name, the source serves, nothing is left."""

from __future__ import annotations

from pathlib import Path

from tests.migrate.place import KEY, Place
from tests.migrate.rig import Pair


def test_a_target_that_answers_otherwise_is_never_switched_to(pair: Pair, tmp_path: Path) -> None:
    place = Place(tmp_path, pair)
    place.write(pair.a)
    place.write(pair.b, flags=("--fault", "wrong-answers"))
    place.serve_on_a()
    before = place.answer(pair.a)
    done = place.migrate("--yes")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "serve.answers_logprobs" in done.stderr
    assert "serve.answers_template" not in done.stderr
    told = [event for event in place.events() if event["event"] == "answers"][-1]
    assert (told["verdict"], told["exact"]) == ("fail", True)
    steps = {event["step"]: event["state"] for event in place.events() if event["event"] == "step"}
    assert steps["answers"] == "failed"
    assert not steps.keys() & {"speed", "drain", "switch"}
    assert place.answer(pair.a) == before
    back = place.migrate("--rollback", "--yes")
    assert back.returncode == 0, back.stdout + back.stderr
    assert place.answer(pair.a) == before
    assert not place.answer(pair.b)
    assert place.left_behind() == []
    assert not [
        file for file in place.runs().rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()
    ]
