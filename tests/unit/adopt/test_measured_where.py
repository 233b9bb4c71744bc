"""``provision init`` measures a service at the address that it listens on, not at one that it may not listen on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.init import run
from provision.listening import url


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("10.87.0.2", "http://10.87.0.2:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("[::]", "http://[::1]:8000"),
        ("", "http://127.0.0.1:8000"),
        ("localhost", "http://127.0.0.1:8000"),
        ("fd00::2", "http://[fd00::2]:8000"),
        ("[fd00::2]", "http://[fd00::2]:8000"),
        ("box.lan", "http://box.lan:8000"),
    ],
)
def test_a_service_is_asked_where_it_listens(listen: str, expected: str) -> None:
    assert url(listen, 8000) == expected


@pytest.mark.parametrize(
    ("listen", "at"), [("10.87.0.2", "http://10.87.0.2:8000"), ("0.0.0.0", "http://127.0.0.1:8000")]
)
def test_init_measures_there(monkeypatch: pytest.MonkeyPatch, listen: str, at: str) -> None:
    asked: list[str] = []

    def rate(inside: object, pyz: Path, where: str, say: object) -> float:
        asked.append(where)
        return 12.5

    started: Any = SimpleNamespace(listen=listen, port=8000)
    monkeypatch.setattr("provision.host.view.listeners", lambda first: {8000})
    monkeypatch.setattr(
        "provision.init.describe.unit_of", lambda container, first: [("llm.service", started)]
    )
    monkeypatch.setattr("checks.pack.cached", lambda: Path("provcheck.pyz"))
    monkeypatch.setattr("provision.init.measure.decode_tok_s", rate)
    container: Any = SimpleNamespace(id="c1")
    first: Any = None
    ((unit, found),) = run._measured(None, container, first, lambda text: None)
    assert (asked, unit, found.decode_tok_s) == ([at], "llm.service", 12.5)
