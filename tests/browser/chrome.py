"""Headless Chromium over its DevTools pipe: no port, no network, one process for all pages.

The protocol (https://chromedevtools.github.io/devtools-protocol/): JSON messages ended by a zero byte, to the
browser on descriptor 3, from it on 4.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium-headless-shell", "chromium")
SECONDS = 30


def program() -> str | None:
    """The browser of this machine; None where there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """``events``: everything that the browser said of itself, in order."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._ids = itertools.count(1)
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']}")
                answer: dict[str, Any] = said["result"]
                return answer
            self.events.append(said)

    def wait(self, method: str, session: str) -> None:
        while not any(e.get("method") == method and e.get("sessionId") == session for e in self.events):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._receive], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser said nothing for {SECONDS} s")
            data = os.read(self._receive, 1 << 20)
            if not data:
                raise EOFError("the browser ended")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        said: dict[str, Any] = json.loads(message)
        return said


class Page:
    """One page at one width, in light or dark."""

    def __init__(self, browser: Browser, width: int, *, dark: bool, script: bool = True) -> None:
        self.browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.width = width
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")
        self._size(800)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        if not script:
            self.ask("Emulation.setScriptExecutionDisabled", value=True)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.ask(method, self.session, **params)

    def _size(self, height: int) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=self.width, height=height, deviceScaleFactor=1, mobile=self.width < 600,
        )  # fmt: skip

    def open(self, path: Path) -> None:
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.browser.wait("Page.loadEventFired", self.session)

    def value(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("text", "the expression failed"))
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        self._size(min(12000, int(self.value("document.documentElement.scrollHeight"))))
        shot = self.ask("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def said(self, *methods: str) -> list[dict[str, Any]]:
        """The events of this page by name; an answer to anything comes after all that went before it."""
        self.value("1")
        return [
            event["params"]
            for event in self.browser.events
            if event.get("sessionId") == self.session and event.get("method") in methods
        ]

    def close(self) -> None:
        self.browser.ask("Target.closeTarget", targetId=self.target)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Started with a proxy that nobody answers at, so that a page which asks for anything fails to get it."""
    found = program()
    if found is None:
        raise FileNotFoundError(f"none of {', '.join(PROGRAMS)} is installed")
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    words = [
        found, "--headless", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run",
        "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--proxy-server=127.0.0.1:9",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "about:blank",
    ]  # fmt: skip
    if os.geteuid() == 0:
        # Chromium's own sandbox refuses root; the pages are files that these tests made.
        words.insert(1, "--no-sandbox")
    # Descriptors 3 and 4 are the browser's by its protocol; sh need not know any of two digits.
    shell = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *words]
    process = subprocess.Popen(
        shell, pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(ours_out, ours_in)
    finally:
        os.close(ours_out)
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(ours_in)
