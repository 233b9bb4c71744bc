"""A machine that goes away and comes back: its connection is dropped and made again, for it and all its guests."""

from __future__ import annotations

import contextlib
import socket

from pyinfra.api.exceptions import ConnectError
from pyinfra.api.host import Host
from pyinfra.connectors.ssh import SSHConnector

from provision.host import transport

SILENCE_SECONDS = 60
"""How long what was sent may go unacknowledged (tcp(7), TCP_USER_TIMEOUT); Linux itself waits a quarter of an hour."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""Random for each boot of the kernel (proc_sys_kernel(5)): uptimes can be compared wrongly, this cannot."""


def boot_id(host: Host, timeout: float = 20) -> str:
    """Raises OSError (TransportError) when the machine does not answer or has none."""
    done = transport.run(host, f"cat {BOOT_ID}", timeout=timeout)
    if not done.ok or not done.text.strip():
        raise transport.TransportError(f"{host.name}: {BOOT_ID} cannot be read: {done.error_text}")
    return done.text.strip()


def drop(host: Host) -> None:
    """Ends the connection on this side, whatever became of the other (pyinfra's disconnect leaves it open)."""
    client = host.connector.client if isinstance(host.connector, SSHConnector) else None
    with contextlib.suppress(OSError, EOFError):
        if client is not None:
            client.close()
    host.disconnect()


def connect(host: Host) -> str | None:
    """One attempt; None when it is connected, else why not.

    Guests' connectors keep nothing of a connection: they go through the new one without being told.
    """
    try:
        host.connect(show_errors=False, raise_exceptions=True)
    except ConnectError as error:
        # Paramiko gives up waiting and leaves its thread with the half-open connection.
        drop(host)
        return str(error)
    notice_silence(host)
    return None


def notice_silence(host: Host) -> None:
    """From now on a connection whose other end is gone without a word is known to be broken after SILENCE_SECONDS."""
    connector = host.connector
    if not isinstance(connector, SSHConnector) or connector.client is None:
        return
    way = connector.client.get_transport()
    if way is None or not way.is_active():
        return
    way.set_keepalive(SILENCE_SECONDS // 4)
    # A jump host's channel and a proxy's command are no sockets; what they stand on has its own ways to notice.
    if isinstance(way.sock, socket.socket):
        with contextlib.suppress(OSError):
            way.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_SECONDS * 1000)


def alive(host: Host) -> bool:
    """Does the connection still stand, as far as this side knows? A machine without one of its own always does."""
    connector = host.connector
    if not isinstance(connector, SSHConnector):
        return True
    way = connector.client.get_transport() if host.connected and connector.client is not None else None
    return way is not None and way.is_active()
