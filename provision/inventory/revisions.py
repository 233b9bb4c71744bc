"""A branch or tag in the place of a commit: which commit it is at this moment, where the hub can be asked."""

from __future__ import annotations

import re
from typing import Any

from provision.forms import Where
from provision.hub import controller
from provision.hub.ask import head_of
from provision.hub.problems import Problem
from provision.inventory.reading import item
from provision.spec import Hub, Model


def commit_meant(given: Any, where: Where) -> str:
    """What to add to the text about a revision that is no commit; empty where nothing is to be asked.

    ``given`` is what the outermost spec was built from, ``where`` the field inside it. Only a model with
    ``source="hub"`` is asked about.
    """
    if not where or where[-1] != "revision":
        return ""
    model = given
    for part in where[:-1]:
        model = item(model, part)
    repo, revision, source = (item(model, name) for name in ("repo", "revision", "source"))
    if source != "hub" or not isinstance(repo, str) or not isinstance(revision, str):
        return ""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo) or not re.fullmatch(r"[\w./-]+", revision):
        return ""
    try:
        hub = _hub(item(given, "hub"))
        asked = Model(repo=repo, revision="0" * 40, source="hub")
        commit = head_of(repo, controller.endpoint_of(hub), controller.token_of(asked, hub), revision)
    except (Problem, ValueError, TypeError):
        return ""
    return f"; it is at {commit} now: revision={commit!r}" if commit else ""


def _hub(given: Any) -> Hub:
    if isinstance(given, Hub):
        return given
    return Hub(**given) if isinstance(given, dict) else Hub()
