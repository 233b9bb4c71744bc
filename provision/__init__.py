"""provision: takes a host to a gated, running LLM service, one idempotent run at a time."""

__version__ = "0.1.0"
