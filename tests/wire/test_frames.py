"""Frames are cut out of a byte stream however it is chopped."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError, RecordTooLargeError
from headwater.wire.frames import (
    SMALL_FRAME_BYTES_MAX,
    FrameAssembler,
    ResponseKind,
    request_frame,
    request_head,
    response_frame,
    response_head,
)
from tests.cases import cases

LIMIT = 1 << 20


def feed(assembler: FrameAssembler, data: bytes, chunk: int) -> list[bytes]:
    frames, rest = [], memoryview(data)
    while rest:
        buffer = assembler.buffer()
        count = min(len(buffer), len(rest), chunk)
        buffer[:count] = rest[:count]
        rest = rest[count:]
        frames += [bytes(frame) for frame in assembler.filled(count)]
        if assembler.wanted_bytes:
            assembler.make_room()
    return frames


sizes = st.one_of(
    st.integers(0, 300),
    st.integers(SMALL_FRAME_BYTES_MAX - 6, SMALL_FRAME_BYTES_MAX + 6),
    st.integers(0, 200_000),
)


@given(st.lists(sizes, max_size=6), st.integers(1, 100_000))
def test_frames_come_out_whole_whatever_the_chunks(lengths, chunk):
    bodies = [bytes([n % 251]) * length for n, length in enumerate(lengths)]
    stream = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    assembler = FrameAssembler(frame_bytes_max=LIMIT)

    frames = feed(assembler, stream, max(chunk, len(stream) // 1000))

    assert frames == bodies
    assert not assembler.is_inside_frame


@cases("length", [LIMIT + 1, 2**31 - 1])
def test_a_frame_over_the_limit_is_refused_before_room_is_made(length):
    assembler = FrameAssembler(frame_bytes_max=LIMIT)

    with pytest.raises(RecordTooLargeError):
        feed(assembler, struct.pack(">i", length), 4)


def test_a_negative_length_is_refused():
    with pytest.raises(CorruptBatchError):
        feed(FrameAssembler(frame_bytes_max=LIMIT), struct.pack(">i", -1), 4)


def test_a_large_frame_waits_for_room():
    assembler = FrameAssembler(frame_bytes_max=LIMIT)
    assembler.buffer()[:6] = struct.pack(">i", 100_000) + b"xx"

    frames = assembler.filled(6)

    assert frames == []
    assert assembler.wanted_bytes == 100_000
    assembler.make_room()
    assert assembler.receiving_bytes == 100_000
    assert len(assembler.buffer()) == 100_000 - 2


@given(st.integers(0, 2**15 - 1), st.integers(0, 9), st.integers(0, 2**31 - 1), st.binary())
def test_a_request_is_read_as_it_was_written(key, version, number, body):
    data = request_head(key, version, number, body_bytes=len(body)) + body

    frame = request_frame(memoryview(data)[4:])

    assert struct.unpack(">i", data[:4]) == (len(data) - 4,)
    assert (frame.api_key, frame.api_version, frame.request_id) == (key, version, number)
    assert bytes(frame.body) == body


@given(st.sampled_from([ResponseKind.ANSWER, ResponseKind.ERROR]), st.integers(0, 2**31 - 1))
def test_a_response_is_read_as_it_was_written(kind, number):
    data = response_head(kind, number, body_bytes=3) + b"abc"

    frame = response_frame(memoryview(data)[4:])

    assert (frame.kind, frame.request_id, bytes(frame.body)) == (kind, number, b"abc")


def test_a_request_shorter_than_its_header_is_refused():
    with pytest.raises(CorruptBatchError):
        request_frame(memoryview(b"1234567"))
