"""A connection of the server: bytes in pieces, answers, and what it gives back at its end."""

import asyncio
import struct

from headwater.config.server import ServerSettings
from headwater.errors import CorruptBatchError
from headwater.runtime.clock import SystemClock
from headwater.server.connection import Answer, Connection, Session
from headwater.server.memory import Budget
from headwater.wire.frames import LENGTH, REQUEST_HEAD, RequestFrame, ResponseKind
from tests.clocks import loop_turns
from tests.fuzz.target import Target
from tests.fuzz.targets_frames import FRAME_BYTES_MAX, expected, requests

ROOM = 4 * FRAME_BYTES_MAX
_SETTINGS = ServerSettings(request_bytes_max=FRAME_BYTES_MAX)
_SIZES = (1, 3, 100, 1000, 65536)
_TURNS = 3


class Transport(asyncio.Transport):
    """Keep what is written; a connection that is dropped ends at once."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_paused = self._is_closing = False

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def is_closing(self) -> bool:
        return self._is_closing

    def abort(self) -> None:
        self._is_closing = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class Registry:
    """Know one connection."""

    def opened(self, connection: Connection) -> None:
        pass

    def closed(self, connection: Connection) -> None:
        pass

    def logged_in(self, connection: Connection) -> None:
        pass

    def dropped(self, connection: Connection, reason: str) -> None:
        pass

    def unsent_grew(self) -> None:
        pass


async def echo(frame: RequestFrame, _: Session) -> Answer:
    return ResponseKind.ANSWER, [struct.pack(">q", len(frame.body))]


def serve_stream(data: bytes) -> None:
    asyncio.run(_serve(data))


async def _serve(data: bytes) -> None:
    """Serve a stream whose first bytes say in which pieces it comes."""
    budget, transport = Budget(ROOM), Transport()
    connection = Connection(
        echo, Registry(), requests=budget, settings=_SETTINGS, clock=SystemClock()
    )
    connection.connection_made(transport)
    stream, sizes = data[4:], [_SIZES[byte % len(_SIZES)] for byte in data[:4]] or [1]
    await _feed(connection, transport, stream, sizes)
    await _answered(connection)
    if not transport.is_closing():
        assert not transport.is_paused, "nobody reads on, and nobody ever will"
        assert transport.written == b"".join(_answers(stream))
    connection.connection_lost(None)
    await _answered(connection)
    assert budget.used_bytes == 0, "bytes of a connection that ended are still counted"


async def _feed(
    connection: Connection, transport: Transport, stream: bytes, sizes: list[int]
) -> None:
    position = turn = 0
    while position < len(stream) and not transport.is_closing():
        if transport.is_paused:
            await _answered(connection)
            assert not transport.is_paused, "nobody reads on, and nobody ever will"
        room = connection.get_buffer(-1)
        piece = stream[position : position + min(sizes[turn % len(sizes)], len(room))]
        room[: len(piece)] = piece
        connection.buffer_updated(len(piece))
        position, turn = position + len(piece), turn + 1


async def _answered(connection: Connection) -> None:
    """Let requests that came end, though some begin later than others, and what they call."""
    await loop_turns(_TURNS * (1 + connection._under_way))


def _answers(stream: bytes) -> list[bytes]:
    answers = []
    for frame in expected(stream):
        _, _, request_id = REQUEST_HEAD.unpack_from(frame)
        body = struct.pack(">q", len(frame) - REQUEST_HEAD.size)
        head = LENGTH.pack(1 + 4 + len(body)) + struct.pack(">Bi", ResponseKind.ANSWER, request_id)
        answers.append(head + body)
    return answers


TARGETS = (Target("connections", serve_stream, requests, (CorruptBatchError,)),)
