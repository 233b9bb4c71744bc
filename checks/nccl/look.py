"""The child that loads the libraries (``_probe nccl-look``) and says what they say; no GPU is used yet.

{"nccl": {...}}   {"runtime": {...}}   {"driver": {...}}   {"gpu": {...}} each   {"access": [[0, 1], ...]}
"""

from __future__ import annotations

from typing import Any

from checks.cuda import driver
from checks.cuda.errors import CudaError, CudaMissing
from checks.nccl import runtime
from checks.nccl.binding import Nccl, NcclError, NcclMissing, loaded_file
from checks.nccl.talk import begin, say


def main() -> int:
    """Prints the lines; always 0, a library that cannot be loaded is an answer too."""
    asked = begin()
    try:
        say(nccl=_nccl(asked["library"]))
        say(runtime=runtime.ask(asked["runtimes"]))
        cuda = driver.load()
        cuda.init()
        count = cuda.count()
        say(driver={"version": cuda.version, "count": count})
        for ordinal in range(count):
            gpu = cuda.device(ordinal)
            say(
                gpu={
                    "ordinal": ordinal,
                    "name": gpu.name,
                    "uuid": gpu.uuid,
                    "bdf": gpu.bdf,
                    "memory": gpu.memory,
                    "capability": list(gpu.capability),
                }
            )
        pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
        say(access=[pair for pair in pairs if cuda.can_access(*pair)])
    except CudaMissing as error:
        say(driver={"missing": str(error)})
    except CudaError as error:
        say(driver={"code": error.code, "error": f"{error.name}: {error.text}", "call": error.call})
    say(end=True)
    return 0


def _nccl(path: str) -> dict[str, Any]:
    try:
        library = Nccl(path)
        library.unique_id()
    except NcclMissing as error:
        return {"asked": path, "missing": str(error)}
    except NcclError as error:
        return {"asked": path, "path": loaded_file("libnccl.so"), "error": str(error)}
    return {"asked": path, "path": loaded_file("libnccl") or path, "version": library.version}
