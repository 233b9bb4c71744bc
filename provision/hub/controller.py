"""The controller's side: whose token, which hub, and what it says about a model. A token leaves only in a request to
that hub, or on the standard input of the fetch on the machine.
"""

from __future__ import annotations

import os
import re

from provision.hub.ask import ask
from provision.hub.order import DEFAULT_ENDPOINT
from provision.hub.problems import Problem
from provision.hub.select import Listing
from provision.spec import Hub, Model
from provision.spec_model import endpoint_form

_TOKEN = re.compile(r"[\x21-\x7e]+")
_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_from_environment: list[str] = []


def hide_token() -> None:
    """Takes the token out of the environment, where every program that is started here would inherit it, and keeps
    it."""
    for name in _VARIABLES:
        value = os.environ.pop(name, "").strip()
        if value and not _from_environment:
            _from_environment.append(value)


def token_of(model: Model, hub: Hub) -> str | None:
    """The model's own token file, the machine's, else HF_TOKEN. Raises Problem when what is there is no token."""
    hide_token()
    path = model.token_file or hub.token_file
    if path is None:
        text = _from_environment[0] if _from_environment else None
        return text if text is None else _formed(text, "HF_TOKEN")
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise Problem(
            "token", f"{path} cannot be read: {why}", "the hub asks for a token", "put the token into it"
        ) from None
    return _formed(text, str(path))


def _formed(text: str, where: str) -> str:
    why = wrong_token(text)
    if why:
        raise Problem(
            "token", f"{where} {why}", "it cannot be shown to the hub", "write the token alone into it"
        )
    return text


def wrong_token(text: str) -> str | None:
    """Why a text is no token, without showing it."""
    if not text:
        return "is empty"
    return None if _TOKEN.fullmatch(text) else "holds more than one word: a token is one line without spaces"


def endpoint_of(hub: Hub) -> str:
    """Raises Problem when HF_ENDPOINT is no address."""
    given = hub.endpoint or os.environ.get("HF_ENDPOINT")
    try:
        return endpoint_form(given) if given else DEFAULT_ENDPOINT
    except ValueError as error:
        raise Problem(
            "endpoint", f"HF_ENDPOINT: {error}", "nothing can be fetched", "correct or unset it"
        ) from None


def answer(model: Model, role: str, hub: Hub) -> Listing | Problem:
    """What the hub says to this controller; ``Problem`` of kind ``unreachable`` where it says nothing."""
    try:
        return ask(
            model.repo,
            model.revision,
            endpoint=endpoint_of(hub),
            token=token_of(model, hub),
            who="this controller",
            card=role == "drafter",
            seconds=10,
        )
    except Problem as problem:
        return problem
