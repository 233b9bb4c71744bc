"""Commands to an HAProxy's stats socket, over a way to its host: what it answered, each for itself.

perl-base is essential in Debian and Ubuntu (Debian policy, 3.8), so every such host has it; elsewhere python3 does it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from provision.host.transport import TransportError
from provision.migrate.traffic.ways import Way

_PERL = """
use IO::Socket::UNIX; my ($path, $seconds) = @ARGV; my $fail = sub { print STDERR "$_[0]\\n"; exit 7 };
$SIG{ALRM} = sub { $fail->("it took the connection and did not answer within $seconds s") }; alarm $seconds;
while (my $line = <STDIN>) {
  my $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path) or $fail->("$!");
  print $socket $line; $socket->flush; my $said = do { local $/; <$socket> }; $said = "" unless defined $said;
  printf "%d\\n%s", length $said, $said;
}
"""

_PYTHON = """
import socket, sys
path, seconds = sys.argv[1], float(sys.argv[2])
try:
    for line in sys.stdin.buffer:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(seconds); peer.connect(path); peer.sendall(line); said = b""
            while data := peer.recv(65536): said += data
        sys.stdout.buffer.write(b"%d\\n%s" % (len(said), said))
except OSError as error:
    sys.stderr.write(f"{error.strerror or error}\\n"); sys.exit(7)
"""

_SCRIPT = """
if [ ! -e {path} ]; then
  [ -e {folder} ] && echo 'there is no such socket' >&2 || echo 'there is no such folder' >&2
  exit 6
fi
[ -S {path} ] || {{ echo 'it is no socket' >&2; exit 6; }}
if command -v perl >/dev/null; then exec perl -e {perl} {path} {seconds}; fi
if command -v python3 >/dev/null; then exec python3 -c {python} {path} {seconds}; fi
echo 'the host has neither perl nor python3 to speak to it with' >&2
exit 5
"""

_ANSWER_S = 5


class NoSocket(OSError):
    """Nobody answered at the socket; the message says what was seen there."""


def ask(way: Way, path: str, commands: Sequence[str]) -> list[str]:
    """The answers, one for each command. Raises NoSocket, TransportError."""
    script = _SCRIPT.format(
        path=shlex.quote(path),
        folder=shlex.quote(path.rpartition("/")[0] or "/"),
        perl=shlex.quote(_PERL),
        python=shlex.quote(_PYTHON),
        seconds=_ANSWER_S,
    )
    done = way(script, "".join(f"{command}\n" for command in commands).encode(), _ANSWER_S * 3.0 + 15)
    if done.rc in (5, 6, 7):
        raise NoSocket(done.error_text.splitlines()[-1] if done.error_text else f"exit {done.rc}")
    if not done.ok:
        raise TransportError(done.error_text.splitlines()[-1] if done.error_text else f"exit {done.rc}")
    answers, rest = [], done.stdout
    for _ in commands:
        head, _, rest = rest.partition(b"\n")
        if not head.decode("ascii", "replace").isdecimal() or len(rest) < int(head):
            raise NoSocket("its answer was cut off")
        answers.append(rest[: int(head)].decode("utf-8", "backslashreplace"))
        rest = rest[int(head) :]
    return answers
