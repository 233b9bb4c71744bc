"""What can go wrong with the CUDA driver.

CudaMissing   no libcuda.so.1, or one without a needed function
CudaError     the driver answered with an error code
CudaTimeout   work that was given to the GPU is not done in time
"""

from __future__ import annotations

from checks.data.cuda_errors import MEANINGS


class CudaMissing(Exception):
    """Which library or function was looked for, and what the loader said."""


class CudaError(Exception):
    """``call`` gave ``code``; ``name`` and ``text`` are the driver's own words."""

    def __init__(self, code: int, name: str, text: str, call: str) -> None:
        super().__init__(f"{call} gave {code} {name}: {text}")
        self.code, self.name, self.text, self.call = code, name, text, call

    @property
    def cause(self) -> str | None:
        """What is mostly behind this code, None for a code without a row."""
        meaning = MEANINGS.get(self.code)
        return meaning.cause if meaning else None

    @property
    def fix(self) -> str | None:
        meaning = MEANINGS.get(self.code)
        return meaning.fix if meaning else None


class CudaTimeout(Exception):
    """The GPU works on ``what`` for longer than ``seconds``; its context cannot be used or freed any more."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} is not done after {seconds:g} s")
        self.what, self.seconds = what, seconds
