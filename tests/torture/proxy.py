"""A wire that misbehaves between client and server: delays, trickles, cuts in the middle."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

READ_BYTES = 64 * 1024


@dataclass(slots=True)
class Wire:
    """Say how bytes travel, each way; may be changed at any time."""

    delay_s: float = 0.0
    piece_bytes: int = READ_BYTES
    cut_after_bytes: int | None = None
    """Cut a connection after so many bytes of one direction, the next one after twice as many."""
    swallows_answers: bool = False


class Proxy:
    """Carry bytes between clients and one server, as badly as it is told."""

    def __init__(self, port: int, server_port: int) -> None:
        self.wire = Wire()
        self.cuts = 0
        self._port = port
        self._server_port = server_port
        self._carriers: set[asyncio.Task] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._carriers, return_exceptions=True)

    def cut(self) -> None:
        """Cut every connection, wherever it is."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _accept(self, reader, writer) -> None:
        try:
            to, back = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        both = (writer, back)
        self._writers.update(both)
        for source, sink, is_answer in ((reader, back, False), (to, writer, True)):
            task = asyncio.ensure_future(self._carry(source, sink, both, is_answer))
            self._carriers.add(task)
            task.add_done_callback(self._carriers.discard)

    async def _carry(self, source, sink, both, is_answer: bool) -> None:
        carried = 0
        with suppress(ConnectionError, asyncio.CancelledError):
            while data := await source.read(self.wire.piece_bytes):
                carried += len(data)
                if self.wire.delay_s:
                    await asyncio.sleep(self.wire.delay_s)
                if is_answer and self.wire.swallows_answers:
                    continue
                if self.wire.cut_after_bytes is not None and carried > self.wire.cut_after_bytes:
                    self.cuts += 1
                    self.wire.cut_after_bytes *= 2
                    sink.write(data[: len(data) // 2])  # the middle of a frame, as a rule
                    break
                sink.write(data)
                await sink.drain()
        for each in both:
            self._writers.discard(each)
            each.close()
