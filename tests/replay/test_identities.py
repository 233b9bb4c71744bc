"""What was recorded on real hardware carries nobody's identity into the repository."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
_FOLDERS = ("gpus", "load", "nccl", "serving/records")
RECORDS = sorted(path for what in _FOLDERS for path in (HERE / what).glob("*.json"))
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SERIAL = re.compile(r'[Ss]erial"?:\s*"?(\w+)')


def identities(text: str) -> set[str]:
    """UUIDs and serial numbers in a record, in its sections too, that nobody can have invented by their looks."""
    for section in json.loads(text).get("sections", ()):
        text += "\n" + base64.b64decode(section["b64"] or "").decode(errors="replace")
    uuids = {one for one in _UUID.findall(text) if len(set(one[4:])) > 6}
    return uuids | {
        one for one in _SERIAL.findall(text) if one not in ("masked", "null") and set(one) != {"0"}
    }


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_record_holds_no_identity_of_a_board_and_is_small(path: Path) -> None:
    assert identities(path.read_text()) == set()
    assert path.stat().st_size < 48_000


def test_an_identity_is_found_also_inside_a_section() -> None:
    hidden = b'{"uuid": "GPU-8a3f6b1c-27de-4905-b6a1-90c4d7e2f358", "nvmlDeviceGetSerial": "1650000012345"}'
    record = {"sections": [{"b64": base64.b64encode(hidden).decode()}, {"b64": None}]}
    assert identities(json.dumps(record)) == {"GPU-8a3f6b1c-27de-4905-b6a1-90c4d7e2f358", "1650000012345"}
