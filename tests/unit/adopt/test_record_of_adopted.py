"""A record of a guest that somebody else made: the same plan as live, and none of its secrets."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import pytest

from provision.adopt import models, process
from provision.adopt.plan import adopted_plan
from provision.adopt.plan import requests as adopted_requests
from provision.host.tree import observe_tree
from provision.inspect import recording
from provision.spec import Model, Service
from tests.unit.adopt.test_described import WORDS, described, inside, metal, model_look, only


def test_a_folder_s_name_is_never_a_command() -> None:
    (request,) = models.folder_requests("/srv/x:touch /tmp/y #")
    assert request.split(":", 2)[2].startswith("cd '/srv/x:touch /tmp/y #' && ")


@pytest.mark.parametrize("more", [[], ["--api-key", "sk-4711-nobody"], ["--admin-api-key=hunter2"]])
def test_a_record_of_an_adopted_guest_plans_as_it_did_live(tmp_path: Path, more: Sequence[str]) -> None:
    look = inside([*WORDS, *more])
    found = described(seen=look)
    guest = found.machine.guests[0]
    look.sections = {**look.sections, **model_look().sections}
    done = recording.write(tmp_path / "tree", metal(), {guest.name: look.snapshot})
    tree = observe_tree(tmp_path / "tree/.kpro/guests" / guest.name, adopted_requests(guest))
    assert list(done.lost) == []
    for state in (guest, guest.model_copy(update={"services": (changed(only(found)),)})):
        machine = found.machine.model_copy(update={"guests": (state,)})
        live = adopted_plan(machine, state, metal(), look.snapshot)
        assert adopted_plan(machine, state, metal(), tree) == live
        assert bool(live.refusals) == (state is not guest)
    kept = (tmp_path / f"tree/.kpro/guests/{guest.name}/.kpro/cmd/{process.NAME}.out").read_text()
    words = base64.b64decode(kept.partition("words=")[2].splitlines()[0])
    assert not {b"sk-4711-nobody", b"hunter2"} & set(words.replace(b"=", b"\0").split(b"\0"))


def changed(service: Service) -> Service:
    return service.model_copy(update={"port": 9, "model": Model(repo="Qwen/Qwen3", revision="f" * 40)})
