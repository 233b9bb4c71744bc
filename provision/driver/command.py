"""The command ``provision build-driver``: judges what was asked for, then builds, or says why not."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from provision.data import drivers
from provision.data.archives import SUITES
from provision.data.driver_packages import Flavour
from provision.driver import build, cache
from provision.driver.archive import Prebuilt
from provision.driver.process import Failed
from provision.run.errors import EXIT_DONE, EXIT_USAGE

EXIT_INTERRUPTED = 130
_ANY, _SOME_KERNEL = "580.159.04", "6.1.0-50-amd64"
"""In the place of what is none, or was not given: the rest is judged all the same."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def run(
    version: str,
    kernel: str,
    flavour: str,
    suite: str,
    key: Path | None,
    certificate: Path | None,
    output: Path | None,
) -> int:
    """Returns the exit code; the archive's path goes to standard output."""
    wrong = _wrong(version, kernel, flavour, suite, key, certificate, output)
    if wrong:
        say("\n".join(f"error: {line}" for line in wrong))
        return EXIT_USAGE
    prebuilt = Prebuilt(version, flavour, kernel)
    signing = build.Signing(key, certificate) if key and certificate else None
    request = build.Request(
        prebuilt, cast(Flavour, flavour), suite, output or cache.path_of(prebuilt), signing
    )
    started = time.monotonic()
    try:
        path = build.build(request, say)
    except Failed as error:
        say(f"error: {error}\nnothing was written ({time.monotonic() - started:.0f} s)")
        return error.code
    except OSError as error:
        where = request.output.parent
        say(
            f"error: {error}; nothing was written. Next: make {where} writable, with 3 GB free, or choose --output"
        )
        return 1
    except KeyboardInterrupt:
        say("interrupted: nothing was written, nothing is left behind")
        return EXIT_INTERRUPTED
    print(path)  # noqa: T201
    return EXIT_DONE


def refuse(asked: Mapping[str, Any]) -> None:
    """What ``run`` would refuse of what could be read of a command line. Raises ValueError."""
    named = (
        asked["version"] or _ANY,
        asked["kernel"] or _SOME_KERNEL,
        asked["flavour"] or "open",
        "bookworm" if asked["suite"] is None else asked["suite"],
    )
    if wrong := _wrong(*named, asked["sign_key"], asked["sign_cert"], asked["output"]):
        raise ValueError("\n".join(wrong))


def _wrong(
    version: str,
    kernel: str,
    flavour: str,
    suite: str,
    key: Path | None,
    certificate: Path | None,
    output: Path | None,
) -> list[str]:
    wrong = []
    unknown = drivers.wrong(version)
    if unknown:
        wrong.append(f"--driver: {unknown}")
    if Prebuilt.parse(Prebuilt(version if not unknown else _ANY, flavour, kernel).name) is None:
        wrong.append(
            f"--kernel: {kernel!r} has not the form of a kernel release, like '6.1.0-50-amd64' (uname -r)"
        )
    suites = [row.codename for row in SUITES if row.id == "debian"]
    if suite not in suites:
        # Judged here, also where an archive is found: its name does not tell the suite that it was asked for.
        wrong.append(f"--suite: {suite!r} is no Debian suite that a driver is built in: {', '.join(suites)}")
    if (key is None) != (certificate is None):
        wrong.append("--sign-key and --sign-cert go together: a signature needs both")
    for name, path in (("--sign-key", key), ("--sign-cert", certificate)):
        if path is not None and not path.is_file():
            wrong.append(f"{name}: {path} is no file")
    if output is not None and output.is_dir():
        wrong.append(f"--output: {output} is a folder; give the file's name")
    elif output is not None and not output.absolute().parent.is_dir():
        wrong.append(
            f"--output: {output.absolute().parent} is no folder; make it first, or name a file in one that is there"
        )
    return wrong
