"""The engine of a service as an operator writes it: kind, version, where it comes from, what is changed in it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, StringConstraints, model_validator

from provision.forms import AbsolutePath, Commit, LocalPath, PythonVersion, Where, refuse
from provision.spec_base import Spec


def _repository(text: str) -> str:
    if not re.fullmatch(r"(?:https|ssh|git|file)://(?!-)[^\s'\"]+", text):
        raise ValueError(
            f"{text!r} is no address of a repository: https://, ssh://, git:// or file:// (in the guest)"
        )
    # In an address of ssh a name before the @ is whom to log in as; in any other it is a password or a token.
    if re.search(r"//[^/@]*:[^/@]*@" if text.startswith("ssh:") else r"//[^/]*@", text):
        raise ValueError(
            "holds a password, which an inventory must not: let the guest's git have it (credential.helper)"
        )
    return text


class Patch(Spec):
    """A change of the engine's sources: a unified diff with ``a/`` and ``b/`` paths, as a pull request's ``.diff``.

    ``why`` is shown and recorded. ``without`` are folders of the diff (``tests/``) that what is installed has not.
    """

    file: LocalPath
    why: Annotated[str, StringConstraints(min_length=1)]
    without: tuple[str, ...] = ()


class Engine(Spec):
    """An engine environment: what is installed, and from where.

    ``index`` asks the guest's own configured Python index; ``wheel`` takes a folder of wheels on the controller and
    nothing else; ``git`` builds ``commit`` of ``repository``; ``tree`` installs nothing: ``interpreter`` and
    ``folders`` (the first one is looked into first) lie in the guest already, bound from the machine for instance.
    ``patches`` are applied in their order, whole or not at all. ``lock`` is a file of a build before, which pins
    everything that is installed by version and hash.
    """

    kind: str
    version: str
    source: Literal["index", "wheel", "git", "tree"] = "index"
    wheelhouse: LocalPath | None = None
    repository: Annotated[str, AfterValidator(_repository)] | None = None
    commit: Commit | None = None
    interpreter: AbsolutePath | None = None
    folders: tuple[AbsolutePath, ...] = ()
    patches: tuple[Patch, ...] = ()
    lock: LocalPath | None = None
    python: PythonVersion = "3.11"

    @model_validator(mode="after")
    def _fields_go_with_the_source(self) -> Engine:
        wrong: list[tuple[Where, str]] = []
        for name, (source, text) in _OF_SOURCE.items():
            given = bool(getattr(self, name))
            if self.source == source and not given:
                wrong.append(((name,), f"source={source!r} needs {name}={text}"))
            if self.source != source and given:
                wrong.append(((name,), f"only source={source!r} takes one, not {self.source!r}"))
        for name in ("patches", "lock"):
            if self.source == "tree" and getattr(self, name):
                wrong.append(((name,), "a tree is used as it lies in the guest: change it where it is made"))
        refuse("Engine", wrong)
        return self


_OF_SOURCE = {
    "wheelhouse": ("wheel", "<folder of wheels>"),
    "repository": ("git", "<address of a git repository>"),
    "commit": ("git", "<40 hex digits>"),
    "interpreter": ("tree", "<the Python in the guest that runs it>"),
    "folders": ("tree", "[<folder in the guest that holds the engine>, ...]"),
}
