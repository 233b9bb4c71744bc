"""A package index on the loopback address, served from a folder of wheels.

Forms: the simple repository API, HTML (PEP 503) and JSON (PEP 691), with hashes in the links.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
HTML_TYPE = "text/html; charset=utf-8"


@dataclass
class Index:
    """``url`` is what ``--index-url`` takes. ``requests``: every path that was asked for, in order."""

    url: str
    requests: list[str] = field(default_factory=list)


@contextmanager
def serve_index(wheels: Path) -> Iterator[Index]:
    """Serves the wheels of the folder on a free port of 127.0.0.1 while the block runs.

    The folder is read at each request, so a wheel added meanwhile is seen.
    """
    server = _Server(wheels)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def project_of(wheel: str) -> str:
    """The normalised project name of a wheel's file name (PEP 503)."""
    return normalised(wheel.partition("-")[0])


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, wheels: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.wheels = wheels
        self.index = Index(f"http://127.0.0.1:{self.server_port}/simple/")

    def files(self) -> dict[str, Path]:
        return {path.name: path for path in sorted(self.wheels.glob("*.whl"))}


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.index.requests.append(path)
        files = self.server.files()
        if path == "/simple/":
            return self._projects(sorted({project_of(name) for name in files}))
        if match := re.fullmatch(r"/simple/([^/]+)/?", path):
            return self._project(match[1], path, files)
        if path.startswith("/files/") and path.removeprefix("/files/") in files:
            return self._send(
                200, files[path.removeprefix("/files/")].read_bytes(), "application/octet-stream"
            )
        return self._send(404, b"not found\n", "text/plain")

    do_HEAD = do_GET

    def _projects(self, names: list[str]) -> None:
        if self._json_wanted():
            return self._json(
                {"meta": {"api-version": "1.0"}, "projects": [{"name": name} for name in names]}
            )
        return self._page("".join(f'<a href="/simple/{name}/">{name}</a><br>\n' for name in names))

    def _project(self, asked: str, path: str, files: dict[str, Path]) -> None:
        name = normalised(asked)
        if path != f"/simple/{name}/":
            return self._send(301, b"", "text/plain", {"Location": f"/simple/{name}/"})
        own = {file: _sha256(where) for file, where in files.items() if project_of(file) == name}
        if not own:
            return self._send(404, b"no such project\n", "text/plain")
        if self._json_wanted():
            rows = [
                {"filename": file, "url": f"/files/{file}", "hashes": {"sha256": value}}
                for file, value in own.items()
            ]
            return self._json({"meta": {"api-version": "1.0"}, "name": name, "files": rows})
        links = (
            f'<a href="/files/{html.escape(f)}#sha256={v}">{html.escape(f)}</a><br>\n' for f, v in own.items()
        )
        return self._page("".join(links))

    def _json_wanted(self) -> bool:
        return JSON_TYPE in self.headers.get("Accept", "")

    def _json(self, value: dict[str, Any]) -> None:
        self._send(200, json.dumps(value).encode(), JSON_TYPE)

    def _page(self, body: str) -> None:
        self._send(200, f"<!DOCTYPE html>\n<html><body>\n{body}</body></html>\n".encode(), HTML_TYPE)

    def _send(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: ``Index.requests`` is the log."""


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
