"""Redis as a baseline: the same rows as opaque values, through an equally thin client."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def is_installed() -> bool:
    """Tell whether there is a Redis server on this machine."""
    return shutil.which("redis-server") is not None


@contextmanager
def running(directory: Path) -> "Iterator[Redis | None]":
    """Run a server that keeps everything in memory, where Redis is installed."""
    if not is_installed():
        yield None
        return
    port = _free_port()
    command = ["redis-server", "--port", str(port), "--save", "", "--bind", "127.0.0.1"]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL) as process:
        try:
            yield Redis(_connected(port), process.pid, port)
        finally:
            process.terminate()


class Redis:
    """Send commands and read answers, as thin as Python allows."""

    def __init__(self, connection: socket.socket, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port
        self._socket = connection
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = connection.makefile("rb", buffering=1 << 20)

    def set_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Set keys to values."""
        self._send([b"MSET", *(part for pair in pairs for part in pair)])
        self._file.readline()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys."""
        self._send([b"MGET", *keys])
        count = int(self._file.readline()[1:])
        return [self._bulk() for _ in range(count)]

    def get(self, key: bytes) -> bytes | None:
        """Return the value of one key."""
        self._send([b"GET", key])
        return self._bulk()

    def _send(self, parts: Sequence[bytes]) -> None:
        pieces = [b"*%d\r\n" % len(parts)]
        for part in parts:
            pieces += (b"$%d\r\n" % len(part), part, b"\r\n")
        self._socket.sendall(b"".join(pieces))

    def _bulk(self) -> bytes | None:
        length = int(self._file.readline()[1:])
        return None if length < 0 else self._file.read(length + 2)[:-2]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _connected(port: int) -> socket.socket:
    for _ in range(500):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise ConnectionError("Redis did not start.")
