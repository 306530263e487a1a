"""What the kernel tells clients, and asks them: those that are gone without a word are noticed."""

import socket
from contextlib import suppress

IDLE_S = 60
PROBE_S = 15
PROBES = 4
# Also where answers wait to be taken, when the kernel sends no probes.
UNTAKEN_MS = 1000 * (IDLE_S + PROBE_S * PROBES)


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel ask a silent client whether it is there, and end the connection if not."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        "TCP_KEEPIDLE": IDLE_S,
        "TCP_KEEPALIVE": IDLE_S,  # what macOS calls the same
        "TCP_KEEPINTVL": PROBE_S,
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": UNTAKEN_MS,
    }
    for name, value in wanted.items():
        # Not every system has a name for each of them.
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def acknowledge(connection: socket.socket) -> None:
    """Let the kernel tell a client at once that all it sent has come.

    Otherwise it waits some 40 ms for an answer to send along. A client whose own kernel joins small
    packets (Nagle's algorithm) holds back its next request until then.
    """
    option = getattr(socket, "TCP_QUICKACK", None)  # Linux has it
    if option is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    descriptor = connection.fileno()
    if descriptor < 0:  # it is gone
        return
    with suppress(OSError):
        # What a transport gives out as its socket may copy the descriptor for every call.
        borrowed = socket.socket(connection.family, connection.type, 0, descriptor)
        try:
            borrowed.setsockopt(socket.IPPROTO_TCP, option, 1)
        finally:
            borrowed.detach()
