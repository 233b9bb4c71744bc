"""A service asked as it runs: with the key of its process, and where it was last seen generating.

What the inventory says of key and address is not in effect until a cut-over has put it there.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pyinfra.api.host import Host

from provision.data.engines import KEY_VARIABLES
from provision.host import transport
from provision.stack.desired import PYTHON, PYZ, DesiredService

_HEAD = """
set -u
pid=$(systemctl show -p MainPID --value {unit} 2>/dev/null)
# Through a pipe alone: no file, no argument and no variable that a child inherits ever holds it.
key() {{
  [ "${{pid:-0}}" = 0 ] || tr '\\0' '\\n' <"/proc/$pid/environ" 2>/dev/null |
    sed -n 's/^\\({keys}\\)=\\(..*\\)$/\\2/p' | head -n 1
}}
url=$(cat {good}.url 2>/dev/null)
url=${{url:-{url}}}
"""

_ASK = """
ask() {{ {ask} "$url" {words} "$@"; }}
if [ -n "$(key)" ]; then key | ask --api-key-file /dev/stdin; else ask </dev/null; fi
"""


_LOOK = """
k=$(key) file={file}
if [ -z "$k" ]; then has=none; elif [ "$k" = "$(cat "$file" 2>/dev/null)" ]; then has=same; else has=other; fi
printf '%s %s' "$has" "$url"
"""


def asked(desired: DesiredService, command: str, words: Sequence[str]) -> str:
    """A script for the guest: ``provcheck COMMAND`` at what runs, ``words`` behind its address; its exit code."""
    ask = _ASK.format(ask=shlex.join([PYTHON, PYZ, command]), words=shlex.join(words))
    return _head(desired) + ask


def _head(desired: DesiredService) -> str:
    return _HEAD.format(
        unit=shlex.quote(desired.service.unit),
        keys="\\|".join(KEY_VARIABLES),
        good=shlex.quote(desired.good_path),
        url=desired.url,
    )


def by_hand(host: Host, desired: DesiredService) -> str:
    """The command with which somebody in the guest looks at what runs. Raises OSError."""
    look = _head(desired) + _LOOK.format(file=shlex.quote(desired.key_path))
    key, _, url = transport.run(host, look, timeout=60).text.partition(" ")
    command = f"provcheck serve {url or desired.url} --diagnose"
    if key == "same":
        return f"{command} --api-key-file {desired.key_path}"
    if key == "other":
        return (
            f"{command} --api-key-file FILE (the key that it runs with is in {desired.environment_path}; "
            f"{desired.key_path} has the next one already)"
        )
    return command
