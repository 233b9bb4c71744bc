"""The Debian archives that a machine's own apt uses. Pure."""

from __future__ import annotations

TARGETS = "$(CREATED_BY)|$(ORIGIN)|$(COMPONENT)|$(RELEASE)|$(REPO_URI)"
"""For ``apt-get indextargets --format``; each row is one index file that apt knows (apt-get(8))."""

COMPONENTS = "main contrib non-free non-free-firmware"


def archives(rows: str) -> dict[str, str]:
    """URIs by what they hold: ``main`` for a suite itself, else what follows it (``updates``, ``security``,
    ``backports``, …). The first of each counts."""
    found: dict[str, str] = {}
    for row in rows.splitlines():
        fields = row.split("|")
        if len(fields) == 5 and fields[:3] == ["Packages", "Debian", "main"] and fields[4]:
            # Debian 10 and older call the security archive SUITE/updates.
            side = fields[3].replace("/updates", "-security").partition("-")[2]
            found.setdefault(side or "main", fields[4])
    return found
