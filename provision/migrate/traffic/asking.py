"""One HTTP request after another to an address, sent from a host that a way leads to, and what came back of each.

Nothing is installed there: perl-base has IO::Socket::IP and is essential in Debian and Ubuntu (Debian policy, 3.8);
else python3 does it, which TLS needs in any case. A key goes by standard input into a header, and into no argument.
"""

from __future__ import annotations

import http.client
import io
import shlex
from collections.abc import Sequence

from provision.host.transport import TransportError
from provision.migrate.traffic.messages import Address, Reply, Request
from provision.migrate.traffic.ways import Way

SECONDS = 30
"""For one answer, also of a service that has many requests at once."""

MOST = 8 << 20
"""Bytes of one answer."""

_PERL = r"""
use IO::Socket::IP; use Socket qw(SOCK_STREAM); binmode STDIN; binmode STDOUT; $| = 1; $SIG{PIPE} = "IGNORE";
while (my $head = <STDIN>) {
  my ($host, $port, $tls, $seconds, $most, $size) = split " ", $head;
  my ($ask, $said, $at) = ("", "", "connect");
  $size == (read(STDIN, $ask, $size) // -1) or exit 8;
  eval {
    local $SIG{ALRM} = sub { die "no answer within $seconds s\n" }; alarm $seconds;
    my $peer = IO::Socket::IP->new(PeerHost => $host, PeerPort => $port, Type => SOCK_STREAM) or die "$@\n";
    $at = "read"; print $peer $ask; $peer->flush;
    while (length $said < $most) { my $got = sysread($peer, $said, 65536, length $said); last unless $got }
    alarm 0; 1;
  } or do { alarm 0; chomp(my $why = "$@"); $said = "$at $why" if $at eq "connect" or $said eq ""; };
  $at = "said" if $at eq "read" and $said !~ /^read /;
  printf "%s %d\n%s", $at, length $said, $said;
}
"""

_PYTHON = r"""
import socket, ssl, sys
for head in sys.stdin.buffer:
    host, port, tls, seconds, most, size = head.decode().split()
    ask, said, at = sys.stdin.buffer.read(int(size)), b"", "connect"
    try:
        with socket.create_connection((host, int(port)), float(seconds)) as peer:
            at = "read"
            if tls != "-":
                context = ssl.create_default_context() if tls == "name" else ssl._create_unverified_context()
                peer = context.wrap_socket(peer, server_hostname=host)
            peer.sendall(ask)
            while len(said) < int(most) and (data := peer.recv(65536)): said += data
    except (OSError, ValueError) as error:
        if not said: said = f"{at} {getattr(error, 'strerror', None) or error}".encode()
    if at == "read" and not said.startswith(b"read "): at = "said"
    sys.stdout.buffer.write(b"%s %d\n%s" % (at.encode(), len(said), said)); sys.stdout.buffer.flush()
"""

_SCRIPT = """
if {perl_does} && command -v perl >/dev/null; then exec perl -e {perl}; fi
if command -v python3 >/dev/null; then exec python3 -c {python}; fi
echo {missing} >&2
exit 5
"""


class NotAsked(TransportError):
    """The host could not send a request at all."""


def ask(way: Way, at: Address, requests: Sequence[Request], seconds: int = SECONDS) -> list[Reply]:
    """What each was answered. Raises NotAsked, and TransportError where the host is not reached."""
    sent = b""
    for request in requests:
        data = request.bytes_to(at)
        sent += f"{at.host} {at.port} {at.tls or '-'} {seconds} {MOST} {len(data)}\n".encode() + data
    missing = (
        "it has no python3, which TLS needs" if at.tls else "it has neither perl nor python3 to ask with"
    )
    script = _SCRIPT.format(
        perl_does="false" if at.tls else "true",
        perl=shlex.quote(_PERL),
        python=shlex.quote(_PYTHON),
        missing=shlex.quote(missing),
    )
    done = way(script, sent, seconds * len(requests) + 30.0)
    if not done.ok:
        raise NotAsked(done.error_text.splitlines()[-1] if done.error_text else f"exit {done.rc}")
    rest, found = done.stdout, []
    for _ in requests:
        head, _, rest = rest.partition(b"\n")
        kind, _, size = head.partition(b" ")
        if not size.decode("ascii", "replace").isdecimal() or len(rest) < int(size):
            raise NotAsked("what it was answered came cut off")
        found.append(_reply(kind.decode("ascii", "replace"), rest[: int(size)]))
        rest = rest[int(size) :]
    return found


def _reply(kind: str, said: bytes) -> Reply:
    if kind in ("connect", "read"):
        why = "".join(char for char in said.decode("utf-8", "replace")[:200] if char.isprintable())
        why = why.partition(" ")[2] or "no reason given"
        if kind == "connect":
            return Reply("closed", why=f"it takes no connection ({why})")
        return Reply("mute", why=f"it takes the connection and does not answer ({why})")
    if not said:
        return Reply("mute", why="it takes the connection and closes it without an answer")
    try:
        parsed = http.client.HTTPResponse(_Said(said))  # type: ignore[arg-type]
        parsed.begin()
        return Reply("answered", parsed.status, parsed.read().decode("utf-8", "replace"))
    except (http.client.HTTPException, ValueError, OSError) as error:
        return Reply(
            "odd", why=f"what it answers is not understood ({type(error).__name__}: {str(error)[:80]!r})"
        )


class _Said:
    """As much of a socket as http.client reads an answer from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)
