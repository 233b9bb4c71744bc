"""A hub on loopback: the part of its HTTP interface that huggingface_hub speaks when it fetches a model.

Answers what the real one answers: the list of files of a commit with sizes and hashes, files with ``X-Repo-Commit``,
``ETag``, ``X-Linked-Etag`` and ``X-Linked-Size``, large ones by a redirect to another host, ranges, and refusals with
``X-Error-Code`` and ``X-Error-Message``. Everything that it was asked is kept in ``asked``.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_" + "TestTokenOfNobody" * 2


def commit_of(name: str) -> str:
    return hashlib.sha1(name.encode()).hexdigest()


@dataclass
class Repo:
    """A repository with one commit. ``gated``: asks for a token of ``members``; ``waiting`` are on its list."""

    files: dict[str, bytes]
    commit: str
    large: frozenset[str] = frozenset()
    gated: bool = False
    members: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    private: bool = False
    moved_to: str | None = None

    def is_large(self, path: str) -> bool:
        return path in self.large or path.endswith((".safetensors", ".bin"))

    def sha256(self, path: str) -> str:
        return hashlib.sha256(self.files[path]).hexdigest()

    def blob(self, path: str) -> str:
        data = self.files[path]
        return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()


@dataclass
class Asked:
    """One request, and how many bytes of a file went out for it."""

    method: str
    path: str
    host: str
    range: str | None
    token: str | None
    sent: int = 0


@dataclass
class Faults:
    """What goes wrong, by path of a file. Counts go down to nothing."""

    cut: dict[str, list[int]] = field(default_factory=dict)
    """Bytes after which the connection is closed, one for each answer."""
    damage: dict[str, int] = field(default_factory=dict)
    """How many answers have a wrong byte in them (-1: all)."""
    broken: dict[str, int] = field(default_factory=dict)
    """How many answers are 503."""
    rate: float | None = None
    """Bytes per second."""
    plain: bool = False
    """Lists files without sizes and hashes, as a poor mirror does."""


class Hub:
    """``known`` are the tokens that belong to an account."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.known: set[str] = {TOKEN}
        self.asked: list[Asked] = []
        self.faults = Faults()
        self.signed: dict[str, tuple[Repo, str]] = {}
        self.gone = threading.Event()
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self._servers = [ThreadingHTTPServer((address, 0), Handler) for address in ("127.0.0.1", "127.0.0.2")]
        self.port, self.cdn_port = (server.server_address[1] for server in self._servers)
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, name: str, files: dict[str, bytes], **more: Any) -> Repo:
        self.repos[name] = Repo(files, more.pop("commit", commit_of(name)), **more)
        return self.repos[name]

    def sent(self, *, large_only: bool = False) -> int:
        """Bytes of files that went out."""
        return sum(one.sent for one in self.asked if not large_only or one.path.startswith("/cdn/"))

    def close(self) -> None:
        self.gone.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        authorization = self.headers.get("Authorization")
        token = authorization.removeprefix("Bearer ") if authorization else None
        path = unquote(urlsplit(self.path).path)
        host = str(self.headers.get("Host"))
        asked = Asked(self.command, path, host, self.headers.get("Range"), token)
        self.hub.asked.append(asked)
        if path.startswith("/cdn/"):
            repo, name = self.hub.signed[path.rsplit("/", 1)[1]]
            self._file(asked, repo, name, {"ETag": f'"{repo.sha256(name)}"'})
            return
        if token is not None and token not in self.hub.known:
            message = "Invalid credentials in Authorization header"
            self._refuse(401, None, message)
            return
        if found := re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)(?:/revision/([\w.-]+))?", path):
            self._listing(token, *found.groups())
        elif found := re.fullmatch(r"/([\w.-]+/[\w.-]+)/resolve/([\w.-]+)/(.+)", path):
            self._resolve(asked, token, *found.groups())
        else:
            self._refuse(404, None, "Sorry, we can't find the page you are looking for.")

    def _visible(self, name: str, token: str | None) -> Repo | None:
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and token not in repo.members):
            self._refuse(404 if token else 401, "RepoNotFound", "Repository not found")
            return None
        if repo.moved_to is not None:
            self._send(
                307, {"Location": self.path.replace(name, repo.moved_to, 1)}, b"Temporary Redirect", None
            )
            return None
        return repo

    def _listing(self, token: str | None, name: str, revision: str | None) -> None:
        repo = self._visible(name, token)
        if repo is None:
            return
        if revision not in (None, "main", repo.commit):
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        siblings: list[dict[str, Any]] = [
            {
                "rfilename": path,
                "size": len(data),
                "blobId": repo.blob(path),
                **(
                    {"lfs": {"sha256": repo.sha256(path), "size": len(data), "pointerSize": 134}}
                    if repo.is_large(path)
                    else {}
                ),
            }
            for path, data in sorted(repo.files.items())
        ]
        if self.hub.faults.plain:
            siblings = [{"rfilename": path} for path in sorted(repo.files)]
        body = {
            "_id": "0",
            "id": name,
            "modelId": name,
            "sha": repo.commit,
            "private": repo.private,
            "gated": "manual" if repo.gated else False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": siblings,
        }
        self._send(200, {"Content-Type": "application/json"}, json.dumps(body).encode(), None)

    def _resolve(self, asked: Asked, token: str | None, name: str, revision: str, path: str) -> None:
        repo = self._visible(name, token)
        if repo is None:
            return
        if revision not in ("main", repo.commit):
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif path not in repo.files:
            self._refuse(404, "EntryNotFound", "Entry not found")
        elif repo.gated and token is None:
            message = (
                f"Access to model {name} is restricted. "
                "You must have access to it and be authenticated to access it. Please log in."
            )
            self._refuse(401, "GatedRepo", message)
        elif repo.gated and token in repo.waiting:
            self._refuse(
                403,
                "GatedRepo",
                f"Your request to access model {name} is awaiting a review from the repo authors.",
            )
        elif repo.gated and token not in repo.members:
            message = (
                f"Access to model {name} is restricted and you are not in the authorized list. "
                f"Visit {self.hub.endpoint}/{name} to ask for access."
            )
            self._refuse(403, "GatedRepo", message)
        elif repo.is_large(path):
            key = hashlib.md5(f"{name} {path}".encode()).hexdigest()
            self.hub.signed[key] = repo, path
            linked = {
                "X-Repo-Commit": repo.commit,
                "X-Linked-Etag": f'"{repo.sha256(path)}"',
                "X-Linked-Size": str(len(repo.files[path])),
                "Location": f"http://127.0.0.2:{self.hub.cdn_port}/cdn/{key}",
            }
            self._send(302, linked, b"", None)
        else:
            self._file(asked, repo, path, {"X-Repo-Commit": repo.commit, "ETag": f'"{repo.blob(path)}"'})

    def _file(self, asked: Asked, repo: Repo, path: str, headers: dict[str, str]) -> None:
        faults, data = self.hub.faults, repo.files[path]
        if self.command == "GET" and faults.broken.get(path, 0) > 0:
            faults.broken[path] -= 1
            self._refuse(503, None, "Service Unavailable")
            return
        if self.command == "GET" and faults.damage.get(path, 0) != 0:
            faults.damage[path] -= 1
            data = data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
        start, status = 0, 200
        if asked.range:
            start = int(asked.range.removeprefix("bytes=").split("-")[0])
            status = 206
            headers = {**headers, "Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        self._send(status, {**headers, "Accept-Ranges": "bytes"}, data[start:], asked, path)

    def _refuse(self, status: int, code: str | None, message: str) -> None:
        headers = {"X-Error-Message": message, "Content-Type": "application/json"}
        if code:
            headers["X-Error-Code"] = code
        self._send(status, headers, json.dumps({"error": message}).encode(), None)

    def _send(
        self, status: int, headers: dict[str, str], body: bytes, asked: Asked | None, path: str = ""
    ) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if asked is None:
            self.wfile.write(body)
            return
        cuts = self.hub.faults.cut.get(path)
        end = cuts.pop(0) if cuts else len(body)
        step = 1 << 16
        for at in range(0, min(end, len(body)), step):
            part = body[at : min(at + step, end)]
            try:
                self.wfile.write(part)
                self.wfile.flush()
            except OSError:
                self.close_connection = True
                return
            asked.sent += len(part)
            if self.hub.faults.rate:
                if self.hub.gone.is_set():
                    self.close_connection = True
                    return
                time.sleep(len(part) / self.hub.faults.rate)
        if end < len(body):
            self.close_connection = True
