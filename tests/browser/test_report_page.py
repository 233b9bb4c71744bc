"""The report in a real browser: on a phone and a desk, by day and by night, without network and without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chrome import Browser, Page
from tests.unit.report.journals import KINDS

ALL = [*sorted(KINDS), "hostile"]
PHONE, DESK = 360, 1280


@pytest.fixture
def open_page(browser: Browser, pages: dict[str, Path]) -> Iterator[object]:
    opened: list[Page] = []

    def opening(kind: str, width: int, *, dark: bool = False, path: Path | None = None) -> Page:
        page = Page(browser, width, dark=dark)
        opened.append(page)
        page.open(path or pages[kind])
        return page

    yield opening
    for page in opened:
        page.close()


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("kind", ALL)
def test_a_page_fits_its_screen_says_nothing_wrong_and_asks_for_nothing(  # type: ignore[no-untyped-def]
    open_page, pictures: Path, kind: str, width: int
) -> None:
    page: Page = open_page(kind, width)
    page.value("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.value("document.documentElement.scrollWidth") <= width
    assert wide(page, width) == []
    assert page.said("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown") == []
    asked = [one["request"]["url"] for one in page.said("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith(("file://", "data:"))] == []
    assert len(asked) - sum(url.startswith("data:") for url in asked) == 1
    assert page.value("document.title") != "owned"
    assert page.value("document.scripts.length") == 0
    page.value("document.querySelectorAll('details').forEach(one => one.open = false)")
    page.picture(pictures / f"{kind}-{width}.png")


def wide(page: Page, width: int) -> list[str]:
    """What is cut off at the right, beyond what scrolls by itself."""
    found: list[str] = page.value(
        "[...document.querySelectorAll('body *')].filter(one => !one.closest('.wide, svg'))"
        f".filter(one => one.getBoundingClientRect().right > {width} + 0.5).map(one => one.outerHTML.slice(0, 80))"
    )
    return found


def test_a_page_that_is_too_wide_is_found(open_page, pages: dict[str, Path], tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    spoiled = tmp_path / "wide.html"
    spoiled.write_text(pages["green"].read_text().replace("<main>", '<main><p style="width: 900px">wide</p>'))
    page: Page = open_page("green", PHONE, path=spoiled)
    assert page.value("document.documentElement.scrollWidth") > PHONE
    assert wide(page, PHONE) != []


@pytest.mark.parametrize(
    "bad",
    ['<img src="https://127.0.0.1:9/x.png">', '<link rel="stylesheet" href="https://127.0.0.1:9/x.css">',
     "<script>document.title = 'owned'</script>"],
)  # fmt: skip
def test_what_a_page_must_not_do_is_seen_and_its_own_policy_forbids_it(  # type: ignore[no-untyped-def]
    open_page, pages: dict[str, Path], tmp_path: Path, bad: str
) -> None:
    spoiled = tmp_path / "bad.html"
    spoiled.write_text(pages["green"].read_text().replace("<main>", f"<main>{bad}"))
    page: Page = open_page("green", PHONE, path=spoiled)
    said = page.said("Log.entryAdded")
    assert any("Content Security Policy" in one["entry"]["text"] for one in said)
    assert page.value("document.title") != "owned"


def brightness(colour: str) -> float:
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


LOOK = """[...document.querySelectorAll('h1, .card, .pill, .quiet, small, .why, nav a, pre, .loud, dt, summary')]
.filter(one => one.textContent.trim() && one.checkVisibility()).map(one => {
  let behind = one;
  while (behind && getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
  return [one.className || one.tagName, getComputedStyle(one).color,
          behind ? getComputedStyle(behind).backgroundColor : 'rgb(255, 255, 255)'];
})"""


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, contrast ratio (relative luminance)."""

    def light(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    brighter, darker = sorted((light(one), light(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", ["green", "red_gate", "replayed", "taken_back"])
def test_by_day_and_by_night_every_text_stands_out(open_page, pictures: Path, kind: str, dark: bool) -> None:  # type: ignore[no-untyped-def]
    page: Page = open_page(kind, PHONE, dark=dark)
    ground = page.value("getComputedStyle(document.body).backgroundColor")
    assert (brightness(ground) < 0.2) is dark
    looks = page.value(LOOK)
    assert len(looks) > 20
    weak = [
        (name, ink, behind, round(contrast(ink, behind), 2))
        for name, ink, behind in looks
        if contrast(ink, behind) < 4.5
    ]
    assert weak == []
    if dark:
        page.picture(pictures / f"{kind}-{PHONE}-dark.png")


def test_without_scripts_every_text_can_be_read_and_unfolded(
    browser: Browser, pages: dict[str, Path]
) -> None:
    page = Page(browser, PHONE, dark=False, script=False)
    try:
        page.open(pages["green"])
        tree = page.ask("Accessibility.getFullAXTree")["nodes"]
    finally:
        page.close()
    names = {(one.get("role", {}).get("value"), one.get("name", {}).get("value")) for one in tree}
    assert ("heading", "provision apply kpro5") in names
    assert ("heading", "Going back") in names
    assert any(role in ("image", "img") and "decode speed" in str(name) for role, name in names)
