"""One file from the hub, through huggingface_hub's own ``http_get``, into a partial file that survives a cut.

(``hf_hub_download`` of huggingface_hub 2.4 begins every file anew in another process: it names its temporary file at
random and removes it when it fails, file_download.py, ``_download_to_tmp_and_move``.)
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

from provision.hub import problems
from provision.hub.ask import Cut, told
from provision.hub.hashing import hashed
from provision.hub.order import Order
from provision.hub.select import HubFile

WAITS = (2.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before each further try. Bytes that arrive begin the row anew."""


def download(
    order: Order, file: HubFile, partial: Path, count: Callable[[int], None], say: Callable[[str], None]
) -> None:
    """Leaves the whole, verified file at ``partial``, synced. Raises Problem, or OSError of the disk."""
    for last in (False, True):
        _bytes(order, file, partial, count, say)
        found = hashed(partial)
        if found.agrees(file):
            return
        # It is fetched once more from the first byte: the earlier part may be what is wrong.
        partial.unlink()
        count(-file.size)
        wanted = file.sha256 or file.blob or "no hash at all"
        if last:
            raise problems.corrupted(order.repo, file.path, wanted, found.of(file))
        say(f"{order.repo}: {file.path} arrived damaged; fetching it once more from its beginning")


def _bytes(
    order: Order, file: HubFile, partial: Path, count: Callable[[int], None], say: Callable[[str], None]
) -> None:
    failed = 0
    with partial.open("ab") as stream:
        if stream.tell() > file.size:
            stream.truncate(0)
        while True:
            before = stream.seek(0, os.SEEK_END)
            if before == file.size:
                break
            try:
                _once(order, file, Counted(stream, count), before)
            except Cut as error:
                stream.flush()
                got = stream.seek(0, os.SEEK_END)
                failed = 1 if got > before else failed + 1
                if failed >= order.tries:
                    text = str(error) or type(error).__name__
                    raise problems.broken_off(order.repo, file.path, text, got, file.size) from None
                wait = WAITS[min(failed, len(WAITS)) - 1]
                say(
                    f"{order.repo}: {file.path} was cut off at {got} of {file.size} bytes; again in {wait:.0f} s"
                )
                time.sleep(wait)
        stream.flush()
        os.fsync(stream.fileno())


def _once(order: Order, file: HubFile, stream: Counted, start: int) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    # Always from the hub's own address: what it redirects to is signed and expires. httpx leaves the token behind when
    # a redirect leads to another host.
    url = hf_hub_url(order.repo, file.path, revision=order.revision, endpoint=order.endpoint)
    headers = build_hf_headers(token=order.token or False)
    # The hub compresses small texts where that is allowed, and bytes of that are no place to go on from.
    headers["Accept-Encoding"] = "identity"
    with told(
        order.repo, order.revision, order.endpoint, order.token is not None, "the machine", patient=True
    ):
        try:
            http_get(
                url,
                cast(BinaryIO, stream),
                resume_size=start,
                headers=headers,
                expected_size=file.size,
                displayed_filename=file.path,
            )
        except OSError as error:
            if error.errno is None and "Consistency check failed" in str(error):
                raise Cut(f"the answer ended after {stream.tell()} of {file.size} bytes") from None
            raise


class Counted:
    """The part of a file that ``http_get`` uses; what is written is counted."""

    def __init__(self, stream: Any, count: Callable[[int], None]) -> None:
        self._stream, self._count = stream, count

    def write(self, data: bytes) -> int:
        written: int = self._stream.write(data)
        self._count(len(data))
        return written

    def tell(self) -> int:
        return int(self._stream.tell())

    def seek(self, to: int, whence: int = os.SEEK_SET) -> int:
        return int(self._stream.seek(to, whence))

    def truncate(self) -> int:
        """A server that ignored the range sends all of it again."""
        end = self._stream.seek(0, os.SEEK_END)
        size = int(self._stream.truncate(0))
        self._count(-int(end))
        return size
