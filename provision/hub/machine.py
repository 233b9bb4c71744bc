"""The fetch on the machine: reads its order, keeps huggingface_hub to itself, tells how it gets on."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from provision.hub import problems
from provision.hub.fetch import fetch
from provision.hub.order import Order
from provision.hub.problems import Problem

OWN_VARIABLES = ("HF_", "HUGGING", "TRANSFORMERS_")
SETTINGS = {
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DOWNLOAD_TIMEOUT": "30",
    "HF_HUB_ETAG_TIMEOUT": "20",
}
"""huggingface_hub reads these when it is imported."""


def settings(environ: Mapping[str, str], home: str) -> dict[str, str]:
    """The environment of a fetch: nothing that the machine's own users set for the hub, no folder of theirs."""
    kept = {name: value for name, value in environ.items() if not name.startswith(OWN_VARIABLES)}
    return {**kept, **SETTINGS, "HF_HOME": home}


def main(text: str) -> int:
    """Exit status 0, or 1 after a problem was told."""
    try:
        order = Order.from_json(text)
    except (ValueError, TypeError, KeyError):
        print("standard input holds no order", file=sys.stderr)  # noqa: T201
        return 2
    tell = _teller(order)
    try:
        with tempfile.TemporaryDirectory(prefix="kpro-hub-") as home:
            changed = settings(os.environ, home)
            os.environ.clear()
            os.environ.update(changed)
            _set_up(tell)
            fetch(order, lambda line: tell({"say": line}), os.uname().nodename)
    except Problem as problem:
        tell({"problem": problem.as_dict()})
        return 1
    except OSError as error:
        tell({"problem": problems.disk(order.directory, error).as_dict()})
        return 1
    finally:
        with contextlib.suppress(OSError):
            Path(order.progress).unlink()
    tell({"done": order.directory})
    return 0


def _teller(order: Order) -> Callable[[dict[str, Any]], None]:
    """Tells the controller, and leaves the last line where the next run finds it. A token is told to nobody."""

    def tell(message: dict[str, Any]) -> None:
        line = json.dumps(message)
        if order.token:
            line = line.replace(json.dumps(order.token)[1:-1], "…")
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        if "say" in message:
            with contextlib.suppress(OSError):
                _leave(Path(order.progress), json.loads(line)["say"])

    return tell


def _leave(path: Path, line: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(line + "\n")
    partial.replace(path)


CHUNK = 1 << 20
"""Bytes that are lost at most where a connection is cut: huggingface_hub writes whole chunks, of 10 MB by itself."""


def _set_up(tell: Callable[[dict[str, Any]], None]) -> None:
    """What huggingface_hub warns of (a cut, a limit of requests) is told like everything else."""
    from huggingface_hub import constants
    from huggingface_hub.utils import logging as its_own

    constants.DOWNLOAD_CHUNK_SIZE = CHUNK
    its_own.get_logger()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # An address may be signed, and is long.
            text = re.sub(r"https?://\S+", "the hub", record.getMessage().splitlines()[0])
            tell({"say": f"huggingface_hub: {text[:200]}"})

    logger = logging.getLogger("huggingface_hub")
    logger.handlers = [Handler(logging.WARNING)]
    logger.propagate = False
