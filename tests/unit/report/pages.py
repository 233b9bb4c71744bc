"""A page as a parser reads it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from provision.report import entries, told
from provision.report.document import Report
from provision.report.page import html
from tests.unit.report.journals import RUN, Facts, raw

VOID = {"meta", "link", "br", "rect", "circle", "line", "polyline"}
NUMBER = r"-?\d+(\.\d+)?"
NUMBERS = {"x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "width", "height"}
ATTRIBUTES = {
    "class": r"[a-z0-9 -]*",
    "id": r"p\d+[a-z]?-[td]|why|refusals|next|steps|copy|gates|findings|plots|answers|candidates|changes|back|journal",
    "href": r"(#[a-z]+|data:,)",
    "aria-labelledby": r"p\d+[a-z]?-t p\d+[a-z]?-d",
    "points": rf"({NUMBER},{NUMBER} ?)+",
    "viewbox": r"0 0 \d+ \d+",
    "transform": rf"rotate\(-90 10 {NUMBER}\)",
    "text-anchor": r"start|middle|end",
    "open": "",
    "lang": "en", "charset": "utf-8", "rel": "icon", "role": "img", "scope": "col", "aria-label": "sections",
    "aria-hidden": "true", "preserveaspectratio": "none",
    "name": r"viewport|color-scheme|referrer",
    "http-equiv": "Content-Security-Policy",
    "content": r"width=device-width, initial-scale=1|light dark|no-referrer|default-src 'none'; [a-z' :;-]+",
    **dict.fromkeys(NUMBERS, NUMBER),
}  # fmt: skip
"""Every attribute that a page may have, and what may stand in it: nothing of a journal."""
ELEMENTS = {
    "html", "head", "meta", "link", "title", "style", "body", "header", "nav", "main", "footer", "section", "h1", "h2",
    "h3", "p", "a", "b", "i", "strong", "small", "span", "code", "pre", "div", "dl", "dt", "dd", "ol", "ul", "li",
    "details", "summary", "figure", "figcaption", "table", "thead", "tbody", "tr", "th", "td", "svg", "desc", "text",
    "rect", "circle", "line", "polyline",
}  # fmt: skip


class Page(HTMLParser):
    """``text``: all that is shown; ``strange``: elements and attributes that no page of ours has; ``open``: what was
    never closed, or closed in another order."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.strange: list[str] = []
        self.styles: list[str] = []
        self.shown: list[str] = []
        self.comments = 0
        self._open: list[str] = []
        self.misplaced: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag not in ELEMENTS:
            self.strange.append(tag)
        for name, value in attrs:
            if not re.fullmatch(ATTRIBUTES.get(name, r"(?!)"), value or ""):
                self.strange.append(f"{tag} {name}={value!r}")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open[-1] != tag:
            self.misplaced.append(f"</{tag}> in {self._open[-3:]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        (self.styles if self._open[-1:] == ["style"] else self.shown).append(data)

    def handle_comment(self, data: str) -> None:
        self.comments += 1

    @property
    def text(self) -> str:
        return "".join(self.shown)

    @property
    def words(self) -> str:
        """The text with one blank for every run of white space."""
        return " ".join(self.text.split())

    @property
    def left_open(self) -> list[str]:
        return self._open


def report(events: list[Facts] | list[dict[str, object]], **more: object) -> Report:
    return told.report(entries.read(RUN, raw(events)), kpro="0.1.0", **more)  # type: ignore[arg-type]


def page(events: list[Facts] | list[dict[str, object]], **more: object) -> Page:
    return Page(html(report(events, **more)))
