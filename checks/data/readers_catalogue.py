"""Findings about the checks themselves, when several are run as one."""

from __future__ import annotations

from checks.data.entry import Entry

READERS: dict[str, Entry] = {
    "node.part": Entry(
        "Every part of 'provcheck all' gave its report",
        "A part that crashed, hung or could not be started has proved nothing. Left out, the rest would look like "
        "a whole that is green; so it is 'unknown', with what the part said last.",
        "unknown host node.part 'provcheck nccl' gave no report: no answer within 300 s",
        "Run the part by itself, as the finding names it.",
        "IBM/autopilot#68, NVIDIA/DCGM#284: a diagnosis that failed was reported as healthy",
    ),
}
