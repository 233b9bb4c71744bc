"""A stand-in for an LLM engine: the API, the metrics and the failures of one, and no language model.

Standard library only, Python 3.10 or later. Imports inside are relative, so that the package works both as
the top-level ``kpro_standin`` of its wheel and in place inside a checkout.
"""

from .version import VERSION as __version__

__all__ = ["__version__"]
