"""The fetch as one file: ``python3 kpro-hub-….pyz`` with an order on standard input.

Says what it does in lines of JSON: ``{"say": …}``, at the end ``{"done": …}`` or ``{"problem": {…}}``. Exit status 0,
or 1 with a problem. Whether anybody still listens changes nothing: a fetch whose controller died goes on to its end.
"""

from __future__ import annotations

import os
import signal
import sys

from provision.hub.machine import main

if __name__ == "__main__":
    # Nobody at the other end is no reason to stop.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o022)
    sys.exit(main(sys.stdin.read()))
