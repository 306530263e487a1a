"""Frames: how requests and responses are cut out of a byte stream.

request:  i32 length | i16 api key | i16 api version | i32 request id | body
response: i32 length | u8 kind | i32 request id | body
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from headwater.errors import CorruptBatchError, RecordTooLargeError

LENGTH = struct.Struct(">i")
REQUEST_HEAD = struct.Struct(">hhi")
RESPONSE_HEAD = struct.Struct(">iBi")
REQUEST_ID_BYTES = 4
_TLS_HANDSHAKE = b"\x16\x03"
SMALL_FRAME_BYTES_MAX = 64 * 1024
_SMALL_BODY_BYTES_MAX = SMALL_FRAME_BYTES_MAX - REQUEST_HEAD.size


class ResponseKind(IntEnum):
    """What the body of a response is."""

    ANSWER = 0
    ERROR = 1
    FAILURE = 2


_KINDS = frozenset(ResponseKind)


@dataclass(frozen=True, slots=True)
class RequestFrame:
    """One request as received."""

    api_key: int
    api_version: int
    request_id: int
    body: memoryview

    @property
    def size(self) -> int:
        """Bytes of the frame after its length."""
        return REQUEST_HEAD.size + len(self.body)

    @property
    def is_large(self) -> bool:
        """Tell whether the frame was received into a buffer of its own."""
        return len(self.body) > _SMALL_BODY_BYTES_MAX


@dataclass(frozen=True, slots=True)
class ResponseFrame:
    """One response as received."""

    kind: ResponseKind
    request_id: int
    body: memoryview


def request_frame(data: memoryview) -> RequestFrame:
    """Parse a request from the bytes after its length."""
    if len(data) < REQUEST_HEAD.size:
        raise CorruptBatchError(f"A request of {len(data)} bytes is shorter than its header.")
    key, version, request_id = REQUEST_HEAD.unpack_from(data)
    return RequestFrame(key, version, request_id, data[REQUEST_HEAD.size :])


def response_frame(data: memoryview) -> ResponseFrame:
    """Parse a response from the bytes after its length."""
    if not data or data[0] not in _KINDS:
        raise CorruptBatchError(f"A response of {len(data)} bytes has an unknown kind.")
    kind = ResponseKind(data[0])
    if kind is ResponseKind.FAILURE:
        return ResponseFrame(kind, -1, data[1:])
    if len(data) <= REQUEST_ID_BYTES:
        raise CorruptBatchError(f"A response of {len(data)} bytes is shorter than its header.")
    (request_id,) = LENGTH.unpack_from(data, 1)
    return ResponseFrame(kind, request_id, data[1 + REQUEST_ID_BYTES :])


def request_head(api_key: int, api_version: int, request_id: int, *, body_bytes: int) -> bytes:
    """Encode everything of a request before its body."""
    return LENGTH.pack(REQUEST_HEAD.size + body_bytes) + REQUEST_HEAD.pack(
        api_key, api_version, request_id
    )


def response_head(kind: ResponseKind, request_id: int, *, body_bytes: int) -> bytes:
    """Encode everything of a response before its body."""
    return RESPONSE_HEAD.pack(1 + REQUEST_ID_BYTES + body_bytes, kind, request_id)


class FrameAssembler:
    """Cut a byte stream into frames, receiving large ones without a copy.

    The caller fills `buffer()` and reports with `filled()` how much; complete frames are returned.
    While `wanted_bytes` is not zero a large frame waits for memory: the caller stops reading until
    it has called `make_room()`.
    """

    def __init__(self, *, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        # One more byte would let a large frame slip in whole, without waiting for memory.
        self._small = bytearray(LENGTH.size + SMALL_FRAME_BYTES_MAX)
        self._small_end = 0
        self._large: memoryview | None = None
        self._large_end = 0
        self.wanted_bytes = 0

    @property
    def is_inside_frame(self) -> bool:
        """Tell whether a frame has started and not ended."""
        return self._large is not None or self._small_end > 0

    @property
    def is_tls(self) -> bool:
        """Tell whether what has come, and is no frame, is the beginning of a TLS handshake."""
        return self._small.startswith(_TLS_HANDSHAKE)

    @property
    def receiving_bytes(self) -> int:
        """Size of the large frame that is being received, or 0."""
        return 0 if self._large is None else len(self._large)

    @property
    def received_bytes(self) -> int:
        """Bytes of that large frame received so far."""
        return self._large_end

    def buffer(self) -> memoryview:
        """Return the buffer for the next bytes."""
        if self._large is not None:
            return self._large[self._large_end :]
        return memoryview(self._small)[self._small_end :]

    def filled(self, count: int) -> list[memoryview]:
        """Add `count` new bytes and return the frames that are complete."""
        if self._large is None:
            self._small_end += count
            return self._cut_small()
        self._large_end += count
        if self._large_end < len(self._large):
            return []
        frame, self._large, self._large_end = self._large, None, 0
        return [frame.toreadonly()]

    def make_room(self) -> None:
        """Start receiving the large frame that was announced."""
        assert self.wanted_bytes
        # Arrow's memory pool keeps its pages and does not zero them.
        self._large = memoryview(pa.allocate_buffer(self.wanted_bytes)).cast("B")
        received = self._small_end - LENGTH.size
        self._large[:received] = self._small[LENGTH.size : self._small_end]
        self._large_end, self._small_end, self.wanted_bytes = received, 0, 0

    def _cut_small(self) -> list[memoryview]:
        frames: list[memoryview] = []
        data, start = bytes(memoryview(self._small)[: self._small_end]), 0
        view = memoryview(data)
        while self._small_end - start >= LENGTH.size:
            length = self._checked(LENGTH.unpack_from(data, start)[0])
            end = start + LENGTH.size + length
            if end > self._small_end:
                self.wanted_bytes = length if length > SMALL_FRAME_BYTES_MAX else 0
                break
            frames.append(view[start + LENGTH.size : end])
            start = end
        self._small[: self._small_end - start] = data[start:]
        self._small_end -= start
        return frames

    def _checked(self, length: int) -> int:
        if length < 0:
            raise CorruptBatchError(f"A frame announces a length of {length} bytes.")
        if length > self.frame_bytes_max:
            raise RecordTooLargeError(
                f"A frame of {length} bytes exceeds the limit of {self.frame_bytes_max}.",
                hint="Send smaller requests.",
            )
        return length
