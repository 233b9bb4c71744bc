"""Saved texts as evidence: what people send when something is wrong, judged by the same rules as a live machine.

``read`` makes a record of one text, ``together`` makes one of several. What a text does not show is left out of
the report; a text of no known form is refused with the list of forms.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import textwrap
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple

from checks.errors import BadInput
from checks.gpus.texts import (
    coverage,
    listing,
    logs,
    lspci,
    parts,
    smi_failed,
    smi_lists,
    smi_query,
    smi_table,
    topology,
)
from checks.gpus.texts.evidence import Evidence
from checks.record import SIZE_LIMIT, Record

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


LINE_LIMIT = 2000
"""Characters of a line that are read; no form has longer ones."""


class Form(NamedTuple):
    name: str
    recognises: Callable[[str], bool]
    read: Callable[[str], Evidence]


FORMS = (
    Form("nvidia-smi -L, nvlink -s, nvlink -e", smi_lists.recognises, smi_lists.read),
    Form("nvidia-smi -q (whole or an excerpt)", smi_query.recognises, smi_query.read),
    Form("nvidia-smi", smi_table.recognises, smi_table.read),
    Form("nvidia-smi that failed", smi_failed.recognises, smi_failed.read),
    Form("nvidia-smi topo -m, topo -p2p r", topology.recognises, topology.read),
    Form("files of /sys and /proc under '### /path', ls -l of /dev", listing.recognises, listing.read),
    Form("fabricmanager.log", logs.is_fabric, logs.fabric),
    Form("lspci, lspci -nn, lspci -vvv", lspci.recognises, lspci.read),
    Form("kernel log (dmesg, journalctl -k, /dev/kmsg)", logs.is_kernel, logs.kernel),
)
"""From the most certain mark to the least; any of them may be gzip."""


def read(raw: bytes, name: str) -> Record:
    """A saved text as a record; ``name`` is what errors call it. Raises BadInput for a text of no known form."""
    whole = _ESCAPES.sub("", plain(raw, name).decode(errors="replace").replace("\0", ""))
    text = _unwrapped("\n".join(line[:LINE_LIMIT] for line in whole.splitlines()))
    if not text.strip():
        if "nvlink" in PurePath(name).name.lower():
            return _record(smi_lists.nothing())
        raise BadInput(f"{name} is empty: it shows nothing that could be judged")
    found = parts.split(text)
    if len(found.forms) > 1:
        return _several(found, name)
    form = next((form for form in FORMS if form.recognises(text)), None)
    if form is None:
        raise BadInput(f"{name} is no text that can be judged{_elsewhere(text)}; known are: {_listed()}")
    return _record(_evidence(form, text, name))


def _evidence(form: Form, text: str, name: str) -> Evidence:
    try:
        return form.read(text)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None


def _several(found: parts.Parts, name: str) -> Record:
    """Each part by the form that it has, joined as if each were a file. What is not read is named in one line."""
    from checks.gpus.texts import together

    records, forms, left = [], [], list(found.unread)
    for part in parts.once([part for part in found.parts if not part.earlier]):
        form = next((form for form in FORMS if form.recognises(part.text)), None)
        if form is None:
            left += part.lines
            continue
        records.append(_record(_evidence(form, part.text, name)))
        forms.append(form.name.partition(" (")[0])
    old = sum(len(part.lines) for part in found.parts if part.earlier)
    said = f"{name} was read as {', '.join(dict.fromkeys(forms))}"
    if left:
        said += (
            f"; {len(left)} lines are of no known form and were not read, the first: {left[0].strip()[:60]!r}"
        )
    if old:
        said += f"; {old} lines are the log of an earlier boot and were not read"
    if not records:
        raise BadInput(said.replace("was read as ", "shows nothing of this boot that could be judged"))
    joined = together.join(records, f"{name}, in its parts")
    return replace(joined, notes=(*joined.notes, said))


def _unwrapped(text: str) -> str:
    """Without the marks of a quotation and without an indent that every line has."""
    lines = text.split("\n")
    if all(line.lstrip().startswith(">") for line in lines if line.strip()):
        text = "\n".join(re.sub(r"^\s*> ?", "", line) for line in lines)
    return textwrap.dedent(text)


def _listed() -> str:
    return "; ".join(form.name for form in FORMS) + "; a record of provcheck; a plain NVML dump"


def _elsewhere(text: str) -> str:
    if "Avg bus bandwidth" in text or "Out of bounds values" in text:
        return ", but output of nccl-tests: provcheck nccl --replay reads it"
    if re.search(r"NCCL WARN|Traceback|Error:", text):
        return ", but an error message: 'provcheck explain --symptom TEXT' says what it means"
    return ""


def plain(raw: bytes, name: str) -> bytes:
    """The bytes as UTF-8: unpacked when they are gzip, without the mark that editors and Windows shells put before
    them. Raises BadInput for a gzip file that is damaged or too large."""
    data = _unpacked(raw, name)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace").encode(errors="replace")
    return data.removeprefix(codecs.BOM_UTF8)


def _unpacked(raw: bytes, name: str) -> bytes:
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            data = stream.read(SIZE_LIMIT + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{name} is a damaged gzip file: {str(error)[:80]}") from None
    if len(data) > SIZE_LIMIT:
        raise BadInput(
            f"{name} unpacks to more than {SIZE_LIMIT >> 20} MiB: no text of one machine is that large"
        )
    return data


def _record(evidence: Evidence) -> Record:
    """The dump has a place for every index up to the highest; what covers nothing of it is never judged."""
    nvml: dict[str, Any] = {"nvmlInit": None if evidence.init is None else dict(evidence.init)}
    if evidence.driver is not None:
        nvml["nvmlSystemGetDriverVersion"] = evidence.driver
    indices = [index for index in evidence.devices if 0 <= index < 1024]
    nvml["devices"] = [dict(evidence.devices.get(index, {})) for index in range(max(indices, default=-1) + 1)]
    covers = set(coverage.of_devices(evidence.devices)) | evidence.extra
    if evidence.count is not None and (not isinstance(evidence.count, int) or 0 <= evidence.count <= 1024):
        nvml["nvmlDeviceGetCount"] = (
            evidence.count if isinstance(evidence.count, int) else dict(evidence.count)
        )
        covers.add(("gpu.count", "host"))
    if evidence.p2p is not None:
        nvml["p2p"] = [dict(pair) for pair in evidence.p2p]
    return Record(sections=evidence.sections, nvml=nvml, covers=frozenset(covers))
