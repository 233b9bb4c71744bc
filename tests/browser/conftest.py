"""One browser for the tier, and a page for each kind of run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.report import entries, gates, told
from provision.report.page import html
from tests.browser import chrome
from tests.unit.report.journals import EARLIER, GUEST, KINDS, RUN, event, raw

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / ".cache" / "browser"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chrome.Browser]:
    if chrome.program() is None:
        why = f"none of {', '.join(chrome.PROGRAMS)} is installed: apt-get install chromium-headless-shell"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with chrome.browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where the pictures of the last run lie, for whoever wants to look."""
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    return PICTURES


HOSTILE = (
    "<script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">",
    "</style></pre><b>bold", "\u202etxt.exe", "https://elsewhere.example/" + "x" * 300, "w" * 2000, "<a href=https://elsewhere.example>go</a>",
)  # fmt: skip


def hostile() -> list[dict[str, object]]:
    """Every text of a whole run is somebody else's, and long."""
    events = KINDS["green"]()
    for number, one in enumerate(events):
        for name in ("text", "why", "said", "host", "service", "profile", "forecast", "subject"):
            if name in one:
                one[name] = HOSTILE[number % len(HOSTILE)]
        one["findings"] = [
            {"status": "fail", "id": said, "subject": said, "message": said, "cause": said, "fix": said}
            for said in HOSTILE
        ]
    return [*events[:-1], event(470, "failed", host="kpro5", why="\n".join(HOSTILE)), events[-1]]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    then = entries.read(
        EARLIER, raw([event(0, "gate", host=GUEST, service="chat", verdict="pass", evidence="live")])
    )
    made = {}
    for kind, events in {**{kind: make() for kind, make in KINDS.items()}, "hostile": hostile()}.items():
        found = told.report(entries.read(RUN, raw(events)), earlier=gates.seen_last([then]), kpro="0.1.0")
        made[kind] = folder / f"{kind}.html"
        made[kind].write_text(html(found), encoding="utf-8")
    return made
