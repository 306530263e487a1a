"""Frames: a stream that comes in pieces of any size, read by the server and by the client."""

import struct
from collections.abc import Iterator

from headwater.errors import CorruptBatchError, RecordTooLargeError
from headwater.wire.frames import (
    FrameAssembler,
    ResponseKind,
    request_frame,
    request_head,
    response_frame,
    response_head,
)
from tests.fuzz.target import Target

FRAME_BYTES_MAX = 512 * 1024
_SIZES = (1, 2, 3, 5, 64, 1000, 65536, 70_000)


def assembled(stream: bytes, sizes: list[int]) -> list[bytes]:
    """Feed a stream in pieces, as a socket would."""
    assembler = FrameAssembler(frame_bytes_max=FRAME_BYTES_MAX)
    frames, position, turn = [], 0, 0
    while position < len(stream):
        room = assembler.buffer()
        assert len(room), "a reader that has no room waits for ever"
        piece = stream[position : position + min(sizes[turn % len(sizes)], len(room))]
        room[: len(piece)] = piece
        frames += [bytes(frame) for frame in assembler.filled(len(piece))]
        assert assembler.wanted_bytes <= FRAME_BYTES_MAX
        if assembler.wanted_bytes:
            assembler.make_room()
        position, turn = position + len(piece), turn + 1
    return frames


def expected(stream: bytes) -> Iterator[bytes]:
    """Cut a whole stream into its frames."""
    position = 0
    while position + 4 <= len(stream):
        (length,) = struct.unpack_from(">i", stream, position)
        if not 0 <= length <= FRAME_BYTES_MAX:
            raise CorruptBatchError("no length of a frame")
        if position + 4 + length > len(stream):
            return
        yield stream[position + 4 : position + 4 + length]
        position += 4 + length


def read_stream(data: bytes) -> None:
    """Read a stream whose first bytes say in which pieces it comes."""
    sizes = [_SIZES[byte % len(_SIZES)] for byte in data[:4]] or [1]
    stream = data[4:]
    frames = assembled(stream, sizes)
    assert frames == list(expected(stream))
    for frame in frames:
        assert request_frame(memoryview(frame)).size == len(frame)


def read_answers(data: bytes) -> None:
    for frame in assembled(data, [1000]):
        response_frame(memoryview(frame))


def requests() -> list[bytes]:
    bodies = [b"", b"\x0a\x05fluss", bytes(1000), bytes(66_000)]
    framed = [request_head(1003, 0, n, body_bytes=len(b)) + b for n, b in enumerate(bodies)]
    return [bytes([turn, 3, 5, 6]) + b"".join(framed) for turn in range(8)]


def answers() -> list[bytes]:
    bodies = [b"", b"\x0a\x05fluss", bytes(1000)]
    return [
        b"".join(response_head(kind, 7, body_bytes=len(body)) + body for body in bodies)
        for kind in ResponseKind
    ]


REFUSALS = (CorruptBatchError, RecordTooLargeError)
TARGETS = (
    Target("frames of requests", read_stream, requests, REFUSALS),
    Target("frames of answers", read_answers, answers, REFUSALS),
)
