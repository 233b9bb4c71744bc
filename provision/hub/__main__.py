"""The fetch as one file: ``python3 kpro-hub-….pyz`` with an order on standard input.

Says what it does in lines of JSON: ``{"say": …}``, at the end ``{"done": …}`` or ``{"problem": {…}}``. Exit status 0, or
1 with a problem. Whether anybody still listens changes nothing: a fetch whose controller died goes on to its end.
"""

from __future__ import annotations

import sys


def _main() -> int:
    if sys.version_info < (3, 11):
        print('{"problem": {"kind": "python", "seen": "python3 is older than 3.11", "why": "huggingface_hub needs it", '
              '"next": "give the files with Model(folder=...)"}}')  # noqa: T201
        return 1
    from provision.hub.machine import main

    return main(sys.stdin.read())


if __name__ == "__main__":
    sys.exit(_main())
