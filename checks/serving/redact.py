"""What engines print that nobody is to read on. Pure."""

from __future__ import annotations

import re


def redacted(text: str) -> str:
    """A text without the keys that engines print among their arguments or in their command line."""
    text = re.sub(r"(--[a-z-]*(?:api-?key|token|secret|password)[ =]+)[^\s'\"]+", r"\1***", text, flags=re.I)
    return re.sub(
        r"(['\"]?(?:api_key|admin_api_key|hf_token)['\"]?\s*[=:]\s*)(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s,)}]+)",
        r"\1'***'",
        text,
    )
